"""Options of commands that make a store: what is promised, and what draws rest on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from banister.errors import InputError

RewardRange = Annotated[
    str | None,
    typer.Option(
        metavar="LO,HI",
        help="Lowest and highest reward there is, such as 0,1 for clicks. Then decisions are draws: with LO "
        "≥ 0 a share alpha of them may try other actions at once, and what that earns pays for more. "
        "Without it nothing is tried that no certificate allows.",
    ),
]
PromiseName = Annotated[
    str | None,
    typer.Option(
        metavar="task|fleet|decision",
        help="task: each task's total keeps 1 − alpha of its baseline's, at all times, without a model. "
        "fleet: the total of all tasks, sooner. decision: each single decision, if rewards are linear. "
        "Default: task with --reward-range, else decision. A store keeps its promise for life.",
    ),
]
Holdout = Annotated[
    float | None,
    typer.Option(
        help="The baseline's share of draws that never vanishes, so that the gain can be measured. Default: "
        "0.1 for task, 0.05 for fleet, 0 for decision."
    ),
]
OnHarm = Annotated[
    str | None,
    typer.Option(
        metavar="free|stop",
        help="Where draws were found to fall short. free: back to the share that the range alone makes safe. "
        "stop: the baseline only, until the next model serves. Default: free.",
    ),
]


def draw_settings(
    reward_range: str | None, promise: str | None, holdout: float | None, on_harm: str | None
) -> dict[str, Any]:
    """The settings that were given, as `SafeBandit` takes them; it checks all but the range's two numbers.

    Examples:
        >>> draw_settings("0,1", None, 0.2, None)
        {'reward_range': (0.0, 1.0), 'holdout': 0.2}
    """
    bounds = None if reward_range is None else _bounds(reward_range)
    given = {"reward_range": bounds, "promise": promise, "holdout": holdout, "on_harm": on_harm}
    return {name: value for name, value in given.items() if value is not None}


def _bounds(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--reward-range {text!r} must be two numbers with a comma, such as 0,1.") from None
    return low, high
