"""Refitting: when it is due, where it runs, and the swap of one model for the next."""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable

from banister.errors import BanisterError, BanisterWarning, FitError
from banister.online.claimed import refused
from banister.online.engine import Engine
from banister.online.files import write_atomically
from banister.online.model import FORMAT, Model
from banister.online.record import ModelRecord, digest_of
from banister.online.refit import fit
from banister.solver import Workers

_PART = 1 << 20  # bytes of a model written at once, so that decisions wait for milliseconds only

_AGAIN = 1.0  # seconds until it is asked again whether another process is still refitting

_log = logging.getLogger("banister.online")


class Refitter:
    """Fits an engine's store, one fit at a time; takes the engine's lock only to look and to swap."""

    def __init__(self, engine: Engine, lock: threading.RLock, workers: Workers) -> None:
        self._engine, self._lock, self._workers = engine, lock, workers
        self._fitting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.seconds = 0.0  # of the last fit
        self._attempt = 0
        self._not_before = 0.0

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
            self._start(self._grown)
        elif self._fitting.acquire(blocking=False):
            self._try(self._grown)

    def _due(self) -> bool:
        if self._fitting.locked() or time.monotonic() < self._not_before:
            return False
        return self._grown()

    def _grown(self) -> bool:
        """Whether there are enough rewards more than at the last try."""
        engine = self._engine
        store, tasks = engine.store, len(engine.store.labels)
        if store.dim is None:
            return False
        schedule = engine.settings.schedule(engine.learner.settled)
        return store.plays >= schedule.next(self._last_try() // tasks) * tasks

    def _last_try(self) -> int:
        """How many rewards the last try had, here or in the process whose model serves."""
        return max(self._attempt, _number(self._engine.attempt))

    def refit(self, *, wait: bool) -> None:
        """Fit and swap, here or in a thread."""
        if wait:
            with self._fitting:
                self._asked_for()
        else:
            self._start(_always)

    def _start(self, wanted: Callable[[], bool]) -> None:
        """Fit in a thread, unless a fit is under way here."""
        if self._fitting.acquire(blocking=False):
            self._thread = threading.Thread(
                target=self._try, args=(wanted,), name="banister-refit", daemon=True
            )
            self._thread.start()

    def replace_outdated(self) -> None:
        """Fit from the ledger's rows in place of a model that this version cannot read."""
        if self._fitting.acquire(blocking=False):
            self._try(lambda: self._engine.outdated)

    def _try(self, wanted: Callable[[], bool]) -> None:
        """A fit that nobody asked for must not make a call fail whose own work is done."""
        try:
            if not self._alone(wanted):
                self._not_before = time.monotonic() + _AGAIN
        except Exception as failure:
            warnings.warn(
                f"A refit failed ({failure!r}); the last model serves on.", BanisterWarning, stacklevel=2
            )
        finally:
            self._fitting.release()

    def _asked_for(self) -> None:
        """A fit whose caller waits is told of a failure, as an error of this package."""
        try:
            while not self._alone(_always):
                time.sleep(_AGAIN)
        except (ArithmeticError, ValueError) as failure:  # numpy's errors of linear algebra are ValueErrors
            if isinstance(failure, BanisterError):
                raise
            raise FitError(
                f"The refit failed ({failure!r}); the last model serves on. Look for rewards or features of "
                "absurd size, and retract such rewards."
            ) from failure

    def _noted(self) -> None:
        """Fit and swap; a failure is kept for `status` until a fit succeeds."""
        engine = self._engine
        try:
            self._fit_and_swap()
        except Exception as failure:
            engine.refit_failure = f"{type(failure).__name__}: {failure}"
            _log.warning("a refit failed; model %d serves on", engine.model.version, exc_info=True)
            raise
        engine.refit_failure = None

    def _alone(self, wanted: Callable[[], bool]) -> bool:
        """Fit and swap as the one process that does, if it is still wanted; False if another one is at it."""
        engine, ledger = self._engine, self._engine.store.ledger
        with self._lock:
            engine.check_open()
            if not ledger.start_refit():
                return False
        try:
            with self._lock:
                engine.refresh()
                needed = wanted()
            if needed:
                self._noted()
        finally:
            with self._lock:
                ledger.end_refit()
        return True

    def _fit_and_swap(self) -> None:
        engine, store = self._engine, self._engine.store
        with self._lock:
            engine.check_open()
            if store.memory is None:
                return
            last, marks, labels = engine.model, store.marks, list(store.labels)
            snapshot = store.memory.snapshot()
            store.memory.plays.start_tail()
            self._attempt = len(store.memory.plays)
        try:
            begin = time.perf_counter()
            model = fit(snapshot, len(labels), marks, last, engine.settings, self._workers)
            self.seconds = time.perf_counter() - begin
            self._write(model, model.to_bytes(engine.settings, labels), last)
        finally:
            with self._lock:
                store.memory.plays.tail = None
        _log_swap(last, model, self.seconds)

    def _write(self, model: Model, data: bytes, last: Model) -> None:
        """First the ledger, in parts between which decisions go on; then the swap; then the file."""
        engine, ledger = self._engine, self._engine.store.ledger
        for part, start in enumerate(range(0, len(data), _PART)):
            with self._lock:
                ledger.add_part(model.version, part, data[start : start + _PART])
        with self._lock:
            before = None
            try:
                with ledger.transaction(alone=True):
                    if engine.follower is not None:
                        engine.follower.inside()
                    before = engine.serving()
                    record = self._swap(model, data, last)
            except BaseException:
                if before is not None:
                    engine.serve_again(before)
                raise
            engine.post(record)
            engine.count_alarms()
            engine.store.know_head()
        if engine.path is not None:
            write_atomically(engine.path, data)

    def _swap(self, model: Model, data: bytes, last: Model) -> ModelRecord:
        """Everything that changes with the model, in the open transaction."""
        engine, ledger = self._engine, self._engine.store.ledger
        h = ledger.head
        counts = h.decisions, h.rewards, h.drifts
        record = ModelRecord(model.version, time.time(), FORMAT, len(data), digest_of(data), *counts)
        ledger.add_model(record)
        ledger.keep("attempt", str(self._attempt))
        if not engine.settings.keep_models:
            ledger.forget_model(last.version)
        engine.use(model)
        return record


def _always() -> bool:
    return True


def _number(text: str | None) -> int:
    """How many rewards the last try had; a store that does not know is due as if there had been none."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else 0


def _log_swap(last: Model, model: Model, seconds: float) -> None:
    """One line a refit, and one where claimed baseline rewards have changed their standing."""
    b = model.belief
    _log.info(
        "model %d serves after %.2f s: %d rewards, %d tasks known, rank %d",
        model.version, seconds, model.marks.rewards, int(b.known.sum()), b.rank,
    )  # fmt: skip
    if b.claims is not last.belief.claims:
        fault = refused(b.claims)
        if fault is not None:
            _log.warning(fault)
        else:
            _log.info("claimed baseline rewards: %s", b.claims)
