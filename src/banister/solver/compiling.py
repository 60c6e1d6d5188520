"""Compile the kernels once, and say so if it took long."""

from __future__ import annotations

import time
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from banister.errors import CompileNotice
from banister.solver import kernels


def read_only(*arrays: Any) -> tuple[Any, ...]:
    """Views that cannot be written to: data frames hand out such arrays, and one kind is compiled for all."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


@lru_cache(maxsize=2)
def compile_kernels(dtype: Any) -> None:
    """Compile (or load) the kernels once; say so if it took more than a second."""
    start = time.perf_counter()
    Bt = np.ones((1, 1), dtype)
    X, y, offsets = read_only(Bt, np.ones(1, dtype), np.array([0, 1]))
    one, W, Z, cube = np.ones(1), np.ones((1, 1)), np.ones(1, dtype), np.ones((1, 1, 1))
    slope, spread = np.zeros((1, 1)), np.zeros((1, 1))
    kernels.value_and_gradient(X, y, offsets, one, 0.0, Bt, W, Z, cube, Bt.copy(), slope, spread)
    kernels.hessian_product(X, offsets, one, Bt, False, W, Z, cube, Bt.copy(), slope)
    kernels.correlations(X, y, offsets, Bt[0], X.copy())
    kernels.moments(X, y, offsets, Bt, cube, W, W.copy(), one)
    kernels.posteriors(cube, W, W, 1.0, one, W.copy(), cube)
    seconds = time.perf_counter() - start
    # Numba counts a miss only where it compiled: loading what an earlier process kept is not worth a word.
    compiled = bool(kernels.value_and_gradient.stats.cache_misses)
    if compiled and seconds > 1.0:
        warnings.warn(
            f"Banister compiled its kernels in {seconds:.1f} s; this happens once per installation.",
            CompileNotice,
            stacklevel=2,
        )
