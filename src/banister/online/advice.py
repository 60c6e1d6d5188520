"""The next step, in words and with the call that takes it. Each sentence is tested to lead where it says."""

from __future__ import annotations

from dataclasses import dataclass

from banister.online.needed import EXPLORED

TELL = 0.5  # of the baseline's reward: the advantage that exploring is to show where nothing is known yet


@dataclass(frozen=True)
class Step:
    """What to do next.

    Attributes:
        kind: "live", "more", "explore", "features", "rewards", "nothing" or "unknown".
        words: a sentence or two.
        command: the call that takes the step, or that is repeated after it; "" where there is none.
    """

    kind: str
    words: str
    command: str = ""

    def __str__(self) -> str:
        return f"next: {self.words}" + f"\n  {self.command}" * bool(self.command)


@dataclass(frozen=True)
class Facts:
    """What an advice rests on.

    Attributes:
        known: whether there is a model at all.
        left: share of requests that leave the baseline; better: share with something that looks better.
        identical: share of requests in which all actions have the same features.
        rows: still needed in all if they come as those before did; None where these may never be enough.
        explored: rows until something `TELL` better can be told if `EXPLORED` of the traffic plays an action
            drawn at random; 0 if it could be told now.
        rate: rows a day; None if unknown.
        live: whether these are facts about a bandit that serves, not about a log.
        asked: requests that the shares are of.
        draws: whether the bandit explores by itself, within its promise.
    """

    known: bool
    left: float
    better: float
    identical: float
    rows: int | None
    explored: int | None
    rate: float | None = None
    live: bool = False
    asked: int = 1
    draws: bool = False


_YEAR = 365
_RARE = 0.02  # share of requests with something better, below which there is nothing to gain
_GOAL = "half of the requests with something better on offer leave the baseline"


def advise(f: Facts) -> Step:
    """The step that these facts call for.

    Examples:
        >>> print(advise(Facts(True, 0.1, 0.8, 0.0, 30000, None, rate=2000.0)).words[:72])
        Log about 30,000 more rows like these (15 days at the present rate): by
    """
    if not f.known:
        return Step(
            "rewards",
            "There is no model yet: rewards are all the same, or too few differ for so many features. Check "
            "that rewards are reported, then bring more rows or fewer columns.",
        )
    if not f.asked:
        return Step(
            "decide", "The model is ready and nothing was asked yet. Decide requests, then look again."
        )
    if f.identical >= 0.5:
        return Step(
            "features",
            "All actions of a request have the same features, so nothing can be told apart. Give actions "
            "features of their own, or name the arms and the context and let bn.Arms make them.",
        )
    if f.left >= f.better / 2 and f.better >= _RARE:
        words = f"Nothing has to be done: {_GOAL}, or more." if f.live else f"Go live: {_GOAL}, or more."
        return Step("live", words)
    return _wait(f)


def _wait(f: Facts) -> Step:
    if f.draws and f.live:
        return Step(
            "wait", "Nothing has to be done: the bandit explores by itself, as far as its promise goes."
        )
    if f.better < _RARE and f.explored == 0:
        return Step("nothing", "Nothing on offer looks better than the baseline; there is nothing to gain.")
    if f.rows and f.better >= _RARE:
        words = f"Log {_about(f.rows, f.rate, ' more', ' like these')}: by then about {_GOAL}."
        return Step("more", words + _range(f))
    if f.explored:
        return Step("explore", _explore(f))
    return Step("unknown", "What could be gained cannot be told from these rows." + _range(f))


def _explore(f: Facts) -> str:
    assert f.explored is not None
    how = "Give an action drawn at random as baseline=" if f.live else "Play an action drawn at random"
    return (
        f"What could be better is hardly ever played, so more rows like these do not help. {how} in "
        f"{100 * EXPLORED:.0f} % of requests for {_about(f.explored, f.rate)}: by then an action that earns "
        f"{100 * TELL:.0f} % more than the baseline can be told and played." + _range(f)
    )


def _range(f: Facts) -> str:
    """A range of rewards makes some exploring free."""
    if f.draws:
        return " A bandit with a reward range does not wait for that: it explores by itself."
    return " Or give a reward range, reward_range=(lowest, highest): the bandit then explores by itself."


def _about(rows: int, rate: float | None, more: str = "", like: str = "") -> str:
    """`about 30,000 more rows like these (15 days at the present rate)`, to two digits."""
    digits = len(str(rows))
    shown = round(rows, 2 - digits) if digits > 2 else rows
    days = "" if rate is None else f" ({_days(shown / rate)} at the present rate)"
    return f"about {shown:,}{more} rows{like}{days}"


def _days(days: float) -> str:
    if days < 1.5:
        hours = round(24 * days)
        return "about a day" if days > 0.5 else f"about {hours} hours" if hours > 1 else "about an hour"
    return f"{days:,.0f} days" if days < 2 * _YEAR else f"{days / _YEAR:,.0f} years"
