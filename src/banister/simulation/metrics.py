"""The paper's measures: regret, violations of the floor, estimation error, subspace distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety.constraint import Constraint

# Expected rewards reach us by different routes of summation; a difference of this share is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Worth:
    """What the requests of a chunk are truly worth: `best` action and `baseline`, each (m,)."""

    best: Float
    baseline: Float


@dataclass
class Tally:
    """Sums over the decisions of one epoch.

    Attributes:
        decisions: how many.
        regret: pseudo-regret, the best action's expected reward less the chosen one's, summed.
        violations: decisions whose expected reward is below the true floor `r_b − α|r_b|`.
        literal_violations: the same against the paper's literal `(1−α) r_b`.
        shortfall: the most by which a decision fell below the true floor, in reward; 0 if none did.
        relative_shortfall: the same as a share of the floor's size.
        certified: how many decisions a certificate allowed.
        cumulative_violations: decisions after which their task's total since the start of the trial is below
            the floor of the baseline's total, `Σ r_b − α|Σ r_b|`: the promise of CLUCB and its kind.
        fleet_violations: decisions after which the total of all tasks together is below its floor.
        tasks_below: tasks whose total was below its floor after some decision since the trial began.
        tasks_below_now: tasks whose total is below its floor at the end of the epoch.
        possible: what the best actions would have earned more than the baselines, summed.
    """

    decisions: int = 0
    regret: float = 0.0
    violations: int = 0
    literal_violations: int = 0
    shortfall: float = 0.0
    relative_shortfall: float = 0.0
    certified: int = 0
    cumulative_violations: int = 0
    fleet_violations: int = 0
    tasks_below: int = 0
    tasks_below_now: int = 0
    possible: float = 0.0

    def add(self, expected: Float, certified: Float, worth: Worth, alpha: float) -> None:
        """Take in decisions by their expected rewards (m,) and whether they were certified (m,)."""
        slack = _ROUNDING * (np.abs(worth.best) + np.abs(worth.baseline))
        floor = Constraint(alpha).floor(worth.baseline)
        literal = Constraint(alpha, literal=True).floor(worth.baseline)
        below = np.where(floor - expected > slack, floor - expected, 0.0)
        self.decisions += len(expected)
        self.regret += float(np.sum(worth.best - expected))
        self.possible += float(np.sum(worth.best - worth.baseline))
        self.violations += int(np.count_nonzero(below))
        self.literal_violations += int(np.count_nonzero(literal - expected > slack))
        self.shortfall = max(self.shortfall, float(below.max(initial=0.0)))
        share = np.divide(below, np.abs(floor), out=np.zeros_like(below), where=below > 0)
        self.relative_shortfall = max(self.relative_shortfall, float(share.max(initial=0.0)))
        self.certified += int(np.count_nonzero(certified))


class Totals:
    """What each task earned since the start of a trial, beside what the baseline would have.

    Attributes:
        ever, now: (T,) tasks whose total was below its floor after some decision; after their last one.
        fleet_below: decisions after which the total of all tasks was below its floor.
    """

    def __init__(self, n_tasks: int) -> None:
        self._earned, self._baseline = np.zeros(n_tasks), np.zeros(n_tasks)
        self.ever, self.now = np.zeros(n_tasks, dtype=bool), np.zeros(n_tasks, dtype=bool)
        self.fleet_below = 0

    def below(self, task: Int, expected: Float, baseline: Float, alpha: float) -> int:
        """Take in decisions (m,) in their order; how many of them left their task's total below its floor.

        Examples:
            >>> totals = Totals(1)
            >>> totals.below(np.zeros(3, dtype=int), np.array([0.5, 1.5, 0.7]), np.ones(3), 0.2)
            1
            >>> totals.ever, totals.now, totals.fleet_below
            (array([ True]), array([False]), 1)
        """
        all_earned = self._earned.sum() + np.cumsum(expected)
        all_baseline = self._baseline.sum() + np.cumsum(baseline)
        self.fleet_below += int(np.count_nonzero(_below(all_earned, all_baseline, alpha)))
        order = np.argsort(task, kind="stable")
        earned = _running(task[order], expected[order], self._earned)
        low = _below(earned, _running(task[order], baseline[order], self._baseline), alpha)
        self.ever[task[order][low]] = True
        self.now[task[order]] = low  # of a task's rows the last one counts
        return int(np.count_nonzero(low))


def _below(earned: Float, baseline: Float, alpha: float) -> Bool:
    """Which running totals are below their floor by more than rounding."""
    slack = _ROUNDING * len(earned) * np.maximum(np.abs(earned), np.abs(baseline))
    low: Bool = Constraint(alpha).floor(baseline) - earned > slack
    return low


def _running(task: Int, values: Float, so_far: Float) -> Float:
    """Each task's running total over rows sorted by task; `so_far` (T,) is brought up to date."""
    total = np.cumsum(values)
    first = np.r_[True, task[1:] != task[:-1]][: len(task)]
    before = np.r_[0.0, total][:-1][first]  # of other tasks, to be taken off again
    counts = np.diff(np.r_[np.flatnonzero(first), len(task)])
    running: Float = total - np.repeat(before, counts) + so_far[task]
    so_far += np.bincount(task, weights=values, minlength=len(so_far))
    return running


def estimation_error(estimate: Float, truth: Float) -> float:
    """Err-Θ: `‖Θ̂ − Θ‖_F / ‖Θ‖_F`.

    Examples:
        >>> estimation_error(np.array([[3.0], [4.5]]), np.array([[3.0], [4.0]]))
        0.1
    """
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def subspace_distance(first: Float, second: Float) -> float:
    """`SD(B1, B2) = ‖(I − B1B1')B2‖_F` of two orthonormal bases, each (d, r).

    Examples:
        >>> subspace_distance(np.eye(3)[:, :2], np.eye(3)[:, 1:])
        1.0
    """
    return float(np.linalg.norm(second - first @ (first.T @ second)))


def leading_subspace(theta: Float, rank: int) -> Float:
    """An orthonormal basis (d, r) of the directions in which Θ is largest."""
    U: Float = np.linalg.svd(theta, full_matrices=False)[0]
    return U[:, :rank]
