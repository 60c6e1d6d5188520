"""What a user should know of a policy before choosing it; `docs/policies.md` is written from these cards."""

from __future__ import annotations

from dataclasses import dataclass

NONE = "–"
GIVEN_OR_ESTIMATED = "given or estimated"


@dataclass(frozen=True, kw_only=True)
class Card:
    """One row of the table of policies.

    Attributes:
        source: where the method comes from.
        noise, norm_bound, horizon, rank: what it must be told, or how it does without.
        safe: whether it keeps to the floor, and on what that rests.
        refits: when its estimate changes.
        cost: of one round of T requests, in leading order.
        use: when to choose it.
        mode: which setting of the policy the row describes, if it has several.
    """

    source: str
    noise: str = NONE
    norm_bound: str = NONE
    horizon: str = NONE
    rank: str = NONE
    safe: str
    refits: str
    cost: str
    use: str
    mode: str = ""
