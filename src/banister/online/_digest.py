"""A fingerprint of an action set: 64 bits that tell which set was offered.

It finds accidents, not forgeries: a cryptographic hash of 50 × 100 numbers takes as long as the decision.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float, Int
from banister.solver.kernels import exact


@exact
def _digest(row):  # type: ignore[no-untyped-def]
    """Four independent lanes, so that the multiplications overlap."""
    size = row.shape[0]
    prime = np.uint64(0x9E3779B97F4A7C15)
    shift = np.uint64(29)
    a, b, c, d = np.uint64(size), np.uint64(1), np.uint64(2), np.uint64(3)
    whole = size - size % 4
    for j in range(0, whole, 4):
        a = (a ^ row[j]) * prime
        a ^= a >> shift
        b = (b ^ row[j + 1]) * prime
        b ^= b >> shift
        c = (c ^ row[j + 2]) * prime
        c ^= c >> shift
        d = (d ^ row[j + 3]) * prime
        d ^= d >> shift
    for j in range(whole, size):
        a = (a ^ row[j]) * prime
        a ^= a >> shift
    for lane in (b, c, d):
        a = (a ^ lane) * prime
        a ^= a >> shift
    return np.int64(a)


@exact
def _digests(bits, out):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        out[i] = _digest(bits[i])


def digests(actions: Float) -> Int:
    """One number for each action set of (m, K, d) C-contiguous float64 actions, shape (m,)."""
    m = len(actions)
    out = np.empty(m, dtype=np.int64)
    _digests(actions.reshape(m, -1).view(np.uint64), out)
    return out


def digest(actions: Float) -> int:
    """The same of one action set (K, d)."""
    return int(_digest(actions.reshape(-1).view(np.uint64)))
