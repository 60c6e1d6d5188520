"""Draws made again: did each follow from its model, from what was saved, and from the store's seed?

For every draw the audit repeats the number that was drawn and what it fell on, and compares the probability
off the baseline with what the account allowed at that moment. Where whole action sets were kept it repeats
committee, caps and probabilities, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from banister.data import Float
from banister.learner.account import Account
from banister.learner.drawer import Drawer
from banister.online.record import DecisionRecord
from banister.safety.draw import pick, uniform
from banister.safety.promise import Terms
from banister.safety.reasons import REASONS

_ROUNDING = 1e-9  # of a sum of probabilities
_CLOSE = 1e-12


def drawn_wrong(record: DecisionRecord, odds: Float, terms: Terms) -> Iterator[str]:
    """What is wrong with a draw on its face, in words."""
    if len(odds) != record.n_actions or not np.all(odds >= 0.0) or not abs(odds.sum() - 1.0) <= _ROUNDING:
        yield f"Decision {record.id}: its probabilities are none of {record.n_actions} actions."
        return
    if record.probability != odds[record.action]:
        yield f"Decision {record.id}: its probability is not that of action {record.action}."
    drawn = pick(odds, uniform(terms.seed, str(record.id)))
    if drawn != record.action:
        yield f"Decision {record.id}: action {record.action} was played, its draw falls on {drawn}."
    if record.promise != terms.promise:
        yield f"Decision {record.id}: it was made under {record.promise!r}, the store's promise is another."


def overdrawn(record: DecisionRecord, odds: Float, terms: Terms, account: Account | None) -> Iterator[str]:
    """Whether a draw left the baseline more often than its promise allowed, actions unseen."""
    p = 1.0 - odds[record.baseline]
    if p > 1.0 - terms.holdout + _CLOSE:
        yield f"Decision {record.id}: it left the baseline less than its holdout of {terms.holdout}."
    if account is None or account.budget is None:
        return
    if account.stopped(record.task) and p > 0.0:
        yield f"Decision {record.id}: it may leave the baseline although draws of its task had done harm."
    elif p > max(terms.free, account.allowance(record.task).p) + _CLOSE:
        yield f"Decision {record.id}: it leaves with probability {p:.6g}, which nothing paid for."


def other_draw(record: DecisionRecord, odds: Float, actions: Float, drawer: Drawer) -> Iterator[str]:
    """Whether the same request would be drawn from other probabilities, all actions seen."""
    made = drawer.draw(record.task, actions, record.baseline, record.low, record.high, record.std)
    if not np.array_equal(made.probabilities, odds) or made.limited_by != record.limited_by:
        yield f"Decision {record.id}: its probabilities do not follow from its model and its savings."
    reason = REASONS[made.code_of(record.action)]
    told, kept = (made.bound, made.floor), (record.bound, record.floor)
    if record.reason != reason or not np.array_equal(told, kept, equal_nan=True):
        yield (
            f"Decision {record.id}: the ledger says {record.reason!r} with bound and floor {kept}, its model "
            f"{str(reason)!r} with {told}."
        )
