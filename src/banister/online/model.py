"""One version of the model: a certificate, what the next fit starts from, and its bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.errors import ModelFileError
from banister.online.decision import NEW_TASK
from banister.online.model_file import Arrays, pack, require, unpack
from banister.online.settings import Settings
from banister.safety import checks
from banister.safety.certificate import Certificate
from banister.safety.scales import Scales

FORMAT = 1  # of the bytes; a model of another format is kept in the ledger and cannot be replayed

_ARRAYS = ("theta", "z", "shut", "surprises")
_NUMBERS = ("slack", "rank", "usual")


class Marks(NamedTuple):
    """How much of the ledger a model was fitted to: decisions, rewards and drifts before its snapshot."""

    decisions: int = 0
    rewards: int = 0
    drifts: int = 0


@dataclass(frozen=True, eq=False)
class Model:
    """A certificate and where it came from.

    Attributes:
        version: counts from 1; 0 is the model before the first fit, which certifies nothing.
        certificate: whose `shut` changes while it serves.
        warm: what the certifier carries from fit to fit.
        marks: what the fit has seen.
    """

    version: int
    certificate: Certificate
    warm: Arrays
    marks: Marks

    @classmethod
    def none(cls, dim: int) -> Model:
        """Before the first fit."""
        return cls(0, Certificate.closed(0, dim), {}, Marks())

    @classmethod
    def shut(cls, version: int, dim: int) -> Model:
        """In place of a model whose bytes this version cannot read: certifies nothing."""
        return cls(version, Certificate.closed(0, dim), {}, Marks())

    def unknown_task(self) -> int:
        """Why a task that this model has never seen is not certified."""
        return NEW_TASK if self.version else checks.NO_DATA

    def to_bytes(self, settings: Settings, labels: list[str]) -> bytes:
        """The bytes of a model file."""
        c = self.certificate
        own, scales = vars(c), vars(c.scales)
        numbers = {name: own[name] for name in _NUMBERS}
        meta = {
            "settings": settings.to_dict(),
            "tasks": labels[: c.n_tasks],
            "version": self.version,
            "reasons": list(checks.REASONS),
            "marks": list(self.marks),
            "certificate": {**numbers, "details": c.details},
            "scales": {name: value for name, value in scales.items() if name != "play"},
        }
        arrays = {**{name: own[name] for name in _ARRAYS}, "play": c.scales.play, "upper": _upper(c)}
        return pack(meta, {**arrays, **{f"warm_{name}": value for name, value in self.warm.items()}})

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> tuple[Model, dict[str, Any]]:
        """A model and its file's metadata."""
        meta, arrays = unpack(data, where)
        try:
            certificate = _certificate(meta, arrays, where)
            marks, version = Marks(*map(int, meta["marks"])), int(meta["version"])
        except ModelFileError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as reason:
            raise ModelFileError(f"{where} lacks or garbles {reason}; restore it from a copy.") from None
        warm = {name[5:]: value for name, value in arrays.items() if name.startswith("warm_")}
        return cls(version, certificate, warm, marks), meta


def served(certificate: Certificate) -> Certificate:
    """The certificate with exactly symmetric covariances, so that half of each is all there is to keep."""
    for V in certificate.V:
        np.copyto(V, np.triu(V) + np.triu(V, 1).T)
    return replace(certificate, shut=certificate.shut.copy())


def _upper(certificate: Certificate) -> Float:
    """The upper triangles of the open tasks' covariances, (open, d(d+1)/2); row by row, to let others run."""
    d = certificate.theta.shape[1]
    rows, columns = np.triu_indices(d)
    tasks = np.flatnonzero(certificate.shut == checks.OPEN) if len(certificate.V) else np.zeros(0, dtype=int)
    packed = np.empty((len(tasks), len(rows)))
    for out, t in zip(packed, tasks, strict=True):
        out[:] = certificate.V[t][rows, columns]
    return packed


def _unfolded(packed: Float, shut: Int, dim: int) -> Float:
    if len(packed) == 0:
        return np.zeros((0, dim, dim))
    V = np.zeros((len(shut), dim, dim))
    rows, columns = np.triu_indices(dim)
    for t, upper in zip(np.flatnonzero(shut == checks.OPEN), packed, strict=True):
        V[t, rows, columns] = upper
        V[t, columns, rows] = upper
    return V


def _codes(reasons: list[str], shut: Int) -> Int:
    """Codes as this version numbers them; a file names the reasons behind its own."""
    own = {reason: code for code, reason in enumerate(checks.REASONS)}
    return np.array([own[reason] for reason in reasons])[shut]


def _certificate(meta: dict[str, Any], arrays: Arrays, where: str) -> Certificate:
    T = len(meta["tasks"])
    theta = arrays.get("theta")
    if theta is None or theta.ndim != 2:
        raise ModelFileError(f"{where} lacks the array 'theta' of tasks by features.")
    dim = theta.shape[1]
    theta = require(arrays, "theta", (T, dim), where)
    shut = _codes(meta["reasons"], require(arrays, "shut", (T,), where, kind="i"))
    n_open = int((shut == checks.OPEN).sum())
    packed = require(arrays, "upper", (n_open, dim * (dim + 1) // 2), where)
    scales = Scales(require(arrays, "play", (max(T, 1),), where), **meta["scales"])
    z = require(arrays, "z", (T,), where, finite=False)
    surprises = require(arrays, "surprises", (2,), where, kind="i")
    return Certificate(
        theta, _unfolded(packed, shut, dim), z, shut, scales, surprises=surprises, **meta["certificate"]
    )
