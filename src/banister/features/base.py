"""What `Arms` and `Items` share: learned once from a log, then frozen, and kept as JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from banister.data import Float, Int
from banister.errors import InputError, NotFittedError, SettingError
from banister.features.context import Context
from banister.features.frames import column, read_frame

SCHEMA = 1
BLOCK = 8192  # rows encoded at once: their features stay in the processor's cache
# A fit holds (d, d) sums of every task and factors them: beyond this a refit takes minutes, not seconds.
MAX_FEATURES = 500


class Features(ABC):
    """Raw contexts and named actions to feature rows.

    Subclasses say how a learned context and an action make a row.
    """

    kind: ClassVar[str]
    max_features: int
    _context: Context | None = None

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The actions that can be offered."""

    @property
    @abstractmethod
    def feature_names(self) -> list[str]:
        """What each of the `dim` features is."""

    @property
    @abstractmethod
    def constant(self) -> Float:
        """(d,) the combination of features that is 1 in every row: where a model's level belongs."""

    @abstractmethod
    def learn(self, frame: Any) -> Self:
        """Learn scales and categories from a log, once; they are frozen from then on."""

    @abstractmethod
    def actions(self, context: Any, offered: Any = None) -> Float:
        """(K, d) features of what one request offers."""

    def stacked(self, contexts: Sequence[Any]) -> Float:
        """(m, K, d) features of all actions in each of m contexts, given as mappings of raw values."""
        return np.stack([self.actions(context) for context in contexts])

    @abstractmethod
    def offered_names(self, offered: Any = None) -> list[str]:
        """The names of what one request offers, in the order of the rows of `actions`."""

    @abstractmethod
    def index(self, names: Any) -> Int:
        """(n,) the place of each action among `names`; an unknown one is an error that names its row."""

    def coded(self, frame: Any, start: int, stop: int) -> Float | None:
        """(n, w) what `expand` makes rows of, w > 1, for a stretch of a frame; None: rows have no short form.

        A million rows of five arms are six times as long as what they are made of.
        """
        return None

    def expand(self, coded: Float, action: Int) -> Float:
        """(n, d) feature rows of contexts in their short form and the actions played in them."""
        raise NotImplementedError

    @abstractmethod
    def _fill(self, frame: Any, start: int, stop: int, action: Int, out: Float) -> None:
        """Write the feature rows of a stretch of a frame into zeros (n, d)."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What JSON keeps."""

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """What the user chose: of what JSON keeps, the part that no log and no catalogue changes."""

    def same_settings(self, other: Features) -> bool:
        """Whether another object was made with the same choices, whatever each has learned since."""
        return self.kind == other.kind and self._settings() == other._settings()

    def same_scales(self, other: Features) -> bool:
        """Whether another object of the same settings has learned the same."""
        return self._context == other._context

    @abstractmethod
    def adopt(self, other: Features) -> None:
        """Take over what may change under a model's feet from another object of the same settings."""

    @property
    def learned(self) -> bool:
        """Whether scales and categories are known."""
        return self._context is not None

    @property
    def context(self) -> Context:
        """The learned columns of the context."""
        if self._context is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not seen a log yet, so it knows neither scales nor "
                "categories; call learn(frame), or warm_start the bandit that holds it."
            )
        return self._context

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return len(self.feature_names)

    def blocks(self, contexts: Any, arms: Any, size: int = BLOCK) -> Iterator[tuple[slice, Float]]:
        """The rows of `rows`, a stretch at a time, for logs whose feature rows do not fit into memory."""
        frame = read_frame(contexts, "contexts")
        played = self.played(frame, arms)
        for start in range(0, len(frame), size):
            stop = min(start + size, len(frame))
            out = np.zeros((stop - start, self.dim))
            self._fill(frame, start, stop, played[start:stop], out)
            yield slice(start, stop), out

    def rows(self, contexts: Any, arms: Any) -> Float:
        """(n, d) features of what was played in a log.

        Args:
            contexts: the log; see `read_frame` for what it may be.
            arms: the name of its column with what was played, or n names.
        """
        frame = read_frame(contexts, "contexts")
        out = np.zeros((len(frame), self.dim))
        played = self.played(frame, arms)
        for start in range(0, len(frame), BLOCK):
            stop = min(start + BLOCK, len(frame))
            self._fill(frame, start, stop, played[start:stop], out[start:stop])
        return out

    def tensor(self, contexts: Any) -> Float:
        """(n, K, d) features of all actions in many contexts."""
        frame, K = read_frame(contexts, "contexts"), len(self.names)
        out = np.zeros((len(frame), K, self.dim))
        for action in range(K):
            self._fill(frame, 0, len(frame), np.full(len(frame), action), out[:, action])
        return out

    def played(self, frame: Any, arms: Any) -> Int:
        """The index of what was played in each row; `arms` as in `rows`."""
        index = self.index(column(frame, arms, "arm") if isinstance(arms, str) else arms)
        if len(index) != len(frame):
            raise InputError(f"There are {len(frame)} contexts and {len(index)} arms; give one arm a row.")
        return index

    def to_json(self) -> str:
        """Everything as JSON; floats in hexadecimal, so that they load bit for bit."""
        return json.dumps({"kind": self.kind, "schema": SCHEMA, **self._state()}, ensure_ascii=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def _begin_learning(self, frame: Any) -> Any:
        """The log as a frame with rows; an error if this object has learned already."""
        if self.learned:
            raise InputError(
                f"This {type(self).__name__} has learned its scales and categories; they are frozen, because "
                "a model rests on them. Make a new one for another log."
            )
        table = read_frame(frame)
        if len(table) == 0:
            raise InputError("The log has no rows.")
        return table

    def _keep(self, context: Context, widths: dict[str, int], advice: Sequence[str]) -> None:
        """Freeze the columns, unless they make too many features."""
        self._context = context
        if self.dim > self.max_features:
            dim, self._context = self.dim, None
            wide = sorted(widths.items(), key=lambda pair: -pair[1])[:4]
            shown = ", ".join(f"{name} ({width})" for name, width in wide)
            raise SettingError(
                f"These columns make {dim} features; {self.max_features} are allowed, because a fit costs "
                f"their cube. Widest: {shown}. {'; '.join(advice)}; or raise max_features."
            )


def check_most(value: Any) -> int:
    """A limit on the number of features."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(f"max_features={value!r} must be a whole number, at least 1.")
    return value
