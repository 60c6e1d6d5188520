"""A number of threads, and work shared among them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

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
