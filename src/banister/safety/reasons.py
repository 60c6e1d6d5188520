"""Why a decision is what it is: one list for policies, decisions, gates, the ledger and reports.

A new reason goes to the end: compiled code knows reasons by their place in this list.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Short codes, kept by name in files."""

    CERTIFIED = "certified"
    BASELINE_BEST = "kept:baseline-best"
    TOO_UNCERTAIN = "kept:too-uncertain"
    NO_DATA = "fallback:no-data"
    NEW_TASK = "fallback:new-task"
    DISAGREES = "fallback:baseline-disagrees"
    DRIFT = "fallback:drift"
    IDENTICAL = "kept:identical-features"
    DRAWN = "drawn"
    KEPT_HOLDOUT = "kept:holdout"
    HARMED = "fallback:harm"

    # Of policies that hold no gates.
    BASELINE = "baseline"
    EXPLORE = "explore"
    GREEDY = "greedy"
    OPTIMISTIC = "optimistic"
    CUMULATIVE = "cumulative"
    POOLED = "pooled"


REASONS = tuple(Reason)
WORDS = tuple(reason.value for reason in REASONS)
(
    CERTIFIED, BASELINE_BEST, TOO_UNCERTAIN, NO_DATA, NEW_TASK, DISAGREES, DRIFT, IDENTICAL, DRAWN,
    KEPT_HOLDOUT, HARMED, *_POLICIES,
) = range(len(REASONS))  # fmt: skip
OPEN = CERTIFIED  # a gate's state: what it allows is decided action by action
