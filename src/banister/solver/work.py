"""Pieces of work that do not depend on each other, shared among threads or Ray's processors.

Which worker does which piece decides nothing: results come back in the order of the pieces, or each with its
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from banister.errors import PoolError, SettingError
from banister.solver.cluster import connect, free_processors, import_ray
from banister.solver.threads import check_threads, in_threads

Work = Callable[..., Any]


class Workers(Protocol):
    """Whoever does pieces of work."""

    @property
    def shares(self) -> int:
        """Into how many pieces a whole is best cut."""

    def map(self, work: Work, pieces: Sequence[tuple[Any, ...]], *common: Any) -> list[Any]:
        """[work(*piece, *common), …] in the order of the pieces."""

    def close(self) -> None:
        """Let go of whatever is held outside this process."""


class Threads:
    """Threads of this process.

    Args:
        threads: how many; by default BANISTER_THREADS or one a core.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = check_threads(threads)

    @property
    def shares(self) -> int:
        """One piece a thread."""
        return self._threads

    def map(self, work: Work, pieces: Sequence[tuple[Any, ...]], *common: Any) -> list[Any]:
        """[work(*piece, *common), …] in the order of the pieces."""
        return in_threads(self.shares, lambda i: work(*pieces[i], *common), len(pieces))

    def close(self) -> None:
        """Nothing is held."""


HERE = Threads(1)


class RayWorkers:
    """Processors of a Ray cluster (`banister[ray]`), one for each piece under way.

    Args:
        address: of a running cluster ("auto" finds the one of this machine); None starts one here at the
            first piece, and stops it again when this is closed.
        shards: pieces under way at a time; by default as many as processors are free.
        timeout: seconds after which not one more piece being finished is an error.

    Examples:
        >>> with RayWorkers(address="auto") as workers:                 # doctest: +SKIP
        ...     bandit = SafeBandit(alpha=0.1, path="shop.banister", pool=workers)
    """

    def __init__(
        self, *, address: str | None = None, shards: int | None = None, timeout: float = 3600.0
    ) -> None:
        if shards is not None and shards < 1:
            raise SettingError(f"shards={shards!r} must be a whole number of at least 1.")
        self._ray, self.address, self.timeout = import_ray(), address, timeout
        self._wanted, self._owns_cluster = shards, False

    @property
    def shares(self) -> int:
        """Processors to use; connects to the cluster, or starts one."""
        self._owns_cluster |= connect(self._ray, self.address, self._wanted)
        return free_processors(self._ray, self._wanted)

    def map(self, work: Work, pieces: Sequence[tuple[Any, ...]], *common: Any) -> list[Any]:
        """[work(*piece, *common), …] in the order of the pieces."""
        results: list[Any] = [None] * len(pieces)
        for i, result in self.each(work, pieces, *common):
            results[i] = result
        return results

    def each(self, work: Work, pieces: Sequence[tuple[Any, ...]], *common: Any) -> Iterator[tuple[int, Any]]:
        """The number and the result of every piece as it is finished; pieces are begun in their order.

        A piece whose processor dies is done again elsewhere. Whatever ends the loop ends what is under way.
        """
        shares = self.shares
        remote = self._ray.remote(num_cpus=1, max_retries=3)(_one_thread)
        shared = [self._ray.put(value) for value in common]
        numbers, running = iter(range(len(pieces))), {}
        try:
            for i in islice(numbers, shares):
                running[remote.remote(work, *pieces[i], *shared)] = i
            while running:
                done = self._first(list(running))
                result, i = self._result(done), running.pop(done)
                for j in islice(numbers, 1):
                    running[remote.remote(work, *pieces[j], *shared)] = j
                yield i, result
        finally:
            for left in running:
                self._ray.cancel(left, force=True)

    def _first(self, running: list[Any]) -> Any:
        done, _ = self._ray.wait(running, num_returns=1, timeout=self.timeout)
        if not done:
            raise PoolError(
                f"Not one of {len(running)} pieces of work was finished within {self.timeout:g} s; look at "
                "`ray status`, or raise the time-out."
            )
        return done[0]

    def _result(self, done: Any) -> Any:
        try:
            return self._ray.get(done)
        except self._ray.exceptions.RayTaskError as reason:
            raise reason.as_instanceof_cause() from None
        except self._ray.exceptions.RayError as reason:
            raise PoolError(f"A worker was lost and its piece could not be done again: {reason}") from None

    def close(self) -> None:
        """Stop the cluster if it was started here."""
        if self._owns_cluster:
            self._ray.shutdown()
            self._owns_cluster = False

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _one_thread(work: Work, *arguments: Any) -> Any:
    """A piece of work as it is done elsewhere: on one thread, so that numbers are those of one thread."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return work(*arguments)


def as_workers(pool: str | Workers | None) -> Workers:
    """The workers that a setting means: None or "local" are threads of this process."""
    if pool is None:
        return HERE
    if isinstance(pool, str) and pool in ("local", "ray"):
        return Threads() if pool == "local" else RayWorkers()
    if not isinstance(pool, str) and all(hasattr(type(pool), name) for name in ("shares", "map", "close")):
        return pool
    raise SettingError(f"pool={pool!r} is unknown; use 'local', 'ray' or a bn.RayWorkers.")
