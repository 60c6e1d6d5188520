"""Calls to a service, as data: what is sent, and how the answer is read. Both clients send the same ones."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np

from banister import errors
from banister.data import Float, Number, Whole
from banister.errors import BanisterError, InputError, ServiceError
from banister.online.audit import Audit
from banister.online.decision import Decision
from banister.online.head import Receipt
from banister.online.status import Status, TaskStatus
from banister.serve.packing import PACKED, pack, unpack

T = TypeVar("T")
PAGE = 1000  # tasks asked for at once
_NUMBERS = [name for name, kind in get_type_hints(Decision).items() if kind is float]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request; `numbers` follow its JSON, `read` makes the library's own type of its answer."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    numbers: tuple[Float, ...] = ()

    def content(self) -> dict[str, Any]:
        """What is sent, as arguments of httpx."""
        if not self.numbers:
            return {"json": self.body}
        line = json.dumps(self.body).encode()
        return {"content": pack(line, self.numbers), "headers": {"content-type": PACKED}}

    def answer(self, kind: str, content: bytes) -> T:
        """What came back, by its media type."""
        return self.read(_with_features(content) if kind == PACKED else json.loads(content))


def new_key() -> str:
    """A name for one call, which no other call has."""
    return secrets.token_hex(16)


def decide(
    task: str, actions: Any, baseline: Any, context: Any, offered: Any, reward: Any, std: Any, key: str | None
) -> Call[Decision]:
    """See `SafeBandit.decide`."""
    own = None if actions is None else _matrix(actions)
    body = request(task, own, baseline, context, offered, reward, std, key or new_key())
    return Call("POST", "/v1/decisions", _decision, body, _numbers([own]))


def request(
    task: str, actions: Any, baseline: Any, context: Any, offered: Any, reward: Any, std: Any, key: str
) -> dict[str, Any]:
    """A request's JSON, without what was not given."""
    chosen = baseline(context) if callable(baseline) else baseline
    values = {
        "task": task, "baseline": _plain(chosen), **_described(actions),
        "context": None if context is None else {k: _plain(v) for k, v in context.items()},
        "offered": None if offered is None else list(offered), "baseline_reward": _reward(reward),
        "baseline_reward_std": float(std), "key": key,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def decide_many(
    tasks: Sequence[str], actions: Any, baselines: Any, rewards: Any, std: Any, keys: Any
) -> Call[list[Decision]]:
    """See `SafeBandit.decide_many`; every request has a key, so that the whole may be sent again."""
    m, names = len(tasks), _keys(keys, len(tasks))
    if not len(actions) == len(baselines) == m or (rewards is not None and len(rewards) != m):
        raise InputError(f"There are {m} tasks; give as many action sets, baselines and baseline rewards.")
    stds = np.broadcast_to(np.asarray(std, dtype=float), m)
    known = [None] * m if rewards is None else rewards
    sets = [_matrix(a) for a in actions]
    rows = zip(tasks, sets, baselines, known, stds, names, strict=True)
    body = [request(t, a, b, None, None, r, s, key) for t, a, b, r, s, key in rows]
    return Call("POST", "/v1/decisions:batch", _decisions, {"requests": body}, _numbers(sets))


def reward(number: Whole, value: Number, key: str | None) -> Call[str]:
    """See `SafeBandit.reward`."""
    body = {"id": _plain(number), "reward": _plain(value), "key": key or new_key()}
    return Call("POST", "/v1/rewards", lambda answer: str(answer["outcome"]), body)


def reward_many(numbers: Sequence[int], values: Sequence[Number], keys: Any) -> Call[list[str]]:
    """See `SafeBandit.reward_many`."""
    if len(numbers) != len(values):
        raise InputError(f"There are {len(numbers)} ids and {len(values)} rewards; give one reward per id.")
    rows = zip(numbers, values, _keys(keys, len(numbers)), strict=True)
    body = [{"id": _plain(n), "reward": _plain(v), "key": key} for n, v, key in rows]
    return Call("POST", "/v1/rewards:batch", lambda answer: list(answer["outcomes"]), {"rewards": body})


def _keys(given: Any, m: int) -> list[str]:
    """A key for each of m entries: the caller's own, or a new one."""
    new, own = new_key(), [None] * m if given is None else list(given)
    if len(own) != m:
        raise InputError(f"There are {m} entries and {len(own)} keys; give one per entry, or None.")
    return [f"{new}:{i}" if key is None else key for i, key in enumerate(own)]


def retract(number: int, why: str) -> Call[str]:
    """See `SafeBandit.retract`."""
    body = {"id": _plain(number), "why": why}
    return Call("POST", "/v1/retractions", lambda answer: str(answer["outcome"]), body)


def refit(wait: bool) -> Call[int]:
    """See `SafeBandit.refit`."""
    return Call("POST", "/v1/refits", lambda answer: int(answer["model_version"]), {"wait": wait})


def receipt() -> Call[Receipt]:
    """See `SafeBandit.receipt`."""
    return Call("GET", "/v1/receipt", Receipt.from_dict)


def audit(given: Receipt | dict[str, Any] | None) -> Call[Audit]:
    """See `SafeBandit.audit`."""
    kept = None if given is None else Receipt.from_dict(given).to_dict()
    return Call("POST", "/v1/audits", _audit, {"receipt": kept})


def totals() -> Call[dict[str, Any]]:
    """A status without its tasks."""
    return Call("GET", "/v1/status", dict)


def tasks(offset: int) -> Call[dict[str, Any]]:
    """A page of tasks."""
    return Call("GET", f"/v1/tasks?sort=task&offset={offset}&limit={PAGE}", dict)


def status(found: dict[str, Any], pages: list[dict[str, Any]]) -> Status:
    """A status from its totals and pages of tasks."""
    rows = [_of(TaskStatus, task) for page in pages for task in page["tasks"]]
    return _of(Status, {**found, "tasks": rows})


def failure(code: int, problem: Any) -> BanisterError:
    """The library's own error for a problem document, so that callers handle both alike."""
    known = problem if isinstance(problem, dict) else {}
    detail = str(known.get("detail", f"The service answered {code}."))
    words = str(known.get("type", "")).removeprefix("urn:banister:").split("-")
    kind = getattr(errors, "".join(map(str.capitalize, words)) + "Error", None)
    if isinstance(kind, type) and issubclass(kind, BanisterError) and kind is not ServiceError:
        made: BanisterError = kind(detail)
        return made
    return ServiceError.of(code, detail)


def _of(kind: type[T], values: dict[str, Any]) -> T:
    """An object of the fields it has; a younger service may send more."""
    return kind(**{f.name: values[f.name] for f in fields(kind)})  # type: ignore[arg-type]


def _decision(values: dict[str, Any]) -> Decision:
    own = {name: value for name, value in values.items() if name in Decision._fields}
    for name, value in own.items():
        if isinstance(value, list):
            own[name] = np.array(value, dtype=float)
        elif value is None and name in _NUMBERS:
            own[name] = math.nan
    return Decision(**own)


def _decisions(answer: dict[str, Any]) -> list[Decision]:
    return [_decision(values) for values in answer["decisions"]]


def _audit(values: dict[str, Any]) -> Audit:
    return _of(Audit, {**values, "versions": {int(v): n for v, n in values["versions"].items()}})


def _plain(value: Any) -> Any:
    """A number of numpy as a number."""
    return value.item() if isinstance(value, np.generic) else value


def _matrix(actions: Any) -> Any:
    """(K, d) numbers; what is no matrix stays as it is, for the service's own words on it."""
    try:
        array = np.asarray(actions, dtype=np.float64)
    except (TypeError, ValueError):
        return actions
    return array if array.ndim == 2 and array.size else array.tolist()


def _described(actions: Any) -> dict[str, Any]:
    """What a request says of its actions: the shape of numbers that follow it, or the actions themselves."""
    return {"shape": list(actions.shape)} if isinstance(actions, np.ndarray) else {"actions": actions}


def _numbers(sets: Sequence[Any]) -> tuple[Float, ...]:
    return tuple(actions for actions in sets if isinstance(actions, np.ndarray))


def _with_features(content: bytes) -> Any:
    """JSON whose decisions have the features that follow it."""
    line, numbers = unpack(content)
    value = json.loads(line)
    made = value.get("decisions", [value])
    for own, features in zip(made, numbers.reshape(len(made), -1).copy(), strict=True):
        own["features"] = features
    return value


def _reward(value: Any) -> Any:
    if value is None or isinstance(value, (float, int)):
        return None if value is None or value != value else value
    return [_plain(v) for v in value] if np.ndim(value) else _reward(_plain(value))
