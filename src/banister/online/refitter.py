"""Refitting: when it is due, where it runs, and the swap of one model for the next."""

from __future__ import annotations

import logging
import threading
import time
import warnings

from banister.errors import BanisterWarning
from banister.online.engine import Engine
from banister.online.files import write_atomically
from banister.online.model import FORMAT, Model
from banister.online.record import ModelRecord, digest_of
from banister.online.refit import fit
from banister.safety.labels import Claims

_PART = 1 << 20  # bytes of a model written at once, so that decisions wait for milliseconds only

_log = logging.getLogger("banister.online")


class Refitter:
    """Fits an engine's store, one fit at a time; takes the engine's lock only to look and to swap."""

    def __init__(self, engine: Engine, lock: threading.RLock) -> None:
        self._engine, self._lock = engine, lock
        self._fitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.seconds = 0.0  # of the last fit
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
        schedule = engine.settings.schedule(engine.learner.settled)
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
            snapshot = store.memory.snapshot()
            self._attempt = len(store.memory.plays)
        begin = time.perf_counter()
        model = fit(snapshot, len(labels), marks, last, engine.settings)
        self.seconds = time.perf_counter() - begin
        self._write(model, model.to_bytes(engine.settings, labels), last)
        _log_swap(last, model, self.seconds)

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
        ledger.keep("attempt", str(self._attempt))
        if not engine.settings.keep_models:
            ledger.forget_model(last.version)
        engine.use(model)


def _number(text: str | None) -> int:
    """How many rewards the last try had; a store that does not know is due as if there had been none."""
    return int(text) if text is not None and text.isdecimal() else 0


def _log_swap(last: Model, model: Model, seconds: float) -> None:
    """One line a refit, and one where claimed baseline rewards have changed their standing."""
    b = model.belief
    _log.info(
        "model %d serves after %.2f s: %d rewards, %d tasks known, rank %d",
        model.version, seconds, model.marks.rewards, int(b.known.sum()), b.rank,
    )  # fmt: skip
    if b.claims is not last.belief.claims:
        refused = b.claims in (Claims.AVERAGES, Claims.CONTRADICTED)
        _log.log(logging.WARNING if refused else logging.INFO, "claimed baseline rewards: %s", b.claims)
