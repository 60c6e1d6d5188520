"""`FromLogs`: what a bandit does with logs of the policy in place: learn from them, or try itself on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from banister.data import Number
from banister.errors import InputError
from banister.features.base import Features
from banister.features.baseline import Baseline
from banister.features.frames import Logs, read_frame
from banister.online import raw
from banister.online.door import check_number
from banister.online.engine import Engine
from banister.online.log_blocks import Log
from banister.online.logs import LogRows, read_logs, rows_a_day
from banister.online.raw import RawRows
from banister.online.settings import Settings

if TYPE_CHECKING:
    from banister.online.dry_run import DryRun


class FromLogs:
    """Reads logs for an engine, as feature rows or through the bandit's features."""

    settings: Settings
    features: Features | None
    _engine: Engine
    _lock: threading.RLock

    def refit(self, *, wait: bool = True) -> int:
        """Fit everything seen."""
        raise NotImplementedError

    def warm_start(
        self,
        logs: Logs | LogRows | RawRows,
        *,
        task: str = "task",
        reward: str = "reward",
        features: str | Sequence[str] = "f*",
        baseline_reward: str | None = None,
        actions: str | None = None,
        arm: str = "arm",
        baseline: Baseline | None = None,
        propensity: str | None = None,
        refit: bool = True,
    ) -> int:
        """Learn from logs of the policy in place, before the first decision; the number of rows taken in.

        Args:
            logs: a path (.parquet, .csv), a polars or pandas DataFrame, a mapping of columns, or what
                `read_logs` made of one. The same log is taken in once, so a call that failed may be repeated.
            task, reward, features, baseline_reward, actions, baseline, propensity: names of columns, see
                `banister.online.logs.read_logs`. For a bandit with `features` see
                `banister.online.raw.read_raw_logs`.
            arm: for a bandit with `features`, the column that names what was played.
            refit: fit at once.
        """
        if not isinstance(refit, (bool, np.bool_)):
            raise InputError(f"refit={refit!r} must be True or False.")
        columns: dict[str, Any] = {
            "task": task, "reward": reward, "baseline_reward": baseline_reward, "baseline": baseline,
            "propensity": propensity,
        }  # fmt: skip
        rows: Log
        if isinstance(logs, LogRows | RawRows):
            rows = logs
        elif self.features is not None:
            rows = raw.learn(self, logs, arm=arm, **columns)
        else:
            rows = read_logs(logs, features=features, actions=actions, **columns)
        with self._lock:
            self._engine.warm_start(rows, self.features)
        if refit:
            self.refit()
        return len(rows)

    def dry_run(
        self,
        logs: Logs,
        *,
        task: str = "task",
        reward: str = "reward",
        features: str | Sequence[str] = "f*",
        baseline_reward: str | None = None,
        actions: str | None = None,
        arm: str = "arm",
        baseline: Baseline | None = None,
        propensity: str | None = None,
        time: str | None = None,
        share: Number = 0.5,
    ) -> DryRun:
        """What would happen on these logs, before going live; nothing changes.

        Args:
            logs, task, reward, features, baseline_reward, actions, arm, baseline, propensity: as in
                `warm_start`.
            time: a column of dates or times, to tell how many days a need takes.
            share: of the rows, in their order, that are fitted; the rest are judged.
        """
        from banister.online.dry_run import dry_run

        columns: dict[str, Any] = {
            "task": task, "reward": reward, "baseline_reward": baseline_reward, "baseline": baseline,
            "propensity": propensity,
        }  # fmt: skip
        frame = read_frame(logs)
        if self.features is not None:
            rows = raw.offers(self.features, frame, arm=arm, **columns)
        else:
            rows = read_logs(frame, features=features, actions=actions, **columns)
        rate = None if time is None else rows_a_day(frame, time)
        return dry_run(rows, self.settings, share=check_number(share, "share"), rate=rate)
