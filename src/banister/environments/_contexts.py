"""The distributions that `Synthetic` draws actions from.

Each maker draws what is fixed for a trial and returns a function that fills an array (..., d) in place. All
are scaled so that a coordinate's mean square is 1 on average over the coordinates, as in the paper's N(0, I);
the shifted one adds its mean on top.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from banister.data import Float

Fill = Callable[[np.random.Generator, Float], None]


def gaussian(dim: int, rng: np.random.Generator) -> Fill:
    """The paper's: independent standard normals."""
    return _fill_normal


def correlated(dim: int, rng: np.random.Generator, *, condition: float = 100.0) -> Fill:
    """Normal, with a random covariance whose eigenvalues fall geometrically over `condition`."""
    spectrum = np.geomspace(1.0, 1.0 / condition, dim)
    spectrum *= dim / spectrum.sum()
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return partial(_fill_mixed, mix=np.sqrt(spectrum)[:, None] * rotation)


def uniform(dim: int, rng: np.random.Generator) -> Fill:
    """Uniform on [−√3, √3]."""
    return partial(_fill_uniform, low=-np.sqrt(3.0))


def non_negative(dim: int, rng: np.random.Generator) -> Fill:
    """Uniform on [0, √3]."""
    return partial(_fill_uniform, low=0.0)


def shifted(dim: int, rng: np.random.Generator, *, shift: float = 0.5) -> Fill:
    """Normal with every coordinate's mean at `shift`."""
    return partial(_fill_shifted, shift=shift)


CONTEXTS: dict[str, Callable[..., Fill]] = {
    "gaussian": gaussian,
    "correlated": correlated,
    "uniform": uniform,
    "non-negative": non_negative,
    "shifted": shifted,
}


def _fill_normal(rng: np.random.Generator, out: Float) -> None:
    rng.standard_normal(out=out)


def _fill_mixed(rng: np.random.Generator, out: Float, *, mix: Float) -> None:
    out[...] = rng.standard_normal(out.shape) @ mix


def _fill_uniform(rng: np.random.Generator, out: Float, *, low: float) -> None:
    rng.random(out=out)
    out *= np.sqrt(3.0) - low
    out += low


def _fill_shifted(rng: np.random.Generator, out: Float, *, shift: float) -> None:
    rng.standard_normal(out=out)
    out += shift
