"""The engine: one store and the model that serves from it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from banister.data import Int
from banister.errors import InputError, ModelFileError, ShapeError
from banister.online import files
from banister.online.decision import REASONS, Decision
from banister.online.door import Request
from banister.online.drift import EVERY_TASK, Alarm, DriftGuard, shut
from banister.online.judge import Judge
from banister.online.logs import LogRows
from banister.online.mixing import mixed
from banister.online.model import Model
from banister.online.model_file import write_atomically
from banister.online.rebuild import rebuild
from banister.online.settings import Settings
from banister.online.store import Played, Store
from banister.safety import checks
from banister.safety.exploration import ConservativeMixture

DUPLICATE, EXPIRED, ACCEPTED = "duplicate", "expired", "accepted"
SURPRISED = checks.REASONS[checks.BASELINES]


class Engine:
    """Decides and learns. Not thread-safe: its owner holds a lock."""

    def __init__(self, path: Path | None, settings: Settings | None) -> None:
        self.path = path
        self.closed = False
        ledger = files.ledger_path(path) if path else None
        durability = settings.durability if settings else "normal"
        self.store = Store(ledger, durability=durability)
        try:
            self.settings = self._settle(settings)
            rebuild(self.store)
            self.use(self._last_model())
        except BaseException:
            self.store.ledger.close()
            raise

    def _settle(self, given: Settings | None) -> Settings:
        """The store's own settings, with those that may change taken from what was given."""
        ledger = self.store.ledger
        ledger.check_schema()
        text = ledger.meta("settings")
        if text is None:
            if given is None:
                raise ModelFileError(
                    f"{ledger.where} holds no settings; it was never opened by a SafeBandit."
                )
            ledger.set_meta("settings", given.to_dict())
            return given
        stored = Settings.from_dict(json.loads(text), ledger.where)
        if given is None:
            ledger.set_durability(stored.durability)
            return stored
        given.check_same(stored, ledger.where)
        settings = given.with_seed(stored.seed)
        if settings != stored:
            ledger.set_meta("settings", settings.to_dict())
        return settings

    def _last_model(self) -> Model:
        version = self.store.ledger.last_version()
        if self.path is not None and self.path.exists():
            _check_file(self.path, version)
        if version == 0:
            return Model.none(self.store.dim or 1)
        data = self.store.ledger.model(version)
        if data is None:
            raise ModelFileError(
                f"{self.store.ledger.where} lacks the bytes of model {version}; restore a copy."
            )
        if self.path is not None and not self.path.exists():
            write_atomically(self.path, data)
        return Model.from_bytes(data, f"{self.store.ledger.where}, model {version}")[0]

    def use(self, model: Model) -> None:
        """Serve from this model, and shut again what was shut while it served before or was being fitted."""
        self.model = model
        self.judge = Judge(model, self.settings.constraint)
        self.guard = DriftGuard(model.certificate)
        self._alarmed: set[int] = set()
        self._surprised: dict[int, int] = {}
        if model.version:
            self._shut_drifted()
            self._shut_surprised()
            self._watch_again()

    def _shut_drifted(self) -> None:
        """Drifts that were seen while the fit was under way hold for the new model too."""
        c = self.model.certificate
        late = self.store.ledger.rows(
            "SELECT task, version FROM drifts WHERE seq > ?", self.model.marks.drifts
        )
        for task, version in late:
            if version == self.model.version:
                self._alarmed.add(task)
            if task < c.n_tasks:
                shut(c, task)

    def _shut_surprised(self) -> None:
        """Tasks whose baseline reward contradicted this model before the store was closed."""
        c = self.model.certificate
        rows = self.store.ledger.rows(
            "SELECT task, MIN(id) FROM decisions WHERE version = ? AND reason = ? GROUP BY task",
            self.model.version,
            SURPRISED,
        )
        self._surprised = {task: number for task, number in rows if self.guard.watches(task)}
        c.surprises[0] += len(self._surprised)
        for task, _ in rows:
            c.shut[task] = checks.BASELINES if c.shut[task] == checks.OPEN else c.shut[task]
        self.note_surprises()

    def note_surprise(self, task: int, number: int) -> None:
        """A baseline reward contradicted the model at this decision."""
        self._surprised.setdefault(task, number)
        self.note_surprises()

    def note_surprises(self) -> None:
        """So many tasks contradict the model that no gate stays open: earlier rows count no longer."""
        c = self.model.certificate
        if c.surprises[0] >= c.surprises[1]:
            shut(c, EVERY_TASK)
            self._sound(Alarm(EVERY_TASK, self.store.decisions, float(c.surprises[0])))

    def _watch_again(self) -> None:
        """Show the guard every reward that the model was not fitted to."""
        memory = self.store.memory
        if memory is None or not self.settings.drift_guard:
            return
        first = len(memory.plays) - (self.store.rewards - self.model.marks.rewards)
        task, X, y, _, number = memory.plays.pieces(first)
        for block in zip(task, X, y, number, strict=True):
            for t, x, reward, n in zip(*block, strict=True):
                for alarm in self.guard.see(int(t), x, float(reward), int(n)):
                    self._sound(alarm)

    def _sound(self, alarm: Alarm) -> None:
        """Write an alarm down, once."""
        if alarm.task not in self._alarmed:
            self._alarmed.add(alarm.task)
            # A baseline reward that contradicted the model tells the change better than noisy rewards do.
            since = max(alarm.since, self._surprised.get(alarm.task, 0))
            self.store.add_alarm(alarm._replace(since=since), self.model.version)

    def check_open(self, dim: int | None = None) -> None:
        """An error if the bandit was closed, or rows have another number of features than those before."""
        if self.closed:
            raise InputError("This bandit was closed; open its store again with SafeBandit.load.")
        if dim is not None and self.store.dim not in (None, dim):
            raise ShapeError(f"actions has {dim} features; this bandit works with {self.store.dim}.")

    def decide(self, request: Request, digest: int, mixture: ConservativeMixture | None) -> Decision:
        """Judge, write down, remember."""
        store, new = self.store, False
        task = store.tasks.get(request.label)
        if task is None:
            task, new = len(store.labels), True
        before = self.gates()
        decision = self.judged(request, task, store.decisions + 1, mixture)
        row = store.row(decision, task, request, digest, time.time(), self.settings.keep_actions)
        try:
            if new:
                with store.ledger.transaction():
                    store.add_task(request.label)
                    store.ledger.add_decision(row)
            else:
                store.ledger.add_decision(row)
        except BaseException:
            store.drop_tasks(task) if new else None
            self.restore(before)
            raise
        store.open_memory(request.actions.shape[1])
        store.remember(decision, task, request)
        if decision.reason == SURPRISED:
            self.note_surprise(task, decision.id)
        return decision

    def gates(self) -> tuple[Int, Int]:
        """What a judgement may change, to put back if it cannot be written down."""
        return self.model.certificate.shut.copy(), self.model.certificate.surprises.copy()

    def restore(self, gates: tuple[Int, Int]) -> None:
        """Put gates back."""
        self.model.certificate.shut[:], self.model.certificate.surprises[:] = gates

    def judged(
        self, request: Request, task: int, number: int, mixture: ConservativeMixture | None
    ) -> Decision:
        """The decision; nothing is written."""
        actions, baseline = request.actions, request.baseline
        chosen, bound, floor, code = self.judge.one(
            task, actions, baseline, request.low, request.high, request.std
        )
        certified = chosen >= 0
        action = chosen if certified else baseline
        features = actions[action].copy()
        if mixture is not None and not certified and self.store.mixtures < mixture.plays:
            explored = mixed(mixture, request, self.settings.constraint, self.settings.seed, number)
            if explored is not None:
                action, (features, bound) = -1, explored
        version = self.model.version
        return Decision(
            number, request.label, action, features, certified, bound, floor, REASONS[code], version
        )

    def reward(self, number: int, played: Played, value: float) -> str:
        """Write down and learn one reward; or refuse it and say why."""
        now = time.time()
        why = self._refusal(played, now)
        ledger = self.store.ledger
        if why is not None:
            ledger.write(
                "INSERT INTO refused (time, decision, value, why) VALUES (?, ?, ?, ?)",
                now,
                number,
                value,
                why,
            )
            return why
        ledger.add_reward(number, self.store.rewards + 1, now, value)
        self._learn(number, played, value)
        return ACCEPTED

    def _refusal(self, played: Played, now: float) -> str | None:
        if played.reward is not None:
            return DUPLICATE
        limit = self.settings.expire_after
        return EXPIRED if limit is not None and now - played.time > limit else None

    def _learn(self, number: int, played: Played, value: float) -> None:
        self.store.learn(number, played, value)
        if self.settings.drift_guard:
            for alarm in self.guard.see(played.task, played.features, value, number):
                self._sound(alarm)

    def reward_many(self, numbers: list[int], played: list[Played], values: list[float]) -> list[str]:
        """Many rewards in one transaction; memory follows when it is committed."""
        ledger, now, outcomes = self.store.ledger, time.time(), []
        accepted: dict[int, tuple[Played, float]] = {}
        with ledger.transaction():
            for number, play, value in zip(numbers, played, values, strict=True):
                why = DUPLICATE if number in accepted else self._refusal(play, now)
                outcomes.append(why or ACCEPTED)
                if why is None:
                    ledger.add_reward(number, self.store.rewards + len(accepted) + 1, now, value)
                    accepted[number] = play, value
                else:
                    ledger.write(
                        "INSERT INTO refused (time, decision, value, why) VALUES (?, ?, ?, ?)",
                        now, number, value, why,
                    )  # fmt: skip
        for number, (play, value) in accepted.items():
            self._learn(number, play, value)
        return outcomes

    def warm_start(self, rows: LogRows) -> None:
        """Take in logs, all or nothing."""
        self.check_open(rows.X.shape[1])
        if self.store.decisions:
            raise InputError(
                f"warm_start comes before the first decision; this bandit has made {self.store.decisions}."
            )
        known = len(self.store.labels)
        try:
            with self.store.ledger.transaction():
                codes = [self.code_of(label) for label in rows.labels]
                task = np.array(codes, dtype=np.int64)[rows.task]
                self.store.add_logs(task, rows.X, rows.y, rows.baseline, rows.baseline_reward)
        except BaseException:
            self.store.drop_tasks(known)
            raise
        self.store.remember_logs(task, rows.X, rows.y, rows.baseline, rows.baseline_reward)

    def code_of(self, label: str) -> int:
        """A task's code; a new task is written down."""
        code = self.store.tasks.get(label)
        return self.store.add_task(label) if code is None else code

    def save(self, path: Path | None) -> None:
        """A copy of ledger and model at another place."""
        self.check_open()
        if path is None or path == self.path:
            raise InputError("save needs a path other than the store's own, which is kept up to date anyway.")
        target = files.ledger_path(path)
        if target.exists():
            raise InputError(f"There is a store at {str(path)!r} already; choose another path or remove it.")
        self.store.ledger.backup(target)
        data = self.store.ledger.model(self.model.version)
        if data is not None:
            write_atomically(path, data)

    def close(self) -> None:
        """Close the ledger."""
        if not self.closed:
            self.closed = True
            self.store.ledger.close()


def _check_file(path: Path, version: int) -> None:
    """The model file must be whole, and no newer than the ledger; an older one is about to be replaced."""
    try:
        model = Model.from_bytes(path.read_bytes(), str(path))[0]
    except ModelFileError as reason:
        raise ModelFileError(f"{reason} Or delete it: the ledger holds the model too.") from None
    if model.version > version:
        raise ModelFileError(
            f"{path} is version {model.version}, the ledger beside it ends at {version}; they do not belong "
            "together."
        )
