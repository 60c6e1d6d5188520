"""The drawer: from a request to probabilities that keep the promise.

What is wished for comes from a committee of the belief (`safety.draw`); what is allowed, from the account,
from the belief, or from the range of rewards alone.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from banister.data import Float
from banister.learner.account import HARM, Account
from banister.learner.learner import Learner
from banister.safety import _draw_kernels
from banister.safety.draw import HOLDOUT, MEMBERS, Committee, Wish, combine, members, wish
from banister.safety.promise import Promise, Terms
from banister.safety.reasons import BASELINE_BEST, CERTIFIED, DISAGREES, DRAWN, HARMED, KEPT_HOLDOUT

DECISION, GATE = "decision", "gate"
FLEET_CAP = 1.0  # standard errors of the cap that protects single tasks while the fleet pays
_ROOM = 64 << 20  # bytes of committees kept; those of other tasks are made again


class Drawn(NamedTuple):
    """A decision before the draw.

    Attributes:
        probabilities: (K,) of the actions.
        certified: the action that a bound allows with no chance but the holdout's; −1 if none.
        bound, floor: the judgement, see `Decision`.
        code: of the reason if the draw leaves the baseline, or stays there for want of a wish.
        limited_by: what keeps the probability off the baseline from being larger.
    """

    probabilities: Float
    certified: int
    bound: float
    floor: float
    code: int
    limited_by: str

    def code_of(self, action: int) -> int:
        """The reason, once the action is drawn: a certificate's own, or the holdout."""
        return KEPT_HOLDOUT if self.code == CERTIFIED and action != self.certified else self.code


class Drawer:
    """Draws for one belief. Changes nothing but counts in its learner.

    Args:
        terms: what draws must keep to.
        learner: its belief, gates and floor.
        account: savings; None where neither budgets nor uplift are kept.
        version: of the belief; committees follow from it.
    """

    def __init__(self, terms: Terms, learner: Learner, account: Account | None, version: int) -> None:
        self.terms, self.learner, self.account, self.version = terms, learner, account, version
        self._committees: OrderedDict[int, Committee | None] = OrderedDict()
        size = 4 * MEMBERS * learner.belief.mean.shape[1]
        self._most = max(1, _ROOM // size)

    def draw(self, task: int, actions: Float, baseline: int, low: float, high: float, std: float) -> Drawn:
        """Probabilities for one request; see `Learner.decide_one`."""
        if self.terms.promise is Promise.DECISION:
            return self._by_decision(task, actions, baseline, low, high, std)
        return self._from_savings(task, actions, baseline, low, high, std)

    def _from_savings(
        self, task: int, actions: Float, baseline: int, low: float, high: float, std: float
    ) -> Drawn:
        assert self.account is not None
        if self.account.stopped(task):
            return _stay(len(actions), baseline, HARMED, HARM)
        wished = self._wish(task, actions, baseline)
        p, name, savings = self.account.allowance(task)
        caps = {name: p}
        if self.terms.promise is Promise.FLEET and min(p, wished.p) > self.terms.free:
            caps[DECISION] = self._cap(task, actions, baseline, wished, (low, high, std), FLEET_CAP)[0]
        made = combine(wished, baseline, free=self.terms.free, caps=caps, holdout=self.terms.holdout)
        code = DRAWN if made.p > 0.0 else BASELINE_BEST
        return Drawn(made.probabilities, -1, savings, 0.0, code, made.limited_by)

    def _by_decision(
        self, task: int, actions: Float, baseline: int, low: float, high: float, std: float
    ) -> Drawn:
        chosen, bound, floor, code = self.learner.decide_one(task, actions, baseline, low, high, std)
        if code == CERTIFIED:
            probabilities = np.zeros(len(actions))
            probabilities[baseline] = self.terms.holdout
            probabilities[chosen] += 1.0 - self.terms.holdout
            return Drawn(probabilities, chosen, bound, floor, code, HOLDOUT)
        known, free = self.learner.gates.is_open(task), self.terms.free
        if code == DISAGREES or not (known or free > 0.0):
            return _stay(len(actions), baseline, code, GATE)._replace(floor=floor)
        wished = self._wish(task, actions, baseline)
        cap, margin, least = free, math.nan, floor
        if known:
            z = float(self.learner.belief.z[task])
            cap, margin, least = self._cap(task, actions, baseline, wished, (low, high, std), z)
        made = combine(wished, baseline, free=free, caps={DECISION: cap}, holdout=self.terms.holdout)
        if made.p == 0.0:
            return _stay(len(actions), baseline, code, made.limited_by)._replace(floor=floor)
        return Drawn(made.probabilities, -1, margin, least, DRAWN, made.limited_by)

    def _cap(
        self, task: int, actions: Float, baseline: int, wished: Wish, given: tuple[float, float, float],
        z: float,
    ) -> tuple[float, float, float]:  # fmt: skip
        """The largest p at which the draw clears its floor under the belief, with bound and floor."""
        b, c = self.learner.belief, self.learner.constraint
        if not self.learner.gates.is_open(task):
            return self.terms.free, math.nan, math.nan
        cap: tuple[float, float, float] = _draw_kernels.mixture(
            actions, baseline, wished.others, *given, c.literal, c.alpha, b.frame.shift, b.frame.scale,
            b.frame.reward, b.mean[task], b.matrices(task), b.left, b.labelled[task], b.label_error, z,
            self.terms.free,
        )  # fmt: skip
        return cap

    def _wish(self, task: int, actions: Float, baseline: int) -> Wish:
        committee = self._committee(task)
        if committee is None or len(actions) == 1:
            return _even(len(actions), baseline)
        return wish(committee, actions, baseline, search=self.terms.promise.search)

    def _committee(self, task: int) -> Committee | None:
        """Members in the users' units; a level that all actions share takes no part in a vote."""
        if task in self._committees:
            self._committees.move_to_end(task)
            return self._committees[task]
        made = self._made(task)
        self._committees[task] = made
        if len(self._committees) > self._most:
            self._committees.popitem(last=False)
        return made

    def _made(self, task: int) -> Committee | None:
        belief, seed = self.learner.belief, self.terms.seed
        found = belief.guess(task)
        if found is None:
            return None
        scale = belief.frame.scale
        mean, root = (part[: len(scale)] for part in found)
        return members(mean / scale, root / scale[:, None], seed=seed, version=self.version, task=task)


def _even(n: int, baseline: int) -> Wish:
    """Before anything is known: everything but the baseline, evenly."""
    others = np.full(n, 1.0 / (n - 1)) if n > 1 else np.zeros(1)
    others[baseline] = 0.0
    return Wish(others, 1.0 if n > 1 else 0.0, others)


def _stay(n: int, baseline: int, code: int, limited_by: str) -> Drawn:
    probabilities = np.zeros(n)
    probabilities[baseline] = 1.0
    return Drawn(probabilities, -1, math.nan, math.nan, code, limited_by)
