"""`SafeBandit`: the object an application holds."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from numpy.typing import ArrayLike

from banister.data import Number, Whole, plain
from banister.errors import InputError
from banister.features.base import Features
from banister.features.baseline import Baseline
from banister.features.frames import Logs
from banister.online import raw
from banister.online._digest import digest
from banister.online.batch import check_batch, decide_batch
from banister.online.batch_rewards import reward_batch
from banister.online.decision import Decision
from banister.online.door import (
    check_id,
    check_key,
    check_keys,
    check_number,
    check_request,
    check_sequence,
    check_why,
)
from banister.online.engine import Engine
from banister.online.from_logs import FromLogs
from banister.online.looking import Looking
from banister.online.places import Place, check_place, existing, model_path, open_ledger
from banister.online.refitter import Refitter
from banister.online.settings import Settings, draws
from banister.solver import Workers, as_workers

_SLOW = 1.0  # seconds: a call that applications time out on

_log = logging.getLogger("banister.online")

if TYPE_CHECKING:
    pass


class SafeBandit(Looking, FromLogs):
    """Improves many related decisions at once; no task may be expected to earn less than its floor.

    For each request there is a baseline: the action that the policy in place would play. The bandit plays
    another action only where the rewards of all tasks together show that it is expected to earn at least the
    floor, `r_b − alpha·|r_b|` with `r_b` the baseline's expected reward. With `reward_range` it may also draw
    actions by chance, and then keeps a promise about totals (see `promise`).

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        features: `bn.Arms` or `bn.Items`, to decide from raw contexts. What a log teaches them is kept with
            the store; the object given stays as it is, the bandit's own is `bandit.features`.
        path: where the model is kept, with its ledger beside it (`path` + ".ledger"). Every decision and
            reward is durable before the call returns. A store that exists is continued. None: memory. Or the
            URL of a PostgreSQL database, `postgresql://user@host/database?store=name`, in which several
            processes may serve one store (`pip install 'banister[postgres]'`).
        confidence: of all bounds together.
        rank: how many directions tasks share; None to find it in the data.
        literal_floor: the paper's `(1−α) r_b` also where `r_b` is negative.
        mixing: whether the mixture `(1−ρ)x_b + ρζ` can be played while nothing is certified; it needs
            `norm_bound`.
        norm_bound: a bound on every ‖θ_t‖, for Lemma l8's ρ.
        max_mixtures: how many mixtures may be played in all; its union bound counts them.
        drift_guard: shut a task's gate when its recent rewards no longer fit the model.
        refits: "background" (a thread), "inline" (inside the call that makes it due) or "manual".
        growth: share by which rewards must grow before the next refit; None: a quarter, and twofold once
            hardly a decision stays at its baseline.
        durability: "normal" survives the death of the process, "full" also that of the machine, with an
            fsync a call.
        expire_after: seconds after which a reward comes too late; None: never.
        keep_actions: keep whole action sets in the ledger, so that an audit can repeat the whole choice.
        keep_models: keep every model version, so that an audit can repeat its decisions; else only the last.
        promise: "task": each task's total so far is expected to be at least 1 − alpha of what its baseline
            would have earned, without any model; "fleet": the same for all tasks together, sooner;
            "decision": every single decision, if rewards are linear in the features. None: "task" if there is
            a reward range, else "decision". docs/promises.md says what each rests on.
        reward_range: (lowest, highest) reward there is; others are refused. It makes exploring free: with
            rewards that cannot be negative, a draw that leaves the baseline with probability alpha is worth
            at least 1 − alpha of it, whatever is true. Without a range nothing is drawn by default.
        holdout: the baseline's share of draws that never vanishes, so that the gain can be measured. None:
            0.1 for "task", 0.05 for "fleet", else 0.
        randomise: whether decisions are draws, whose probabilities are written down. None: if a reward range
            is given.
        on_harm: what draws of a task fall back to where they were found to fall short: "free", what the range
            alone makes safe, or "stop", the baseline until the next model serves.
        seed: of all randomness; None draws one.
        pool: who works out, in a refit, what follows for each task from what tasks share: None, this thread;
            "local", a thread a core; "ray", Ray on this machine (`pip install 'banister[ray]'`); or
            `bn.RayWorkers(address=...)`. The model is the same to the last bit; 256 tasks and fewer stay
            here. It belongs to this object and not to the store.

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
        promise: Literal["decision", "task", "fleet"] | None = None,
        reward_range: tuple[Number, Number] | None = None,
        holdout: Number | None = None,
        randomise: bool | None = None,
        on_harm: Literal["free", "stop"] = "free",
        seed: Whole | None = None,
        pool: Literal["local", "ray"] | Workers | None = None,
    ) -> None:
        settings = Settings(
            alpha=plain(alpha), confidence=plain(confidence), rank=plain(rank),
            literal_floor=plain(literal_floor), mixing=plain(mixing), norm_bound=plain(norm_bound),
            max_mixtures=plain(max_mixtures), drift_guard=plain(drift_guard), refits=refits,
            growth=plain(growth), durability=durability, expire_after=plain(expire_after),
            keep_actions=plain(keep_actions), keep_models=plain(keep_models), on_harm=on_harm,
            **draws(promise, reward_range, holdout, plain(randomise)),
            seed=secrets.randbits(63) if seed is None else plain(seed),
        )  # fmt: skip
        self._start(settings, check_place(path), pool=pool)
        self.features = raw.settled(self, features)

    def _start(
        self, settings: Settings | None, place: Place, *, read_only: bool = False, pool: Any = None
    ) -> None:
        """Open a store with these settings; None takes the store's own, which must be there."""
        self._lock, workers = threading.RLock(), as_workers(pool)
        self._own_workers = workers if workers is not pool else None
        ledger = open_ledger(place, create=settings is not None, read_only=read_only, lock=self._lock)
        self._engine = Engine(ledger, model_path(place), settings, read_only=read_only)
        self.settings = self._engine.settings
        self._mixture = self.settings.mixture()
        self._refitter = Refitter(self._engine, self._lock, workers)
        if self._engine.outdated and not read_only:
            self._refitter.replace_outdated()

    @classmethod
    def load(cls, path: str | Path, *, pool: Literal["local", "ray"] | Workers | None = None) -> Self:
        """Open a store as it was left, with its own settings; it continues bit for bit.

        A store of an older version is brought up to date. A model that this version cannot read is fitted
        again from the ledger's rows. `pool` is that of `SafeBandit`.
        """
        bandit = cls.__new__(cls)
        bandit._start(None, existing(path), pool=pool)
        bandit.features = raw.settled(bandit, None)
        return bandit

    @classmethod
    def open_read_only(cls, path: str | Path) -> Self:
        """Look at a store, also while another process serves from it: status, audit, export, receipt.

        It shows the moment of opening; open it again to see more.
        """
        bandit = cls.__new__(cls)
        bandit._start(None, existing(path), read_only=True)
        bandit.features = raw.settled(bandit, None)
        return bandit

    def close(self) -> None:
        """Wait for a refit under way and give the files back. Nothing is lost without it."""
        self._refitter.wait()
        with self._lock:
            self._engine.close()
        if self._own_workers is not None:
            self._own_workers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        key: str | None = None,
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
            key: your own name for this call. If it fails and nobody knows how far it came, make it again with
                the same key: a decision that was made is given back, not made twice.
        """
        if actions is None or context is not None or offered is not None:
            given = {
                "baseline_reward": baseline_reward, "baseline_reward_std": baseline_reward_std, "key": key,
            }  # fmt: skip
            return raw.decide(self, task, actions, context, offered, baseline, given)
        begin, name = time.perf_counter(), None if key is None else check_key(key)
        request = check_request(
            task, actions, baseline, baseline_reward, baseline_reward_std, self._engine.store.dim
        )
        mark = digest(request.actions)
        with self._lock:
            self._engine.check_open()
            decision = self._engine.decide(request, mark, self._mixture, name)
        if time.perf_counter() - begin > _SLOW:
            _log_slow("decide", begin)
        return decision

    @overload
    def decide_many(
        self,
        tasks: Sequence[str],
        actions: ArrayLike | Sequence[ArrayLike],
        *,
        baselines: ArrayLike,
        baseline_rewards: ArrayLike | None = None,
        baseline_reward_std: ArrayLike = 0.0,
        keys: Sequence[str | None] | None = None,
    ) -> list[Decision]: ...
    @overload
    def decide_many(
        self,
        tasks: Logs,
        *,
        baselines: Baseline,
        baseline_rewards: str | None = None,
        baseline_reward_std: ArrayLike = 0.0,
        keys: Sequence[str | None] | None = None,
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
        keys: Sequence[str | None] | None = None,
        task: str = "task",
    ) -> Any:
        """Decisions for many requests, in order, in one transaction.

        Args:
            tasks: m labels; or, for a bandit with `features`, a frame of m raw contexts (see `read_frame`).
            actions: (m, K, d), or a sequence of m arrays (K_i, d); left out for a frame.
            baselines: m indices; for a frame an arm, an index, a function of the row, or a column.
            baseline_rewards: m numbers (NaN where unknown), or (m, 2) bounds, or None; for a frame a column.
            baseline_reward_std: one number or m.
            keys: one per request, or None for those without; see `decide`. Those that came before are given
                back, the others decided.
            task: the frame's column of tasks.

        Returns:
            A list of decisions; for a frame a frame, one row a request.
        """
        if actions is None:
            return raw.decide_frame(self, tasks, task, baselines, baseline_rewards, baseline_reward_std, keys)
        batch = check_batch(
            tasks, actions, baselines, baseline_rewards, baseline_reward_std, keys, self._engine.store.dim
        )
        with self._lock:
            self._engine.check_open(batch.dim)
            return decide_batch(self._engine, batch, self._mixture)

    def reward(self, id: Whole, reward: Number, *, key: str | None = None) -> str:  # noqa: A002
        """Take in the reward of a decision.

        Returns "accepted"; or why it was ignored: "duplicate", "expired", or "retracted" for a decision whose
        reward was taken back. With the `key` of the call that was accepted it is "accepted" again.
        """
        begin, name = time.perf_counter(), None if key is None else check_key(key)
        number, value = check_id(id), check_number(reward, "reward")
        with self._lock:
            self._engine.check_open()
            self._engine.check_reward(value)
            outcome = self._engine.reward(number, value, name)
        if time.perf_counter() - begin > _SLOW:
            _log_slow("reward", begin)
        self._refitter.refit_if_due()
        return outcome

    def reward_many(
        self, ids: Sequence[int], rewards: Sequence[Number], *, keys: Sequence[str | None] | None = None
    ) -> list[str]:
        """Take in many rewards in one transaction; an unknown id refuses them all.

        `keys` has one per reward, or None for those without; see `reward`.
        """
        numbers = [check_id(i) for i in check_sequence(ids, "ids")]
        entries = enumerate(check_sequence(rewards, "rewards"))
        values = [check_number(r, "reward", f"entry {i}: ") for i, r in entries]
        if len(numbers) != len(values):
            raise InputError(
                f"There are {len(numbers)} ids and {len(values)} rewards; give one reward per id."
            )
        names = check_keys(keys, len(numbers))
        with self._lock:
            self._engine.check_open()
            for i, value in enumerate(values):
                self._engine.check_reward(value, f"entry {i}: ")
            outcomes = reward_batch(self._engine, numbers, values, names)
        self._refitter.refit_if_due()
        return outcomes

    def retract(self, id: int, why: str) -> str:  # noqa: A002
        """Take a wrong reward back: "retracted", or "duplicate" if it was taken back before.

        It stays in the ledger, with the reason, and is left out of the next fit. The decision takes no other.
        """
        number, reason = check_id(id), check_why(why)
        with self._lock:
            self._engine.check_open()
            return self._engine.retract(number, reason)

    def refit(self, *, wait: bool = True) -> int:
        """Fit everything seen and swap the model; decisions go on meanwhile. The version that serves now.

        With `wait=False` the fit runs in a thread and the version is the old one's.
        """
        self._refitter.refit(wait=wait)
        return self.version


def _log_slow(call: str, begin: float) -> None:
    _log.warning("%s took %.2f s", call, time.perf_counter() - begin)
