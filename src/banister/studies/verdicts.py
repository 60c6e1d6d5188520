"""How a statistic becomes a verdict, and how verdicts under several readings become one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from banister.studies.evidence import Estimate

HOLDS = "holds"
FAILS = "does not hold"
DEPENDS = "depends"
UNDECIDED = "undecided"
MISSING = "not run"

ENOUGH = 20  # trials that a verdict needs: below that, intervals lean too much on the shape of a distribution


@dataclass(frozen=True, kw_only=True)
class Check:
    """A claim under one reading.

    Attributes:
        reading: how the claim is read.
        statistic: what was computed, in words.
        verdict: one of the constants above.
        estimate: the number and its interval; None without data.
        rule: when it holds.
        aside: about another policy than the claim's; shown, but no part of its verdict.
        contradicts: what the paper says to the contrary of this reading; such a reading is shown, but it is
            no part of the verdict either. Empty for a reading that the paper leaves open.
    """

    reading: str
    statistic: str
    rule: str
    verdict: str
    estimate: Estimate | None = None
    aside: bool = False
    contradicts: str = ""

    @property
    def decides(self) -> bool:
        """Whether it is part of the verdict."""
        return not self.aside and not self.contradicts


def above(reading: str, statistic: str, found: list[Estimate], limit: float) -> Check:
    """Holds if every estimate's interval lies above the limit; shows the lowest."""
    worst = min(found, key=lambda e: e.value, default=None)
    verdict = _decide(found, [(e.low > limit, e.high < limit) for e in found])
    return Check(
        reading=reading, statistic=statistic, rule=f"above {limit:g}", verdict=verdict, estimate=worst
    )


def below(reading: str, statistic: str, found: list[Estimate], limit: float) -> Check:
    """Holds if every estimate's interval lies below the limit; shows the highest."""
    worst = max(found, key=lambda e: e.value, default=None)
    verdict = _decide(found, [(e.high < limit, e.low > limit) for e in found])
    return Check(
        reading=reading, statistic=statistic, rule=f"below {limit:g}", verdict=verdict, estimate=worst
    )


def within(reading: str, statistic: str, found: list[Estimate], low: float, high: float) -> Check:
    """Holds if every interval lies inside the limits, fails if one lies outside."""
    pairs = [(low <= e.low and e.high <= high, e.high < low or e.low > high) for e in found]
    first = found[0] if found else None
    return Check(
        reading=reading,
        statistic=statistic,
        rule=f"from {low:g} to {high:g}",
        verdict=_decide(found, pairs),
        estimate=first,
    )


def never(reading: str, statistic: str, found: Estimate | None) -> Check:
    """Holds if it happened in none of enough trials; the interval says how rare that makes it."""
    if found is None:
        verdict = MISSING
    elif found.value > 0:
        verdict = FAILS
    else:
        verdict = HOLDS if found.trials >= ENOUGH else UNDECIDED
    return Check(reading=reading, statistic=statistic, rule="in no trial", verdict=verdict, estimate=found)


def overall(checks: list[Check]) -> str:
    """One verdict over the readings that decide: all of them must have been run."""
    verdicts = {check.verdict for check in checks if check.decides}
    if MISSING in verdicts or not verdicts:
        return MISSING
    if {HOLDS, FAILS} <= verdicts:
        return DEPENDS
    return UNDECIDED if UNDECIDED in verdicts else verdicts.pop()


def contradicting(check: Check, text: str) -> Check:
    """The check under a reading that the paper's own text excludes; `text` is what it says."""
    return replace(check, contradicts=text)


def aside(check: Check) -> Check:
    """The check as a remark: what another policy, ours certified, makes of a claim on the paper's."""
    return replace(check, reading=f"aside: {check.reading}", aside=True)


def listed(*estimates: Estimate | None) -> list[Estimate]:
    """Those that there are."""
    return [estimate for estimate in estimates if estimate is not None]


def _decide(found: list[Estimate], pairs: list[tuple[bool, bool]]) -> str:
    """`pairs`: whether each estimate's interval says that it holds, and that it fails."""
    if not pairs:
        return MISSING
    enough = [e.trials >= ENOUGH for e in found]
    if any(fails and known for (_, fails), known in zip(pairs, enough, strict=True)):
        return FAILS
    return HOLDS if all(holds for holds, _ in pairs) and all(enough) else UNDECIDED
