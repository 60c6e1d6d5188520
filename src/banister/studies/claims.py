"""The fourteen sentences of the paper's results section as claims that rows decide, and ours beyond it.

`words` say a sentence in our words and in its strength; `banister.studies.checks` says how it is read and
decided. `why` is our explanation; the rows decide the verdict, not the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from banister.studies import checks
from banister.studies.checks import Checker
from banister.studies.evidence import Evidence
from banister.studies.verdicts import Check, overall


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, and how the rows decide it.

    Attributes:
        id: a short key.
        panels: where it can be seen.
        words: the claim, in our words.
        check: the rows to a check per reading.
        why: what lies behind the verdict.
        ours: whether it goes beyond the paper.
    """

    id: str
    panels: tuple[str, ...]
    words: str
    check: Checker
    why: str = ""
    ours: bool = False


@dataclass(frozen=True)
class Judged:
    """A claim with its checks and the verdict over them."""

    claim: Claim
    checks: list[Check]

    @property
    def verdict(self) -> str:
        """Over all readings that decide."""
        return overall(self.checks)


def judge(evidence: Evidence, panels: tuple[str, ...] | None = None) -> list[Judged]:
    """Every claim on these rows; with `panels`, those that can be seen in one of them."""
    shown = [claim for claim in CLAIMS if panels is None or set(claim.panels) & set(panels)]
    return [Judged(claim, claim.check(evidence)) for claim in shown]


_UNSAFE_WHY = (
    "Their first epoch is random, so it costs more than the baseline; only a refit during epoch 1 makes it "
    "cheaper, and the paper does not say when they refit."
)
_NORM_WHY = (
    "With orthonormal W each task's parameter shrinks as 1/√T, and so do all rewards. With the parameters' "
    "size fixed that effect is gone."
)

CLAIMS = (
    Claim(
        id="error-lowest",
        panels=("1a", "1d", "1g"),
        words="Our estimation error is substantially below that of all three rivals, at every d, r and T.",
        check=checks.error_lowest,
        why="With the largest c the iteration oscillates on rows that a policy picked; with a small one it "
        "converges, and the trace norm, tuned, comes within a third of it.",
    ),
    Claim(
        id="error-falls-with-tasks",
        panels=("1g",),
        words="Our estimation error falls as tasks are added.",
        check=checks.error_falls,
        why=_NORM_WHY,
    ),
    Claim(
        id="safe-ours",
        panels=("1c", "1f", "1i"),
        words="Safe-AltGDmin never violates the floor, at any d, r and T.",
        check=checks.ours_safe,
        why="Where r_b is negative, which is 38 % of the rounds, the literal floor lies above r_b and the "
        "baseline itself violates it.",
    ),
    Claim(
        id="safe-thompson",
        panels=("1c", "1f", "1i"),
        words="Conservative Thompson sampling never violates the floor either.",
        check=checks.no_violation(("", "thompson")),
        why="The literal floor again forbids the baseline where r_b is negative.",
    ),
    Claim(
        id="rivals-violate",
        panels=("1c", "1f", "1i"),
        words="The trace norm and the method of moments violate the floor numerous times.",
        check=checks.rivals_violate,
    ),
    Claim(
        id="trace-norm-lower-regret",
        panels=("1b", "1e", "1h"),
        words="Free of the constraint, the trace norm has a lower regret than ours.",
        check=checks.lower_regret("trace-norm"),
        why=_UNSAFE_WHY,
    ),
    Claim(
        id="moments-lower-regret",
        panels=("1b", "1e", "1h"),
        words="Free of the constraint, the method of moments has a lower regret than ours.",
        check=checks.lower_regret("moments"),
        why=f"{_UNSAFE_WHY} Its estimate is also far too coarse at this size.",
    ),
    Claim(
        id="thompson-higher-regret",
        panels=("1b", "1e", "1h"),
        words="Thompson sampling has a higher regret than ours, at every d, r and T.",
        check=checks.thompson_higher,
    ),
    Claim(
        id="regret-sublinear-tasks",
        panels=("1h",),
        words="Our regret grows sublinearly in the number of tasks.",
        check=checks.sublinear_tasks,
        why=_NORM_WHY,
    ),
    Claim(
        id="thompson-linear-tasks",
        panels=("1h",),
        words="Thompson sampling's regret grows linearly in the number of tasks.",
        check=checks.thompson_linear,
        why=f"{_NORM_WHY} The same holds for Thompson sampling as for ours.",
    ),
    Claim(
        id="regret-sublinear-rank",
        panels=("1e",),
        words="Our regret grows sublinearly in the rank.",
        check=checks.sublinear_rank,
        why="The size of a task's parameter grows as √r, and the regret of epoch 1 with it.",
    ),
    Claim(
        id="regret-sublinear-epochs",
        panels=("2",),
        words="Our cumulative regret grows sublinearly in the number of epochs.",
        check=checks.sublinear_epochs,
        why="Nearly all regret is paid before the first fit; what follows is flat.",
    ),
    Claim(
        id="movielens-safe",
        panels=("1m", "1o"),
        words="On MovieLens Safe-AltGDmin never violates the floor.",
        check=checks.films_safe,
    ),
    Claim(
        id="movielens-lowest-regret",
        panels=("1l", "1n"),
        words="On MovieLens Safe-AltGDmin has the lowest regret.",
        check=checks.films_lowest,
    ),
    Claim(
        id="alpha-trend",
        panels=("1j", "1k"),
        words="Regret falls as α grows. (The paper draws the curves and claims no trend; a looser floor "
        "should cost less.)",
        check=checks.alpha_trend,
        why="Epoch 1 plays almost the baseline whatever α is, and later epochs are not held back by it.",
        ours=True,
    ),
    Claim(
        id="safe-certified",
        panels=("1c", "1f", "1i"),
        words="The certified policy never violates the floor, at any d, r and T.",
        check=checks.certified_safe,
        ours=True,
    ),
    Claim(
        id="noise-converged",
        panels=("3b",),
        words="The paper's schedule with a converged fit stays safe when rewards are noisy.",
        check=checks.safe_when_noisy("converged"),
        why="It plays the greedy action of an estimate that nothing has checked.",
        ours=True,
    ),
    Claim(
        id="noise-certified",
        panels=("3b", "3c"),
        words="The certified policy stays safe when rewards are noisy.",
        check=checks.safe_when_noisy("certified"),
        ours=True,
    ),
    Claim(
        id="movielens-pooled",
        panels=("1l", "1n"),
        words="On MovieLens, where all tasks share one parameter, the certified policy, told nothing, has no "
        "more regret than the pooled rival that is told R and S.",
        check=checks.no_worse_than_pooled,
        ours=True,
    ),
    Claim(
        id="contraction",
        panels=("3e",),
        words="Each iteration shrinks the subspace distance by at least what Theorems T5 and T11 promise.",
        check=checks.contraction,
        why="With noise the distance stops at a level that the theorems as printed do not have.",
        ours=True,
    ),
)
