"""Refitting: when it is due, where it runs, and the swap of one model for the next."""

from __future__ import annotations

import threading
import warnings

import numpy as np

from banister.errors import BanisterWarning
from banister.online.drift import Alarm
from banister.online.engine import Engine
from banister.online.model import Model
from banister.online.model_file import write_atomically
from banister.online.refit import fit
from banister.safety import checks


class Refitter:
    """Fits an engine's store, one fit at a time; takes the engine's lock only to look and to swap."""

    def __init__(self, engine: Engine, lock: threading.RLock) -> None:
        self._engine, self._lock = engine, lock
        self._fitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._attempt = int(engine.store.ledger.meta("attempt") or 0)

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

    def _try(self) -> None:
        """A fit that nobody asked for must not make a call fail whose own work is done."""
        try:
            self._fit_and_swap()
        except Exception as failure:
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
        model = fit(snapshot, len(labels), dim, marks, last, engine.settings)
        if model is not None:
            self._write(model, model.to_bytes(engine.settings, labels), last)
        else:
            with self._lock:
                store.ledger.set_meta("attempt", self._attempt)

    def _write(self, model: Model, data: bytes, last: Model) -> None:
        """First the ledger, in parts between which decisions go on; then the swap; then the file."""
        engine, ledger = self._engine, self._engine.store.ledger
        for part in ledger.parts_of(model.version, data):
            with self._lock:
                ledger.add_part(part)
        with self._lock:
            with ledger.transaction():
                ledger.finish_model(model.version, len(data))
                for alarm in self._no_longer_fitting(model, last):
                    engine.store.add_alarm(alarm, model.version)
                ledger.set_meta("attempt", self._attempt)
                if not engine.settings.keep_models:
                    ledger.forget_model(last.version)
            engine.use(model)
        if engine.path is not None:
            write_atomically(engine.path, data)

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
