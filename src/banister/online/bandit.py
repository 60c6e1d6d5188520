"""`SafeBandit`: the object an application holds."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from numpy.typing import ArrayLike

from banister.data import Number, Whole, plain
from banister.errors import InputError, UnknownDecisionError
from banister.features.base import Features
from banister.features.baseline import Baseline
from banister.features.frames import Logs
from banister.online import files, raw
from banister.online._digest import digests
from banister.online.audit import Audit, audit
from banister.online.batch import check_batch, decide_batch
from banister.online.decision import Decision
from banister.online.door import check_id, check_number, check_request
from banister.online.engine import Engine
from banister.online.logs import LogRows, read_logs
from banister.online.refitter import Refitter
from banister.online.settings import Settings
from banister.online.status import Status, status_of
from banister.online.store import Played

if TYPE_CHECKING:
    from banister.online.dry_run import DryRun


class SafeBandit:
    """Improves many related decisions at once; no task may be expected to earn less than its floor.

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        features: `bn.Arms` or `bn.Items`, to decide from raw contexts. What a log teaches them is kept with
            the store; the object given stays as it is, the bandit's own is `bandit.features`.
        path: where the model is kept, with its ledger beside it (`path` + ".ledger"). Every decision and
            reward is durable before the call returns. A store that exists is continued. None: memory.
        confidence: of all bounds together.
        rank: how many directions tasks share; None to find it in the data.
        literal_floor: the paper's `(1−α) r_b` also where `r_b` is negative.
        mixing: whether the mixture `(1−ρ)x_b + ρζ` can be played while nothing is certified; it needs
            `norm_bound`.
        norm_bound: a bound on every ‖θ_t‖, for Lemma l8's ρ.
        max_mixtures: how many mixtures may be played in all; its union bound counts them.
        drift_guard: shut a task's gate when its recent rewards no longer fit the model.
        refits: "background" (a thread), "inline" (inside the call that makes it due) or "manual".
        growth: share by which rewards must grow before the next refit; None: 0.2 while every gate is shut,
            then 0.5.
        durability: "normal" survives the death of the process, "full" also that of the machine, with an
            fsync a call.
        expire_after: seconds after which a reward comes too late; None: never.
        keep_actions: keep whole action sets in the ledger, so that an audit can repeat the whole choice.
        keep_models: keep every model version, so that an audit can repeat its decisions; else only the last.
        seed: of all randomness; None draws one.

    Examples:
        >>> import numpy as np
        >>> from banister import SafeBandit
        >>> bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
        >>> d = bandit.decide(task="store-17", actions=np.eye(3), baseline=1, baseline_reward=0.42)
        >>> d.action, d.certified, round(d.floor, 3), d.reason
        (1, False, 0.378, 'fallback:no-data')
        >>> bandit.reward(d.id, 0.61), bandit.reward(d.id, 0.61)
        ('accepted', 'duplicate')
    """

    def __init__(
        self,
        alpha: Number = 0.1,
        *,
        features: Features | None = None,
        path: str | Path | None = None,
        confidence: Number = 0.95,
        rank: Whole | None = None,
        literal_floor: bool = False,
        mixing: bool = False,
        norm_bound: Number | None = None,
        max_mixtures: Whole = 100_000,
        drift_guard: bool = True,
        refits: Literal["background", "inline", "manual"] = "background",
        growth: Number | None = None,
        durability: Literal["normal", "full"] = "normal",
        expire_after: Number | None = None,
        keep_actions: bool = False,
        keep_models: bool = True,
        seed: Whole | None = None,
    ) -> None:
        settings = Settings(
            alpha=plain(alpha), confidence=plain(confidence), rank=plain(rank),
            literal_floor=plain(literal_floor), mixing=plain(mixing), norm_bound=plain(norm_bound),
            max_mixtures=plain(max_mixtures), drift_guard=plain(drift_guard), refits=refits,
            growth=plain(growth), durability=durability, expire_after=plain(expire_after),
            keep_actions=plain(keep_actions), keep_models=plain(keep_models),
            seed=secrets.randbits(63) if seed is None else plain(seed),
        )  # fmt: skip
        self._start(settings, files.check_path(path))
        self.features = raw.settled(self, features)

    def _start(self, settings: Settings | None, path: Path | None) -> None:
        """Open a store with these settings; None takes the store's own."""
        self._lock = threading.RLock()
        self._engine = Engine(path, settings)
        self.settings = self._engine.settings
        self._mixture = self.settings.mixture()
        self._refitter = Refitter(self._engine, self._lock)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a store as it was left, with its own settings; it continues bit for bit."""
        place = files.check_path(path)
        if place is None or not files.ledger_path(place).exists():
            raise files.missing(path)
        bandit = cls.__new__(cls)
        bandit._start(None, place)
        bandit.features = raw.settled(bandit, None)
        return bandit

    def save(self, path: str | Path) -> None:
        """Write model and ledger to another place, to be opened with `load`."""
        with self._lock:
            self._engine.save(files.check_path(path))

    def close(self) -> None:
        """Wait for a refit under way and give the files back. Nothing is lost without it."""
        self._refitter.wait()
        with self._lock:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """The version of the model that serves; 0 before the first."""
        return self._engine.model.version

    def decide(
        self,
        task: str,
        actions: ArrayLike | None = None,
        *,
        baseline: Baseline,
        context: Mapping[str, Any] | None = None,
        offered: Sequence[Any] | None = None,
        baseline_reward: Number | tuple[Number, Number] | None = None,
        baseline_reward_std: Number = 0.0,
    ) -> Decision:
        """The best certified action, or the baseline and the reason why nothing is certified.

        Args:
            task: any text; new tasks may come at any time.
            actions: (K, d) features of what may be chosen; K may differ from call to call.
            baseline: index of the action that the policy in place would play; with `context` also its name,
                or a function of the context that gives one of the two.
            context: raw values by column, None where one is unknown, for a bandit with `features`.
            offered: with `context`, the names of what may be chosen; None: everything.
            baseline_reward: what it is expected to earn; (low, high) if only bounds are known, which
                certifies against the floor of `high`; None if unknown.
            baseline_reward_std: standard error of a number given.
        """
        if actions is None or context is not None or offered is not None:
            given = {"baseline_reward": baseline_reward, "baseline_reward_std": baseline_reward_std}
            return raw.decide(self, task, actions, context, offered, baseline, given)
        request = check_request(
            task, actions, baseline, baseline_reward, baseline_reward_std, self._engine.store.dim
        )
        digest = int(digests(request.actions[None])[0])
        with self._lock:
            self._engine.check_open(request.actions.shape[1])
            return self._engine.decide(request, digest, self._mixture)

    @overload
    def decide_many(
        self,
        tasks: Sequence[str],
        actions: ArrayLike | Sequence[ArrayLike],
        *,
        baselines: ArrayLike,
        baseline_rewards: ArrayLike | None = None,
        baseline_reward_std: ArrayLike = 0.0,
    ) -> list[Decision]: ...
    @overload
    def decide_many(
        self,
        tasks: Logs,
        *,
        baselines: Baseline,
        baseline_rewards: str | None = None,
        baseline_reward_std: ArrayLike = 0.0,
        task: str = "task",
    ) -> Any: ...
    def decide_many(
        self,
        tasks: Any,
        actions: Any = None,
        *,
        baselines: Any,
        baseline_rewards: Any = None,
        baseline_reward_std: ArrayLike = 0.0,
        task: str = "task",
    ) -> Any:
        """Decisions for many requests, in order, in one transaction.

        Args:
            tasks: m labels; or, for a bandit with `features`, a frame of m raw contexts (see `read_frame`).
            actions: (m, K, d), or a sequence of m arrays (K_i, d); left out for a frame.
            baselines: m indices; for a frame an arm, an index, a function of the row, or a column.
            baseline_rewards: m numbers (NaN where unknown), or (m, 2) bounds, or None; for a frame a column.
            baseline_reward_std: one number or m.
            task: the frame's column of tasks.

        Returns:
            A list of decisions; for a frame a frame, one row a request.
        """
        if actions is None:
            return raw.decide_frame(self, tasks, task, baselines, baseline_rewards, baseline_reward_std)
        batch = check_batch(
            tasks, actions, baselines, baseline_rewards, baseline_reward_std, self._engine.store.dim
        )
        with self._lock:
            self._engine.check_open(batch.dim)
            return decide_batch(self._engine, batch, self._mixture)

    def reward(self, id: Whole, reward: Number) -> str:  # noqa: A002
        """Take in the reward of a decision: "accepted", "duplicate" (ignored) or "expired" (ignored)."""
        number, value = check_id(id), check_number(reward, "reward")
        with self._lock:
            outcome = self._engine.reward(number, self._known(number), value)
        self._refitter.refit_if_due()
        return outcome

    def reward_many(self, ids: Sequence[int], rewards: Sequence[Number]) -> list[str]:
        """Take in many rewards in one transaction; an unknown id refuses them all."""
        numbers = [check_id(i) for i in ids]
        values = [check_number(r, "reward", f"entry {i}: ") for i, r in enumerate(rewards)]
        if len(numbers) != len(values):
            raise InputError(
                f"There are {len(numbers)} ids and {len(values)} rewards; give one reward per id."
            )
        with self._lock:
            outcomes = self._engine.reward_many(numbers, [self._known(n) for n in numbers], values)
        self._refitter.refit_if_due()
        return outcomes

    def _known(self, number: int) -> Played:
        self._engine.check_open()
        played = self._engine.store.find(number)
        if played is None:
            raise UnknownDecisionError(
                f"No decision has id {number}; ids run from 1 to {self._engine.store.decisions} here."
            )
        return played

    def warm_start(
        self,
        logs: Logs | LogRows,
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
            logs: a path (.parquet, .csv), a polars or pandas DataFrame, or a mapping of columns.
            task, reward, features, baseline_reward, actions, baseline, propensity: names of columns, see
                `banister.online.logs.read_logs`. For a bandit with `features` see
                `banister.online.raw.read_raw_logs`.
            arm: for a bandit with `features`, the column that names what was played.
            refit: fit at once.
        """
        columns: dict[str, Any] = {
            "task": task, "reward": reward, "baseline_reward": baseline_reward, "baseline": baseline,
            "propensity": propensity,
        }  # fmt: skip
        if isinstance(logs, LogRows):
            rows = logs
        elif self.features is not None:
            rows = raw.learn(self, logs, arm=arm, **columns)
        else:
            rows = read_logs(logs, features=features, actions=actions, **columns)
        with self._lock:
            self._engine.warm_start(rows)
        if refit:
            self.refit()
        return len(rows.y)

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
        share: Number = 0.5,
    ) -> DryRun:
        """What would happen on these logs, before going live; nothing changes.

        Args:
            logs, task, reward, features, baseline_reward, actions, arm, baseline, propensity: as in
                `warm_start`.
            share: of the rows, in their order, that are fitted; the rest are judged.
        """
        from banister.online.dry_run import dry_run

        columns: dict[str, Any] = {
            "task": task, "reward": reward, "baseline_reward": baseline_reward, "baseline": baseline,
            "propensity": propensity,
        }  # fmt: skip
        if self.features is not None:
            rows = raw.offers(self.features, logs, arm=arm, **columns)
        else:
            rows = read_logs(logs, features=features, actions=actions, **columns)
        return dry_run(rows, self.settings, share=check_number(share, "share"))

    def refit(self, *, wait: bool = True) -> int:
        """Fit everything seen and swap the model; decisions go on meanwhile. The version that serves now.

        With `wait=False` the fit runs in a thread and the version is the old one's.
        """
        self._refitter.refit(wait=wait)
        return self.version

    def status(self) -> Status:
        """Where every task stands, and totals."""
        with self._lock:
            self._engine.check_open()
            return status_of(self._engine)

    def audit(self) -> Audit:
        """Replay the ledger: does each decision follow from the model version that made it?"""
        with self._lock:
            self._engine.check_open()
            return audit(self._engine.store.ledger, self.settings)

    def export(self, path: str | Path) -> int:
        """Write decisions and their rewards to a Parquet file; the number of rows."""
        from banister.online.export import export

        with self._lock:
            self._engine.check_open()
            return export(self._engine.store.ledger, Path(path))
