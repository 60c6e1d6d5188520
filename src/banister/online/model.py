"""One version of the model: a belief, where it came from, and its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float
from banister.errors import ModelFileError
from banister.online.model_file import Arrays, pack, require, unpack
from banister.online.settings import Settings
from banister.safety.belief import Belief
from banister.safety.compact import Compact, PerTask
from banister.safety.frame import Frame
from banister.safety.hierarchy import Start
from banister.safety.labels import Claims
from banister.safety.loudness import EVEN
from banister.safety.opened import Open
from banister.safety.posterior import Shared
from banister.safety.stored import MOST, Stored, diagonal, exactly

_ROWS: dict[str, np.dtype[Any]] = {  # by their bytes
    "rows": np.dtype("<f8"), "rows_2": np.dtype("<i2"), "rows_1": np.dtype("|i1"),
}  # fmt: skip
FORMAT = 2  # of the bytes; a model of another format is kept in the ledger and cannot be replayed


class Marks(NamedTuple):
    """How much of the ledger a model was fitted to: decisions, rewards and drifts before its snapshot."""

    decisions: int = 0
    rewards: int = 0
    drifts: int = 0


@dataclass(frozen=True, eq=False)
class Model:
    """A belief and where it came from.

    Attributes:
        version: counts from 1; 0 is the model before the first fit, which allows nothing.
        belief: never changes.
        marks: what the fit has seen.
    """

    version: int
    belief: Belief
    marks: Marks

    @classmethod
    def none(cls, dim: int, version: int = 0) -> Model:
        """Before the first fit, or in place of a model whose bytes cannot be read: allows nothing."""
        return cls(version, Belief.none(0, dim), Marks())

    def to_bytes(self, settings: Settings, labels: list[str]) -> bytes:
        """The bytes of a model file."""
        b = self.belief
        meta = {
            "settings": settings.to_dict(),
            "tasks": labels[: b.n_tasks],
            "version": self.version,
            "marks": list(self.marks),
            "belief": {
                "intercept": b.frame.intercept, "reward": b.frame.reward, "label_error": b.label_error,
                "rank": b.rank, "claims": b.claims.name,
            },
        }  # fmt: skip
        arrays = {
            "scale": b.frame.scale, "shift": b.frame.shift, "mean": b.mean, "left": b.left, "noise": b.noise,
            "z": b.z,
            "labelled": b.labelled.astype(np.int64), "known": b.known.astype(np.int64), "usual": b.usual,
            "loud": b.loud,
        }  # fmt: skip
        arrays |= (
            _compact_arrays(b.V.source) if isinstance(b.V, PerTask) else _dense_arrays(b.V, b.away, b.known)
        )
        if b.start is not None:
            meta["start"] = {"noise": b.start.noise, "rows": b.start.rows}
            s = b.start.shared
            arrays |= {"start_mu": s.mu, "start_L": s.L, "start_D": s.D}
        return pack(meta, arrays)

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> tuple[Model, dict[str, Any]]:
        """A model and its file's metadata."""
        meta, arrays = unpack(data, where)
        try:
            belief = _belief(meta, arrays, where)
            marks, version = Marks(*map(int, meta["marks"])), int(meta["version"])
        except ModelFileError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as reason:
            raise ModelFileError(f"{where} lacks or garbles {reason}; restore it from a copy.") from None
        return cls(version, belief, marks), meta


def _dense_arrays(V: Float, away: Any, known: Bool) -> Arrays:
    """The upper triangles of known tasks' covariances, row by row, to let others run; and `away`."""
    rows, columns = np.triu_indices(V.shape[1])
    tasks = np.flatnonzero(known)
    packed = np.empty((len(tasks), len(rows)))
    for out, t in zip(packed, tasks, strict=True):
        out[:] = V[t][rows, columns]
    return {"upper": packed, "away": away[known] if len(away) else away}


def _compact_arrays(c: Compact) -> Arrays:
    """Rows of known tasks, block after block by their kind, and what makes covariances of them."""
    p, k = c.L.shape
    kept: Arrays = {
        name: np.concatenate(
            [b.codes.reshape(-1, p) for b in c.blocks if b.codes.dtype == kind] or [np.zeros((0, p), kind)]
        )
        for name, kind in _ROWS.items()
    }
    kept["rows_of"] = np.array([(*b.codes.shape[:2], b.codes.itemsize) for b in c.blocks], dtype=np.int64)
    kept["step"] = np.concatenate([b.step.reshape(-1) for b in c.blocks])
    kept["fix"] = np.concatenate([b.fix.reshape(b.step.size, k) for b in c.blocks])
    return kept | {
        "dual": c.dual,
        "more": c.more,
        "tied": c.tied,
        "L": c.L,
        "D": c.D,
        "c": c.c,
        "open": c.open.blocks,
    }


def _stored(arrays: Arrays, n: int, p: int, k: int, where: str) -> list[Stored]:
    """The blocks of n tasks' rows; every array of the shape that the others call for."""
    shapes = arrays["rows_of"]
    even = shapes.ndim == 2 and shapes.shape[1] == 3 and shapes.dtype.kind == "i" and len(shapes)
    if (
        not even
        or (shapes[:, 1] < 0).any()
        or not np.isin(shapes[:, 2], [kind.itemsize for kind in _ROWS.values()]).all()
        or (shapes[:-1, 0] != shapes[0, 0]).any()
        or shapes[:, 0].min() < 1
        or shapes[:, 0].sum() != n
    ):
        raise ModelFileError(f"{where} garbles 'rows_of'; restore it from a copy.")
    counts = shapes[:, 0] * shapes[:, 1]
    ends, total = np.cumsum(counts)[:-1], int(counts.sum())
    steps = np.split(require(arrays, "step", (total,), where, size=4), ends)
    fixes = np.split(require(arrays, "fix", (total, k), where, size=4), ends)
    codes: list[Any] = [None] * len(shapes)
    for name, kind in _ROWS.items():
        mine = np.flatnonzero(shapes[:, 2] == kind.itemsize)
        rows = require(arrays, name, (int(counts[mine].sum()), p), where, kind=kind.kind, size=kind.itemsize)
        for i, part in zip(mine, np.split(rows, np.cumsum(counts[mine])[:-1]), strict=False):
            codes[i] = part
    return [
        Stored(part.reshape(m, r, p), step.reshape(m, r), fix.reshape(m, r, k))
        for part, step, fix, (m, r, _) in zip(codes, steps, fixes, shapes.tolist(), strict=True)
    ]


def _of_whole_rows(arrays: Arrays) -> Arrays:
    """What models were before rows were stored in few bytes, as they are now: exact rows."""
    (n, q), p, total = arrays["c"].shape, arrays["L"].shape[0], len(arrays["rows"])
    shapes = arrays["rows_of"]
    return arrays | {
        "rows_of": np.column_stack([shapes, np.full(len(shapes), _ROWS["rows"].itemsize)]),
        "rows_2": np.zeros((0, p), np.int16), "rows_1": np.zeros((0, p), np.int8),
        "step": np.ones(total, np.float32), "fix": np.zeros((total, q - 1), np.float32),
        "dual": np.zeros((q - 1, p)), "more": np.ones(n),
    }  # fmt: skip


def _diagonal(rows: list[Stored], dual: Float, D: Float) -> tuple[list[Stored], Float]:
    """Rows as they were before they were turned (`stored.diagonal`), as they are now; and `tied`."""
    ends = np.cumsum([len(block) for block in rows])[:-1]
    kept = [
        exactly(diagonal(block.rows(dual), own), len(dual))
        for block, own in zip(rows, np.split(D, ends), strict=True)
    ]
    return [k.rows for k in kept], np.concatenate([k.tied for k in kept])


def _compact(arrays: Arrays, known: Bool, p: int, where: str) -> Compact:
    """As it was; every array of the shape that the others call for."""
    if "more" not in arrays:
        arrays = _of_whole_rows(arrays)
    n, q = int(known.sum()), arrays["c"].shape[1]
    place = np.full(len(known), -1)
    place[known] = np.arange(n)
    more = require(arrays, "more", (n,), where)
    if not ((more >= 1.0) & (more <= MOST)).all():
        raise ModelFileError(f"{where}: array 'more' holds what it cannot; restore it from a copy.")
    rows, dual = _stored(arrays, n, p, q - 1, where), require(arrays, "dual", (q - 1, p), where)
    D = require(arrays, "D", (n, p), where)
    if "tied" in arrays:
        tied = require(arrays, "tied", (n,), where)
    else:
        rows, tied = _diagonal(rows, dual, D)
    if not ((tied >= 0.0) & (tied < 1.0)).all():
        raise ModelFileError(f"{where}: array 'tied' holds what it cannot; restore it from a copy.")
    return Compact(
        rows,
        dual,
        more,
        tied,
        require(arrays, "L", (p, q - 1), where),
        D,
        require(arrays, "c", (n, q), where),
        Open(require(arrays, "open", (q, q, p, p), where)),
        place,
    )


def _dense(arrays: Arrays, known: Bool, p: int, where: str) -> tuple[Float, Float]:
    """V and `away` of all tasks, (T, p, p); none where no task is known."""
    T, n = len(known) if known.any() else 0, int(known.sum())
    V, away = np.zeros((T, p, p)), np.zeros((T, p, p))
    rows, columns = np.triu_indices(p)
    for t, upper in zip(
        np.flatnonzero(known), require(arrays, "upper", (n, p * (p + 1) // 2), where), strict=True
    ):
        V[t, rows, columns] = upper
        V[t, columns, rows] = upper
    away[np.flatnonzero(known)] = require(arrays, "away", (n, p, p), where)
    return V, away


def _belief(meta: dict[str, Any], arrays: Arrays, where: str) -> Belief:
    """A belief whose every array has the shape that the others call for."""
    T, own = len(meta["tasks"]), meta["belief"]
    d = len(arrays["scale"])
    intercept = bool(own["intercept"])
    p = d + intercept
    known = require(arrays, "known", (T,), where, kind="i").astype(bool)
    scale, shift = require(arrays, "scale", (d,), where), require(arrays, "shift", (d,), where)
    frame = Frame(scale, intercept, float(own["reward"]), shift)
    V: Float | PerTask
    away: Float | PerTask
    if "rows" in arrays:
        compact = _compact(arrays, known, p, where)
        V, away = compact.covariances, compact.away
    else:
        V, away = _dense(arrays, known, p, where)
    return Belief(
        frame=frame,
        mean=require(arrays, "mean", (T, p), where),
        V=V,
        away=away,
        left=require(arrays, "left", (p,), where),
        noise=require(arrays, "noise", (T,), where),
        z=require(arrays, "z", (T,), where),
        labelled=require(arrays, "labelled", (T,), where, kind="i").astype(bool),
        label_error=float(own["label_error"]),
        known=known,
        usual=require(arrays, "usual", (len(arrays["usual"]),), where),
        rank=int(own["rank"]),
        claims=Claims[own["claims"]],
        start=_start(meta, arrays, p, where),
        loud=_loud(arrays, (d, p), where),
    )


def _loud(arrays: Arrays, sizes: tuple[int, int], where: str) -> Float:
    """What is louder than the common level; older models say nothing of it, or nothing of the intercept."""
    n = len(arrays.get("loud", EVEN))
    return EVEN if n == 0 else require(arrays, "loud", (n if n in sizes else sizes[1],), where)


def _start(meta: dict[str, Any], arrays: Arrays, p: int, where: str) -> Start | None:
    if "start" not in meta:
        return None
    k = arrays["start_L"].shape[1]
    shared = Shared(
        require(arrays, "start_mu", (p,), where),
        require(arrays, "start_L", (p, k), where),
        require(arrays, "start_D", (p,), where),
    )
    return Start(shared, float(meta["start"]["noise"]), int(meta["start"]["rows"]))
