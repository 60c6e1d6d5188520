"""Refitting: when it is due, where it runs, and the swap of one model for the next."""

from __future__ import annotations

import logging
import threading
import time
import warnings

import numpy as np

from banister.contract import Bool
from banister.errors import BanisterWarning
from banister.online.drift import Alarm
from banister.online.engine import Engine
from banister.online.files import write_atomically
from banister.online.model import FORMAT, Model
from banister.online.record import ModelRecord, digest_of
from banister.online.refit import fit
from banister.safety import checks

_PART = 1 << 20  # bytes of a model written at once, so that decisions wait for milliseconds only

_log = logging.getLogger("banister.online")


class Refitter:
    """Fits an engine's store, one fit at a time; takes the engine's lock only to look and to swap."""

    def __init__(self, engine: Engine, lock: threading.RLock) -> None:
        self._engine, self._lock = engine, lock
        self._fitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._attempt = _number(engine.store.ledger.kept("attempt"))

    def wait(self) -> None:
        """Until a fit under way is done."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def refit_if_due(self) -> None:
        """Fit again if rewards have grown enough since the last try."""
        refits = self._engine.settings.refits
        if refits == "manual" or not self._due():
            return
        if refits == "background":
            self.refit(wait=False)
        elif self._fitting.acquire(blocking=False):
            self._try()

    def _due(self) -> bool:
        engine = self._engine
        memory, tasks = engine.store.memory, len(engine.store.labels)
        if memory is None or self._fitting.locked():
            return False
        schedule = engine.settings.schedule(engine.model.certificate.opened)
        return len(memory.plays) >= schedule.next(self._attempt // tasks) * tasks

    def refit(self, *, wait: bool) -> None:
        """Fit and swap, here or in a thread."""
        if wait:
            with self._fitting:
                self._fit_and_swap()
        elif self._fitting.acquire(blocking=False):
            self._thread = threading.Thread(target=self._try, name="banister-refit", daemon=True)
            self._thread.start()

    def replace_outdated(self) -> None:
        """Fit from the ledger's rows in place of a model that this version cannot read."""
        if self._fitting.acquire(blocking=False):
            self._try()

    def _try(self) -> None:
        """A fit that nobody asked for must not make a call fail whose own work is done."""
        try:
            self._fit_and_swap()
        except Exception as failure:
            _log.warning("a refit failed; model %d serves on", self._engine.model.version, exc_info=True)
            warnings.warn(
                f"A refit failed ({failure!r}); the last model serves on.", BanisterWarning, stacklevel=2
            )
        finally:
            self._fitting.release()

    def _fit_and_swap(self) -> None:
        engine, store = self._engine, self._engine.store
        with self._lock:
            engine.check_open()
            if store.memory is None:
                return
            last, marks, labels = engine.model, store.marks, list(store.labels)
            snapshot, dim = store.memory.snapshot(), store.memory.dim
            self._attempt = len(store.memory.plays)
        begin = time.perf_counter()
        model = fit(snapshot, len(labels), dim, marks, last, engine.settings)
        seconds = time.perf_counter() - begin
        if model is not None:
            self._write(model, model.to_bytes(engine.settings, labels), last)
            _log_swap(last, model, seconds)
        else:
            with self._lock:
                store.ledger.keep("attempt", str(self._attempt))
            _log.info("a refit settled nothing in %.2f s; model %d serves on", seconds, last.version)

    def _write(self, model: Model, data: bytes, last: Model) -> None:
        """First the ledger, in parts between which decisions go on; then the swap; then the file."""
        engine, ledger = self._engine, self._engine.store.ledger
        for part, start in enumerate(range(0, len(data), _PART)):
            with self._lock:
                ledger.add_part(model.version, part, data[start : start + _PART])
        with self._lock:
            before = engine.serving()
            try:
                with ledger.transaction():
                    self._swap(model, data, last)
            except BaseException:
                engine.serve_again(before)
                raise
            engine.count_alarms()
        if engine.path is not None:
            write_atomically(engine.path, data)

    def _swap(self, model: Model, data: bytes, last: Model) -> None:
        """Everything that changes with the model, in the open transaction."""
        engine, ledger = self._engine, self._engine.store.ledger
        h = ledger.head
        counts = h.decisions, h.rewards, h.drifts
        ledger.add_model(ModelRecord(model.version, time.time(), FORMAT, len(data), digest_of(data), *counts))
        for alarm in self._no_longer_fitting(model, last):
            engine.add_alarm(alarm, model.version, engine.store.decisions)
        ledger.keep("attempt", str(self._attempt))
        if not engine.settings.keep_models:
            ledger.forget_model(last.version)
        engine.use(model)

    def _no_longer_fitting(self, model: Model, last: Model) -> list[Alarm]:
        """Tasks that fitted the last model, or have drifted before, and do not fit this one: a drift too.

        What the last model had seen no longer counts, so that a task whose change was dated wrongly still
        gets rid of its old rows.
        """
        shut, opened, memory = model.certificate.shut, self._engine.guard.opened, self._engine.store.memory
        misfits = np.flatnonzero((shut == checks.BASELINES) | (shut == checks.MISFIT)).tolist()
        drifted = memory.since if memory is not None else {}
        known = [t for t in misfits if t in drifted or (t < len(opened) and opened[t])]
        return [Alarm(t, last.marks.decisions + 1, 0.0) for t in known]


def _number(text: str | None) -> int:
    """How many rewards the last try had; a store that does not know is due as if there had been none."""
    return int(text) if text is not None and text.isdecimal() else 0


def _log_swap(last: Model, model: Model, seconds: float) -> None:
    """One line a refit, and one that says which gates it moved."""
    old, new = last.certificate.shut, model.certificate.shut
    before: Bool = np.zeros(len(new), dtype=bool)
    before[: len(old)] = old == checks.OPEN
    opened, shut = int(((new == checks.OPEN) & ~before).sum()), int(((new != checks.OPEN) & before).sum())
    _log.info("model %d serves after %.2f s: %d rewards", model.version, seconds, model.marks.rewards)
    if opened or shut:
        _log.info("model %d opened %d gates and shut %d", model.version, opened, shut)
