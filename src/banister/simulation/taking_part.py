"""Who may take part in a trial: an object that lacks a method is refused by the method's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from banister.contract import Environment, Policy
from banister.errors import SettingError

_POLICY = ("decide", "learn", "reset", "end_epoch")
_AFTER_RESET = ("block", "theta")  # a policy may make these when a trial begins
_ENVIRONMENT = (
    "reset", "requests", "expected", "best", "baseline", "noise", "reward", "n_tasks", "rank", "theta_at",
)  # fmt: skip
_PURPOSE = {
    "decide": "decide(requests) returns Choices",
    "learn": "learn(outcomes) takes in what came back",
    "reset": "reset starts a new trial: reset(n_tasks, rng) of a policy, reset(rng) of an environment",
    "end_epoch": "end_epoch() is called after each epoch",
    "block": "block says how many rounds may be asked at once: 1, or None for any number",
    "theta": "theta is the estimate (d, T), or None",
    "requests": "requests(rounds, rng, start=0) returns Requests",
    "expected": "expected(requests, choices) returns what was chosen is worth, (m,)",
    "best": "best(requests) returns what the best actions are worth, (m,)",
    "baseline": "baseline(requests) returns what the baselines are worth, (m,)",
    "noise": "noise(requests, rng) returns reward noise, (m,)",
    "reward": "reward(requests, expected, noise) returns what comes back, (m,)",
    "n_tasks": "n_tasks is the number of tasks",
    "rank": "rank is how many directions the tasks share",
    "theta_at": "theta_at(round) is the truth, (d, T)",
}


def check_environment(env: Any) -> None:
    """An error that names what an environment lacks."""
    _check(env, _ENVIRONMENT, Environment, "environment")


def named_policies(policies: Any) -> dict[str, Policy]:
    """Policies by name, from a mapping, a sequence or one policy; an error names what one of them lacks.

    Examples:
        >>> from banister import BaselineOnly
        >>> list(named_policies([BaselineOnly(), BaselineOnly()]))
        ['BaselineOnly', 'BaselineOnly 2']
    """
    if isinstance(policies, Mapping):
        named = {str(name): policy for name, policy in policies.items()}
    else:
        named = _numbered(list(policies) if isinstance(policies, Sequence) else [policies])
    if not named:
        raise SettingError("There are no policies to compare; give at least one.")
    for policy in named.values():
        _check(policy, _POLICY, Policy, "policy")
    return named


def check_ready(policy: Any) -> None:
    """An error that names what a policy lacks after `reset`."""
    _check(policy, _AFTER_RESET, Policy, "policy")


def _numbered(policies: list[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for policy in policies:
        name, number = type(policy).__name__, 2
        while name in named:
            name, number = f"{type(policy).__name__} {number}", number + 1
        named[name] = policy
    return named


def _check(thing: Any, wanted: tuple[str, ...], protocol: type, what: str) -> None:
    if isinstance(thing, type):
        raise SettingError(f"{thing.__name__} is a class; give an instance, such as {thing.__name__}(...).")
    for name in wanted:
        if _lacks(thing, name, protocol):
            raise SettingError(
                f"{type(thing).__name__} is no {what}: it lacks {name!r} ({_PURPOSE[name]}). "
                "See docs/your-own.md."
            )


def _lacks(thing: Any, name: str, protocol: type) -> bool:
    """Whether a member is missing; an answer inherited from the protocol itself is none, where one is due."""
    stub = name in ("decide", "requests") and getattr(type(thing), name, None) is getattr(protocol, name)
    return stub or not (name in dir(type(thing)) or hasattr(thing, name))
