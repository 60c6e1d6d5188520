"""What a report says of claimed baseline rewards that were found out, and what to do about them."""

from __future__ import annotations

from banister.safety.labels import Claims

_EFFECT = "They are no labels; the floor that they set has to be cleared, and the baseline's own too."
_REMEDY = (
    "Pass what the baseline is expected to earn in this very request, or leave baseline_reward out: it is "
    "then estimated like everything else."
)
_FOUND = {
    Claims.AVERAGES: "stay the same while requests differ: they are averages, not expectations of each",
    Claims.CONTRADICTED: "are contradicted by rewards of played baselines",
}


def refused(claims: str) -> str | None:
    """Why claims are no labels, and what to do; None for claims that nobody found fault with.

    Examples:
        >>> print(refused(Claims.AVERAGES)[:58])
        Claimed baseline rewards stay the same while requests diff
        >>> refused(Claims.BORNE_OUT) is None
        True
    """
    found = _FOUND.get(Claims(claims))
    return None if found is None else f"Claimed baseline rewards {found}. {_EFFECT} {_REMEDY}"
