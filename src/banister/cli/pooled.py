"""`banister fit --pool`: the shared representation of rows too many for one process."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from banister.errors import InputError, SettingError

if TYPE_CHECKING:
    from banister.estimators.altgdmin import AltGDmin
    from banister.solver import Pool, Trip

_QUIET = 10.0  # seconds between lines where the output is no terminal


def fit_pool(
    folder: Path, out: Path, *, pool: str, address: str | None, shards: int | None, rank: int | None
) -> dict[str, Any]:
    """Fit a packed folder, write the model, and say how it went."""
    from banister.estimators.altgdmin import AltGDmin

    if out.exists():
        raise InputError(f"There is a file at {str(out)!r} already; remove it, or choose another name.")
    with _open(folder, pool, address, shards) as opened, _Progress() as opened.watch:
        model = AltGDmin(rank="auto" if rank is None else rank).fit_data(opened)
    _write(model, out)
    return {
        "model": str(out),
        "tasks": len(model.tasks_),
        "rank": model.rank_,
        "passes": model.n_passes_,
        "converged": model.converged_,
        "noise_std": model.noise_std_,
        "warnings": model.warnings_,
    }


def _open(folder: Path, pool: str, address: str | None, shards: int | None) -> Pool:
    from banister.solver import DiskPool, RayPool

    if pool == "ray":
        return RayPool(folder, address=address, shards=shards)
    if pool != "disk":
        raise SettingError(f"--pool {pool} is unknown; use disk or ray.")
    return DiskPool(folder, threads=shards)


def _write(model: AltGDmin, out: Path) -> None:
    """Arrays alone, no pickle: Θ = B W, one column for each of `tasks`."""
    with out.open("wb") as file:
        np.savez(
            file, B=model.B_, W=model.W_, tasks=model.tasks_, noise_std=model.noise_std_,
            prior_mean=model.prior_mean_, prior_cov=model.prior_cov_,
        )  # fmt: skip


class _Progress:
    """Passes, shards and rows a second, on stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._screen = Console(stderr=True)
        self._status = Status("reading", console=self._screen)
        self._passes, self._told = 0, monotonic()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __call__(self, trip: Trip) -> None:
        self._passes += trip.method in ("gradient", "hessian")
        speed = trip.rows / max(trip.seconds, 1e-9)
        words = f"{self._passes} passes on {trip.shards} shards, {speed:,.0f} rows a second"
        self._status.update(words)
        if not self._screen.is_terminal and monotonic() - self._told > _QUIET:
            self._screen.print(words, highlight=False)
            self._told = monotonic()

    def __exit__(self, *_: object) -> None:
        self._status.stop()
