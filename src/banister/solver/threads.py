"""A number of threads, and work shared among them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from banister.errors import SettingError


def in_threads(threads: int, work: Callable[[int], Any], count: int) -> list[Any]:
    """[work(0), …, work(count − 1)], in up to `threads` threads."""
    if threads == 1 or count == 1:
        return [work(i) for i in range(count)]
    return list(_pool(threads, os.getpid()).map(work, range(count)))


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="banister")


def check_threads(threads: int | None) -> int:
    """`threads`, or BANISTER_THREADS, or the processor's cores."""
    value = threads if threads is not None else os.environ.get("BANISTER_THREADS", os.cpu_count() or 1)
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if number < 1:
        raise SettingError(f"threads={value!r} must be a whole number of at least 1.")
    return number


@contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra within, in this thread and in all others, is done by the thread that asks for it.

    Matrices here are small: more threads wait for each other, with their cores busy, and add in another
    order. The setting is the process's own, so it is put back when the last block that asked for it ends.
    """
    _ONE.enter()
    try:
        yield
    finally:
        _ONE.leave()


class _One:
    """How many blocks are within, and what to put back."""

    def __init__(self) -> None:
        self._lock, self._within, self._before = threading.Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self._lock:
            if self._within == 0:
                self._before.enter_context(_controller().limit(limits=1))
            self._within += 1

    def leave(self) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0:
                self._before.close()


_ONE = _One()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
