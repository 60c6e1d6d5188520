"""`Arms`: a fixed list of named actions, each with its own answer to the context, and a part all share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from banister.data import Float, Int
from banister.errors import InputError, ModelFileError, SettingError
from banister.features.base import MAX_FEATURES, SCHEMA, Features, check_most
from banister.features.context import Spec, names_of
from banister.features.frames import column, read_frame
from banister.features.naming import name_codes, picked
from banister.features.odd_values import check_one_kind
from banister.features.state import context_from, context_state, parsed


class Arms(Features):
    """Features of a fixed list of arms in a context: `[z, 0, …, own z, …, 0]`.

    `z` is 1 and the encoded context. The first part has coefficients that all arms share; after it each arm
    has a part of its own, zero for all others. Numbers are shifted and scaled as the log says; a category
    that the log did not show counts as "other"; a gap is filled, with a flag beside it where the log had
    gaps.

    Args:
        names: the arms.
        numeric: columns of numbers (and booleans).
        categorical: columns of categories: text, whole numbers, booleans.
        dates: columns of dates or times; the day, the week and the year as far as the log shows them.
        own: the columns whose effect may differ from arm to arm; None: all of them. An intercept of its own
            every arm has.
        shared: whether there is a part that all arms share.
        max_categories: the most frequent categories of a column have a feature of their own.
        max_features: more than these are refused.

    Examples:
        >>> arms = Arms(["spring", "bundle"], numeric=["age"], categorical=["device"])
        >>> arms = arms.learn({"age": [30, 50], "device": ["ios", "ios"]})
        >>> arms.feature_names[:3], arms.dim
        (['1', 'age', 'device: other'], 9)
        >>> arms.actions({"age": 60, "device": "ios"}, offered=["bundle"])
        array([[1., 2., 0., 0., 0., 0., 1., 2., 0.]])
    """

    kind: ClassVar[str] = "arms"

    def __init__(
        self,
        names: Sequence[str],
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        dates: Sequence[str] = (),
        own: Sequence[str] | None = None,
        shared: bool = True,
        max_categories: int = 20,
        max_features: int = MAX_FEATURES,
    ) -> None:
        self._names = _check_arms(names)
        self.spec = Spec(
            names_of(numeric, "numeric"),
            names_of(categorical, "categorical"),
            names_of(dates, "dates"),
            max_categories,
        )
        self.own = None if own is None else _check_own(names_of(own, "own"), self.spec)
        self.shared = bool(shared)
        self.max_features = check_most(max_features)

    @classmethod
    def of_log(cls, logs: Any, *, arm: str, context: Sequence[str], **options: Any) -> Self:
        """Arms and kinds of columns as a log shows them: numbers, dates, and categories for all else.

        Args:
            logs: see `read_frame`.
            arm: the column with what was played; its values are the arms, sorted.
            context: columns.
            options: as of `Arms`; a column named in `categorical` is one, whatever it holds.
        """
        frame = read_frame(logs)
        if len(frame) == 0:
            raise InputError("The log has no rows.")
        kinds = _kinds(frame, names_of(context, "context"), options.pop("categorical", ()))
        names = column(frame, arm, "arm").drop_nulls().cast(str).unique().sort().to_list()
        return cls(names, **{**options, **kinds})

    @property
    def names(self) -> list[str]:
        """The arms."""
        return list(self._names)

    def learn(self, frame: Any) -> Self:
        """Learn scales and categories from a log (or from any table of contexts), once; returns itself."""
        context = self.spec.learn(self._begin_learning(frame))
        widths = {name: place.stop - place.start for name, place in context.slices.items()}
        advice = (
            "Lower max_categories",
            "name in own= only the columns whose effect differs from arm to arm",
            "leave columns out",
        )
        self._keep(context, widths, advice)
        return self

    def adopt(self, other: Features) -> None:
        """Nothing: a fixed list of arms does not change."""

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._names)}

    @cached_property
    def _own_columns(self) -> Int:
        """Which entries of z (the 1 in front) belong to the arms' own parts."""
        names = self.spec.names if self.own is None else self.own
        slices = [np.arange(s.start, s.stop) + 1 for n, s in self.context.slices.items() if n in names]
        return np.concatenate([[0], *slices]).astype(np.int64)

    @property
    def _head(self) -> int:
        """Features of the shared part."""
        return 1 + self.context.width if self.shared else 0

    @cached_property
    def _shape(self) -> tuple[int, int]:
        """(head, d); asked at every request."""
        return self._head, self._head + len(self._names) * len(self._own_columns)

    @property
    def dim(self) -> int:
        """d: the shared part, and one for each arm."""
        own = [s for n, s in self.context.slices.items() if self.own is None or n in self.own]
        return self._head + len(self._names) * (1 + sum(int(s.stop - s.start) for s in own))

    @property
    def feature_names(self) -> list[str]:
        """`1` and the context's features for the shared part, then `arm × feature` for each arm."""
        z = ["1", *self.context.labels]
        own = [f"{arm} × {z[i]}" for arm in self._names for i in self._own_columns]
        return [*(z if self.shared else []), *own]

    @property
    def constant(self) -> Float:
        """The shared 1; without a shared part all arms' own."""
        out, (head, dim) = np.zeros(self.dim), self._shape
        out[slice(0, 1) if self.shared else slice(head, dim, len(self._own_columns))] = 1.0
        return out

    def index(self, names: Any) -> Int:
        """(n,) the place of each arm; an unknown one is an error that names its row and lists the arms."""
        return name_codes(names, self._place, "arm")

    def offered_names(self, offered: Any = None) -> list[str]:
        """The arms that a request offers: all, or those named."""
        return list(self._names) if offered is None else picked(offered, self._place, "arm")

    def actions(self, context: Any, offered: Any = None) -> Float:
        """(K, d) features of the offered arms in one context.

        Args:
            context: raw values by column; None where a value is unknown.
            offered: names of arms; None: all, in their order.
        """
        z = np.array([1.0, *self.context.vector(context)])
        head, dim = self._shape
        if offered is None:
            arm = self._every
        else:
            arm = np.array([self._place[n] for n in self.offered_names(offered)])
        out = np.zeros((len(arm), dim))
        out[:, :head] = z[:head]
        own = z if self.own is None else z[self._own_columns]
        out[:, head:].reshape(len(arm), len(self._names), len(own))[self._every[: len(arm)], arm] = own
        return out

    def stacked(self, contexts: Sequence[Any]) -> Float:
        """See `Features.stacked`; all at once."""
        z = np.array([[1.0, *self.context.vector(context)] for context in contexts])
        (head, dim), K = self._shape, len(self._names)
        out = np.zeros((len(z), K, dim))
        out[:, :, :head] = z[:, None, :head]
        own = z if self.own is None else z[:, self._own_columns]
        out[:, :, head:].reshape(len(z), K, K, own.shape[1])[:, self._every, self._every] = own[:, None]
        return out

    @cached_property
    def _every(self) -> Int:
        return np.arange(len(self._names), dtype=np.int64)

    def coded(self, frame: Any, start: int, stop: int) -> Float | None:
        """The 1 and the encoded context; None without a context."""
        return self._z(frame, start, stop) if self.context.width else None

    def expand(self, coded: Float, action: Int) -> Float:
        """(n, d) feature rows of contexts in their short form and the arms played in them."""
        out = np.zeros((len(coded), self.dim))
        self._place_rows(coded, action, out)
        return out

    def _z(self, frame: Any, start: int, stop: int) -> Float:
        z = np.ones((stop - start, 1 + self.context.width))
        z[:, 1:] = self.context.block(frame, start, stop)
        return z

    def _fill(self, frame: Any, start: int, stop: int, action: Int, out: Float) -> None:
        self._place_rows(self._z(frame, start, stop), action, out)

    def _place_rows(self, z: Float, action: Int, out: Float) -> None:
        head = self._head
        out[:, :head] = z[:, :head]
        own = z if self.own is None else z[:, self._own_columns]
        places = out[:, head:].reshape(len(z), len(self._names), own.shape[1])  # a view: each arm's part
        places[np.arange(len(z)), action] = own

    def places(self, rows: Float) -> Int:
        """(n,) the place of each feature row's arm (n, d): the one whose own intercept is set."""
        head, dim = self._shape
        starts = range(head, dim, len(self._own_columns))
        return np.asarray(np.argmax(np.asarray(rows)[:, list(starts)], axis=1), dtype=np.int64)

    def named(self, rows: Float) -> list[str]:
        """The arm of each feature row (n, d)."""
        return [self._names[i] for i in self.places(rows)]

    def contexts(self, rows: Float) -> Float:
        """(n, w) the encoded contexts in feature rows (n, d), the 1 in front: the same whatever the arm."""
        rows, (head, dim) = np.asarray(rows), self._shape
        if self.shared:
            return rows[:, :head]
        own = rows.reshape(len(rows), len(self._names), dim // len(self._names))
        return np.asarray(own[np.arange(len(rows)), self.places(rows)])

    def _state(self) -> dict[str, Any]:
        return {**self._settings(), "columns": context_state(self._context)}

    def _settings(self) -> dict[str, Any]:
        return {
            "names": self._names,
            "numeric": self.spec.numeric,
            "categorical": self.spec.categorical,
            "dates": self.spec.dates,
            "own": self.own,
            "shared": self.shared,
            "max_categories": self.spec.most,
            "max_features": self.max_features,
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote, bit for bit."""
        state = parsed(text, cls.kind, SCHEMA)
        try:
            settings = {k: v for k, v in state.items() if k not in ("kind", "schema", "columns")}
            arms = cls(**settings)
            arms._context = context_from(state["columns"])
        except (KeyError, TypeError, ValueError) as reason:
            raise ModelFileError(
                f"These arms cannot be read ({reason}); restore the file from a copy."
            ) from None
        return arms

    def __repr__(self) -> str:
        columns = f"{len(self._names)} arms ({', '.join(self._names[:5])}{', …' * (len(self._names) > 5)})"
        kinds = {
            "numeric": self.spec.numeric,
            "categorical": self.spec.categorical,
            "dates": self.spec.dates,
        }
        shown = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
        state = f"{self.dim} features" if self.learned else "not learned yet"
        return f"<Arms: {columns}; {shown + '; ' if shown else ''}{state}>"


def _check_arms(names: Any) -> tuple[str, ...]:
    arms = names_of(names, "names")
    if not arms:
        raise SettingError("Arms needs at least one arm, such as Arms(['spring', 'bundle']).")
    twice = sorted({n for n in arms if arms.count(n) > 1})
    if twice:
        raise SettingError(f"The arms {twice} are named twice; name each once.")
    return arms


def _check_own(own: tuple[str, ...], spec: Spec) -> tuple[str, ...]:
    unknown = [n for n in own if n not in spec.names]
    if unknown:
        raise SettingError(
            f"own names {unknown}, which are no columns of the context; those are {', '.join(spec.names)}."
        )
    return own


def _kinds(frame: Any, context: tuple[str, ...], categorical: Any) -> dict[str, list[str]]:
    forced = names_of(categorical, "categorical")
    unknown = [n for n in forced if n not in context]
    if unknown:
        raise InputError(f"categorical names {unknown}, which are not among the context {list(context)}.")
    kinds: dict[str, list[str]] = {"numeric": [], "categorical": [], "dates": []}
    for name in context:
        values = column(frame, name, "the context", "Name the columns with context=...")
        held = values.dtype
        if name not in forced:
            check_one_kind(values)
        kind = "dates" if held.is_temporal() else "numeric" if held.is_numeric() else "categorical"
        kinds["categorical" if name in forced else kind].append(name)
    return kinds
