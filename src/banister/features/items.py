"""`Items`: a catalogue that changes, whose items have features of their own, crossed with the context."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from banister.data import Float, Int
from banister.errors import InputError, ModelFileError, SettingError
from banister.features.base import MAX_FEATURES, SCHEMA, Features, check_most
from banister.features.context import Context, Spec, names_of
from banister.features.frames import column, read_frame
from banister.features.naming import name_codes, picked
from banister.features.state import context_from, context_state, parsed


class Items(Features):
    """Features of items in a context: 1, the item's columns, the context's columns, and products of pairs.

    Coefficients belong to features, not to items, so an item that nobody has seen yet has an estimate.

    Args:
        catalogue: a table with one row an item; see `read_frame`.
        id: its column of names.
        numeric, categorical, dates: its columns of features.
        context_numeric, context_categorical, context_dates: columns of the context.
        cross: pairs (column of the items, column of the context) whose effect depends on both.
        max_categories: the most frequent categories of a column have a feature of their own.
        max_features: more than these are refused.

    Examples:
        >>> wines = {"item": ["red", "white"], "price": [10.0, 20.0]}
        >>> items = Items(wines, numeric=["price"], context_numeric=["age"], cross=[("price", "age")])
        >>> items = items.learn({"age": [30, 50]})
        >>> items.feature_names
        ['1', 'price', 'age', 'price × age']
        >>> items.actions({"age": 60}, offered=["white", {"item": "rosé", "price": 15.0}])
        array([[1., 1., 2., 2.],
               [1., 0., 2., 0.]])
    """

    kind: ClassVar[str] = "items"
    _frame: Any = None  # the raw catalogue; JSON keeps its features only

    def __init__(
        self,
        catalogue: Any,
        *,
        id: str = "item",  # noqa: A002
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        dates: Sequence[str] = (),
        context_numeric: Sequence[str] = (),
        context_categorical: Sequence[str] = (),
        context_dates: Sequence[str] = (),
        cross: Sequence[tuple[str, str]] = (),
        max_categories: int = 20,
        max_features: int = MAX_FEATURES,
    ) -> None:
        spec = Spec(
            names_of(numeric, "numeric"),
            names_of(categorical, "categorical"),
            names_of(dates, "dates"),
            max_categories,
        )
        asked = Spec(
            names_of(context_numeric, "context_numeric"),
            names_of(context_categorical, "context_categorical"),
            names_of(context_dates, "context_dates"),
            max_categories,
        )
        self._settle(id, asked, _check_cross(cross), check_most(max_features))
        frame = read_frame(catalogue, "catalogue")
        if len(frame) == 0:
            raise InputError("The catalogue has no rows; give at least one item.")
        self._items = spec.learn(frame)
        self._check_columns()
        self._stock(frame)

    def _settle(self, id: str, spec: Spec, cross: tuple[tuple[str, str], ...], most: int) -> None:  # noqa: A002
        self.id, self.spec, self.cross, self.max_features = id, spec, cross, most

    def _check_columns(self) -> None:
        for item, context in self.cross:
            if item not in self._items.slices or context not in self.spec.names:
                raise SettingError(
                    f"cross holds {(item, context)!r}; give pairs of a column of the items "
                    f"({', '.join(self._items.slices)}) and one of the context "
                    f"({', '.join(self.spec.names)})."
                )

    def _stock(self, frame: Any) -> None:
        names = column(frame, self.id, "the items' names", "Name it with id=...").cast(str)
        if names.has_nulls() or names.n_unique() != len(names):
            row = int((names.is_null() | ~names.is_first_distinct()).arg_max() or 0)
            raise InputError(
                f"Column {self.id!r} of the catalogue holds {names[row]!r} at row {row}; every item needs a "
                "name of its own."
            )
        self._frame = frame
        self._table = self._items.block(frame, 0, len(frame))
        self._place = {name: i for i, name in enumerate(names.to_list())}

    def update(self, catalogue: Any) -> Self:
        """Take in another catalogue: new items, other prices. Scales and categories stay; returns itself."""
        self._stock(read_frame(catalogue, "catalogue"))
        return self

    def same_scales(self, other: Features) -> bool:
        """Whether another object of the same settings has learned the same of items and contexts."""
        return isinstance(other, Items) and super().same_scales(other) and self._items == other._items

    def adopt(self, other: Features) -> None:
        """Take over the catalogue of another object of the same settings."""
        if isinstance(other, Items) and other._frame is not None:
            self.update(other._frame)

    @property
    def names(self) -> list[str]:
        """The items of the catalogue."""
        return list(self._place)

    def learn(self, frame: Any) -> Self:
        """Learn the context's scales and categories from a log, once; returns itself.

        Those of the items were learned from the first catalogue.
        """
        context = self.spec.learn(self._begin_learning(frame))
        widths = {
            f"{i} × {c}": _width(self._items.slices[i]) * _width(context.slices[c]) for i, c in self.cross
        }
        widths |= {n: _width(s) for part in (self._items, context) for n, s in part.slices.items()}
        self._keep(context, widths, ("Cross fewer columns", "lower max_categories", "leave columns out"))
        return self

    @property
    def feature_names(self) -> list[str]:
        """`1`, the items' features, the context's, and the crossed ones."""
        own, asked = self._items, self.context
        crossed = [
            f"{i} × {c}"
            for item, ctx in self.cross
            for i in own.labels[own.slices[item]]
            for c in asked.labels[asked.slices[ctx]]
        ]
        return ["1", *own.labels, *asked.labels, *crossed]

    @property
    def constant(self) -> Float:
        """The 1 in front."""
        out: Float = np.eye(1, self.dim)[0]
        return out

    def index(self, names: Any) -> Int:
        """(n,) the place of each item in the catalogue; an unknown one is an error that names its row."""
        return name_codes(names, self._place, "item")

    def offered_names(self, offered: Any = None) -> list[str]:
        """The items that a request offers: all, or those named or described."""
        if offered is None:
            return self.names
        if isinstance(offered, Sequence) and any(isinstance(item, Mapping) for item in offered):
            return [self._name_of(item) for item in offered]
        return picked(offered, self._place, "item")

    def actions(self, context: Any, offered: Any = None) -> Float:
        """(K, d) features of the offered items in one context.

        Args:
            context: raw values by column; None where a value is unknown.
            offered: names of the catalogue's items, or mappings with the raw features of items that are not
                in it; None: the whole catalogue.
        """
        z = np.array(self.context.vector(context))
        own = self._table if offered is None else self._described(offered)
        out = np.empty((len(own), self._dim))
        self._write(own, np.broadcast_to(z, (len(own), len(z))), out)
        return out

    @cached_property
    def _dim(self) -> int:
        return self.dim  # counted once: requests ask for it

    def _described(self, offered: Any) -> Float:
        names = self.offered_names(offered)
        rows = [
            self._items.vector(item) if isinstance(item, Mapping) else self._table[self._place[name]]
            for item, name in zip(offered, names, strict=True)
        ]
        return np.array(rows).reshape(len(rows), self._items.width)

    def _name_of(self, item: Any) -> str:
        name = item.get(self.id) if isinstance(item, Mapping) else item
        if not isinstance(name, str) or (not isinstance(item, Mapping) and name not in self._place):
            raise InputError(
                f"offered holds {item!r}; name an item of the catalogue, or describe it with {self.id!r} and "
                f"{', '.join(self._items.slices)}."
            )
        return name

    def _fill(self, frame: Any, start: int, stop: int, action: Int, out: Float) -> None:
        self._write(self._table[action], self.context.block(frame, start, stop), out)

    def _write(self, own: Float, asked: Float, out: Float) -> None:
        """Rows from items' features (n, p) and contexts' (n, q)."""
        at = 1 + own.shape[1] + asked.shape[1]
        out[:, 0] = 1.0
        out[:, 1 : 1 + own.shape[1]] = own
        out[:, 1 + own.shape[1] : at] = asked
        for item, context in self.cross:
            left, right = own[:, self._items.slices[item]], asked[:, self.context.slices[context]]
            width = left.shape[1] * right.shape[1]
            out[:, at : at + width] = (left[:, :, None] * right[:, None, :]).reshape(len(own), width)
            at += width

    def _settings(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "numeric": self.spec.numeric,
            "categorical": self.spec.categorical,
            "dates": self.spec.dates,
            "cross": self.cross,
            "item_columns": [[c.kind, c.name] for c in self._items.columns],
            "max_categories": self.spec.most,
            "max_features": self.max_features,
        }

    def _state(self) -> dict[str, Any]:
        return {
            **self._settings(),
            "items": context_state(self._items),
            "names": self.names,
            "table": base64.b64encode(self._table.astype("<f8").tobytes()).decode(),
            "columns": context_state(self._context),
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote, bit for bit."""
        state = parsed(text, cls.kind, SCHEMA)
        items = cls.__new__(cls)
        try:
            numeric, categorical, dates = (tuple(state[k]) for k in ("numeric", "categorical", "dates"))
            spec = Spec(numeric, categorical, dates, state["max_categories"])
            items._settle(state["id"], spec, _check_cross(state["cross"]), check_most(state["max_features"]))
            items._items = context_from(state["items"]) or Context(())
            items._place = {name: i for i, name in enumerate(state["names"])}
            table = np.frombuffer(base64.b64decode(state["table"]), dtype="<f8").astype(np.float64)
            items._table = table.reshape(len(items._place), items._items.width)
            items._context = context_from(state["columns"])
            items._check_columns()
        except (KeyError, TypeError, ValueError) as reason:
            raise ModelFileError(
                f"These items cannot be read ({reason}); restore the file from a copy."
            ) from None
        return items

    def __repr__(self) -> str:
        crossed = ", ".join(f"{i} × {c}" for i, c in self.cross) or "nothing"
        state = f"{self.dim} features" if self.learned else "not learned yet"
        return f"<Items: {len(self._place)} items; {crossed} crossed; {state}>"


def _width(place: slice) -> int:
    return int(place.stop - place.start)


def _check_cross(cross: Any) -> tuple[tuple[str, str], ...]:
    pairs = tuple(tuple(pair) if isinstance(pair, (list, tuple)) else pair for pair in cross)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise SettingError(
                f"cross holds {pair!r}; give pairs (column of the items, column of the context)."
            )
    if len(set(pairs)) != len(pairs):
        raise SettingError("cross holds one pair twice; give each once.")
    return pairs
