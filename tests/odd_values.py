"""Values that no door expects, by name: for whatever takes numbers, arrays, labels, ids or files."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import pathlib

import numpy as np


class Liar:
    """Says that it is long and holds nothing."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        raise TypeError("no such luck")


class Angry:
    """Refuses to become an array, or anything else."""

    def __array__(self, *_, **__):
        raise TypeError("no array")

    def __float__(self):
        raise TypeError("no number")

    def __index__(self):
        raise TypeError("no index")


def recursive():
    own = []
    own.append(own)
    return own


def scalars():
    return {
        "none": None, "true": True, "false": False, "numpy bool": np.True_, "nan": float("nan"),
        "inf": float("inf"), "-inf": -float("inf"), "huge int": 10**400, "-huge int": -(10**400),
        "2**63": 2**63, "2**64": 2**64, "-1": -1, "half": 0.5, "huge": 1e308, "tiny": 5e-324, "-0.0": -0.0,
        "complex": 1 + 2j, "numpy complex": np.complex128(1j), "text": "x", "digits": "1", "empty": "",
        "blank": " ", "nul": "a\0b", "surrogate": "\ud800", "surrogates": "a\udfffb", "emoji": "\U0001f600",
        "bytes": b"1", "bytearray": bytearray(b"x"), "decimal": decimal.Decimal("1.5"),
        "decimal nan": decimal.Decimal("NaN"), "fraction": fractions.Fraction(1, 3),
        "date": dt.date(2020, 1, 1), "datetime": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "delta": dt.timedelta(1), "numpy datetime": np.datetime64("2020-01-01"), "nat": np.datetime64("NaT"),
        "numpy delta": np.timedelta64(3, "s"), "float16": np.float16("inf"),
        "longdouble": np.longdouble(1) * 3,
        "longdouble huge": np.longdouble("1e4000"), "numpy str": np.str_("x"), "numpy bytes": np.bytes_(b"x"),
        "void": np.void(b"abc"), "type": int, "function": len, "object": object(), "ellipsis": ...,
        "range": range(3), "slice": slice(1), "path": pathlib.Path("x"), "module": np, "angry": Angry(),
        "liar": Liar(), "notimplemented": NotImplemented, "exception": ValueError("x"),
    }  # fmt: skip


def items():
    return {
        "none": None, "texts": "1.0", "nan": float("nan"), "huge": 10**400, "bools": True,
        "decimals": decimal.Decimal(1), "dates": dt.date(2020, 1, 1), "complex": 1j, "bytes": b"1",
        "surrogates": "\ud800", "lists": [], "angry": Angry(), "-1": -1,
        "fractions": fractions.Fraction(1, 3),
    }  # fmt: skip


def arrays(shape):
    """Arrays that would have the right shape, and lists, and some that do not."""
    ones = np.ones(shape)
    masked = np.ma.masked_array(ones, mask=np.zeros(shape, dtype=bool))
    masked[(0,) * len(shape)] = np.ma.masked
    flat = [1.0] * shape[-1]
    nested = flat
    for n in shape[-2::-1]:
        nested = [list(nested) if isinstance(nested, list) else nested for _ in range(n)]
    return {
        "masked": masked, "masked, nothing masked": np.ma.masked_array(ones), "bools": ones.astype(bool),
        "texts": ones.astype(str), "bytes": ones.astype("S"), "objects": ones.astype(object),
        "objects none": np.full(shape, None), "objects mixed": np.full(shape, "x", dtype=object),
        "complex": ones * 1j, "nan": ones * np.nan, "inf": ones * np.inf, "-inf": ones * -np.inf,
        "huge": ones * 1e308, "float16": ones.astype("f2"), "longdouble": ones.astype(np.longdouble) * 2,
        "uint64": (ones * 3).astype("u8"), "int8": ones.astype("i1"), "-1": (-ones).astype(int),
        "big endian": ones.astype(">f8"), "datetimes": np.zeros(shape, "M8[s]"),
        "deltas": np.zeros(shape, "m8[s]"),
        "records": np.zeros(shape, dtype=[("a", "f8"), ("b", "i4")]), "voids": np.zeros(shape, "V8"),
        "fortran": np.asfortranarray(ones), "strided": np.ones((2 * shape[0], *shape[1:]))[::2],
        "broadcast": np.broadcast_to(1.0, shape), "matrix": np.asmatrix(ones) if len(shape) == 2 else ones,
        "read only": np.frombuffer(ones.tobytes()).reshape(shape), "empty": np.zeros((0, *shape[1:])),
        "no columns": np.zeros((*shape[:-1], 0)), "one more": np.ones((shape[0] + 1, *shape[1:])),
        "one less": np.ones((shape[0] - 1, *shape[1:])), "wider": np.ones((*shape[:-1], shape[-1] + 1)),
        "deeper": ones[None], "deep": ones[None, None, None, None], "flat": ones.ravel(),
        "0-d": np.array(1.0),
        "nested": nested, "ragged": [[1.0], [1.0, 2.0]], "ragged deeper": [nested, 1.0],
        "recursive": recursive(),
        "generator": (row for row in ones), "iterator": iter(nested), "map": map(float, flat),
        "dict": {"a": 1}, "set": {1, 2}, "dict of rows": dict(enumerate(nested)), "tuple": tuple(nested),
        **{f"list of {name}": [value] * shape[0] for name, value in items().items()},
        "memoryview": memoryview(bytes(8)), "sub class": ones.view(type("Own", (np.ndarray,), {})),
        **scalars(),
    }  # fmt: skip
