"""The span of what has been seen: directions that no row has are left out of a fit, and are never trusted.

Real features are often collinear (one-hot columns beside a constant). The likelihood says nothing along such
directions, and a covariance there is rounding, which may even come out negative. So a fit is made in
coordinates of the span alone; an action that leaves it gets a variance that no bound survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from banister.data import Float
from banister.safety.certificate import Certificate

_ROUNDING = 1e-9  # of the largest second moment: less is no direction of the data
_ENOUGH = 5  # rows a dimension before looking whether they span everything
_UNSEEN = 1e6  # variance of unseen directions, in terms of the mean variance of seen ones


@dataclass(frozen=True, eq=False)
class Span:
    """`Q` (d, s): an orthonormal basis of what the rows span; None if that is everything."""

    Q: Float | None

    @classmethod
    def of(cls, parts: Sequence[Float], dim: int) -> Span:
        """The span of rows in several parts (n_i, d). Rows enough to span everything need no more looking."""
        moment, rows = np.zeros((dim, dim)), 0
        for X in parts:
            moment += X.T @ X
            rows += len(X)
            if rows >= _ENOUGH * dim and _basis(moment) is None:
                break
            rows = 0 if rows >= _ENOUGH * dim else rows
        return cls(_basis(moment))

    def reduce(self, X: Float) -> Float:
        """Rows in the span's coordinates."""
        return X if self.Q is None else X @ self.Q

    def restore(self, certificate: Certificate) -> Certificate:
        """A certificate of the span's coordinates as one of the features', unseen directions wide open."""
        if self.Q is None:
            return certificate
        Q, d = self.Q, len(self.Q)
        unseen = np.eye(d) - Q @ Q.T
        V = np.zeros((len(certificate.V), d, d))
        for t, small in enumerate(certificate.V):
            V[t] = Q @ small @ Q.T + _UNSEEN * float(np.trace(small)) / len(small) * unseen
        return replace(certificate, theta=np.ascontiguousarray(certificate.theta @ Q.T), V=V)


def _basis(moment: Float) -> Float | None:
    values, vectors = np.linalg.eigh(moment)
    seen = values > _ROUNDING * max(float(values[-1]), np.finfo(float).tiny)
    return None if seen.all() else np.ascontiguousarray(vectors[:, seen])
