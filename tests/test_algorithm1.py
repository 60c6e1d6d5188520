"""`safety="paper"` against a transcription of Algorithm 1, line by line; and the converged twin beside it."""

from __future__ import annotations

import numpy as np
import pytest

import banister as bn
from banister.contract import Outcomes, Requests
from banister.errors import InputError, SettingError
from banister.estimators.paper import PaperSolver
from banister.policies.epoch_fits import ConvergedSolver
from banister.policies.schedules import EqualSchedule
from banister.simulation.trial import one_trial

TINY = {"dim": 6, "rank": 2, "tasks": 5, "actions": 4, "baseline_rank": 3, "noise_std": 0.01}
ROUNDS = 12


class Algorithm1:
    """The printed lines and nothing else; rows are held as (n, T, d), rewards as (n, T)."""

    def __init__(self, r, L, c, *, rho=None, sigma_max=None, C=None, split=False, once=True, printed=False):
        self.r, self.L, self.c, self.rho, self.sigma_max, self.C = r, L, c, rho, sigma_max, C
        self.split, self.once, self.printed = split, once, printed
        self.gamma = self.B = None

    def sets(self, n, parts):
        """Line 14: equal-sized disjoint sets of a task's rows, in their order."""
        if not self.split:
            return [slice(0, n)] * (2 * self.L + 1)
        size = n // parts
        return [slice(k * size, (k + 1) * size) for k in range(parts)]

    def theta0(self, X, y, use):
        """Lines 16 to 18."""
        X0, y0 = X[use], y[use]
        G1 = len(X) if self.printed else len(X0)
        seen = y if self.printed else y0
        energy = (seen**2).mean(axis=0)
        C = 9 * y.shape[1] * energy.max() / energy.sum() if self.C is None else self.C
        alpha = C * (seen**2).mean()
        kept = y0 * (np.abs(y0) <= np.sqrt(alpha))
        return np.stack([X0[:, t].T @ kept[:, t] for t in range(y.shape[1])], axis=1) / G1

    def epoch(self, X, y, rho):
        """Lines 13 to 29 for one epoch's rows; returns Θ̂^(m)."""
        n, T, _ = X.shape
        first = self.B is None
        sets = self.sets(n, 2 * self.L + 1 if first else 2 * self.L)
        start = self.theta0(X, y, sets[0] if first else slice(0, n))
        if first:
            self.B = np.linalg.svd(start)[0][:, : self.r]  # line 19
        if self.gamma is None or not self.once:  # "Practical setting of parameters"
            sigma = np.linalg.norm(start, 2) if self.sigma_max is None else self.sigma_max
            rho = rho if self.rho is None else self.rho
            self.gamma = self.c / ((1 + 0.04 / (1 - 2 * rho) ** 2) ** 2 * sigma**2)
        offset = 1 if first or not self.split else 0
        for step in range(self.L):  # lines 23 to 28
            B = self.B
            use = sets[offset + step]
            W = np.stack([np.linalg.pinv(X[use, t] @ B) @ y[use, t] for t in range(T)], axis=1)
            use = sets[offset + self.L + step]
            gradient = np.zeros_like(B)
            for t in range(T):
                gradient += np.outer(X[use, t].T @ (X[use, t] @ B @ W[:, t] - y[use, t]), W[:, t])
            rows = n if self.printed else len(X[use])
            self.B = np.linalg.qr(B - self.gamma / rows * gradient)[0]
        return self.B @ W


class Play:
    """A policy in a small world, an epoch at a time; keeps rows as the transcription wants them."""

    def __init__(self, policy, *, known=True, **world):
        self.env, self.policy = bn.Synthetic(**{**TINY, **world}, baseline_known=known), policy
        self.rng = np.random.default_rng([0, 1])
        self.env.reset(np.random.default_rng([0, 0]))
        policy.reset(self.env.n_tasks, np.random.default_rng([0, 2]))

    def epoch(self, rounds=ROUNDS, start=0):
        self.asked = self.env.requests(rounds, self.rng, start)
        self.choices = self.policy.decide(self.asked)
        expected = self.env.expected(self.asked, self.choices)
        self.reward = self.env.reward(self.asked, expected, self.env.noise(self.asked, self.rng))
        self.policy.learn(Outcomes(self.asked.task, self.choices.features, self.reward))
        self.policy.end_epoch()
        T = self.env.n_tasks
        return self.choices.features.reshape(rounds, T, -1), self.reward.reshape(rounds, T)


def played_rho(r_b, *, norm, plays, alpha=0.2, delta=0.01):
    """Lemma l8's ρ for the floor r_b − α|r_b|."""
    reach = norm * np.sqrt(2 * np.log(plays / delta))
    return np.minimum(0.25, alpha * np.abs(r_b) / (r_b + reach))


CASES = {
    "as printed": ({}, {}),
    "step each epoch": ({"step": "each epoch"}, {"once": False}),
    "sigma known": ({"sigma_max": 1.0}, {"sigma_max": 1.0}),
    "truncation given": ({"truncation": 1.5}, {"C": 1.5}),
    "rho of its own": ({"rho": 0.1}, {"rho": 0.1}),
    "split": ({"split": True, "iterations": 2}, {"split": True, "L": 2}),
    "split, printed divisors": (
        {"split": True, "iterations": 2, "divide": "epoch"},
        {"split": True, "L": 2, "printed": True},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_three_epochs_are_algorithm_1_line_by_line(case):
    ours, theirs = CASES[case]
    solver = PaperSolver(**{"iterations": 5, "c": 0.1, **ours})
    policy = bn.SafeAltGDmin(0.2, safety="paper", rank=2, solver=solver, norm_bound=1.0, horizon=20)
    play, paper = Play(policy), Algorithm1(**{"r": 2, "L": 5, "c": 0.1, **theirs})
    # Line 6: (1−ρ)x_b + ρζ.
    X, y = play.epoch()
    rho = played_rho(play.asked.baseline_reward, norm=1.0, plays=100)
    zeta = np.random.default_rng([0, 2]).standard_normal((60, 6))
    mixed = (1 - rho)[:, None] * play.asked.baseline_features() + rho[:, None] * zeta
    np.testing.assert_allclose(play.choices.features, mixed, atol=1e-12)
    theta = paper.epoch(X, y, rho.max())
    np.testing.assert_allclose(policy.theta, theta, atol=1e-12)
    for epoch in (1, 2):
        X, y = play.epoch(start=epoch * ROUNDS)
        scores = np.einsum("mkd,md->mk", play.asked.actions, theta.T[play.asked.task])  # line 10
        assert play.choices.index.tolist() == scores.argmax(axis=1).tolist()
        theta = paper.epoch(X, y, rho.max())
        np.testing.assert_allclose(policy.theta, theta, atol=1e-12)


def test_each_open_choice_changes_the_estimate():
    """Otherwise the cases above would compare nothing."""
    found = {}
    for case, (settings, _) in CASES.items():
        solver = PaperSolver(**{"iterations": 5, "c": 0.1, **settings})
        policy = bn.SafeAltGDmin(0.2, safety="paper", rank=2, solver=solver, norm_bound=1.0, horizon=20)
        play = Play(policy)
        play.epoch()
        play.epoch(start=ROUNDS)
        found[case] = policy.theta
    base = found.pop("as printed")
    assert all(np.abs(theta - base).max() > 1e-6 for theta in found.values())
    assert np.abs(found["split"] - found["split, printed divisors"]).max() > 1e-6


def test_the_step_is_tied_to_the_constant_rho_that_is_played():
    policy = bn.SafeAltGDmin(0.2, safety="paper", rank=2, rho=0.2, solver=PaperSolver(sigma_max=1.0))
    Play(policy).epoch()
    assert policy._mode.fit.gamma == pytest.approx(0.5 / (1 + 0.04 / 0.36) ** 2)


def test_gamma_is_set_once_by_default():
    policy = bn.SafeAltGDmin(0.2, safety="paper", rank=2, norm_bound=1.0)
    play = Play(policy)
    play.epoch()
    gamma = policy._mode.fit.gamma
    play.epoch(start=ROUNDS)
    assert policy._mode.fit.gamma == gamma


def test_unknown_baseline_rewards_within_bounds():
    """The remark on (r_l, r_h): ρ is the safe one of the reward nearest to zero, here r_l = 0.5."""
    bounds = bn.SafeAltGDmin(0.2, safety="paper", norm_bound=1.0, horizon=20, reward_bounds=(0.5, 2.0))
    play = Play(bounds, known=False)
    play.epoch()
    rho = played_rho(np.array([0.5]), norm=1.0, plays=100)[0]
    zeta = np.random.default_rng([0, 2]).standard_normal((60, 6))
    mixed = (1 - rho) * play.asked.baseline_features() + rho * zeta
    np.testing.assert_allclose(play.choices.features, mixed, atol=1e-12)
    blind = Play(bn.SafeAltGDmin(0.2, safety="paper", norm_bound=1.0), known=False)
    blind.epoch()
    np.testing.assert_array_equal(blind.choices.features, blind.asked.baseline_features())


@pytest.mark.parametrize("safety", ["paper", "converged"])
def test_the_rank_is_found_and_an_epoch_without_rewards_changes_nothing(safety):
    policy = bn.SafeAltGDmin(0.2, safety=safety)
    play = Play(policy, dim=20, tasks=20, actions=6, noise_std=1e-3)
    play.epoch(40)
    assert policy._mode.fit.rank == 2
    estimate = policy.theta
    nothing = Outcomes(np.zeros(0, dtype=np.int64), np.zeros((0, 20)), np.zeros(0))
    policy.learn(nothing)
    policy.end_epoch()
    assert policy.theta is estimate


def test_the_printed_step_fails_where_the_converged_fit_does_not():
    """The default setting in small: the 5th best of ten actions, 50 rounds an epoch."""
    env = bn.Synthetic(dim=40, tasks=40, rank=2)
    modes = {name: bn.SafeAltGDmin(0.2, safety=name, rank=2) for name in ("paper", "converged")}
    found = one_trial(env, modes, epochs=3, rounds=50, seed=1)
    assert found["paper"].error[-1] > 0.3
    assert found["paper"].violations.sum() > 100
    assert found["converged"].error[-1] < 0.01
    assert found["converged"].violations.sum() == 0


def test_the_printed_step_works_where_assumption_3_is_true():
    """A baseline drawn at random has Gaussian features, as the paper assumes of epoch 1."""
    env = bn.Synthetic(dim=40, tasks=40, rank=2, baseline_rank=None)
    result = bn.simulate(env, bn.SafeAltGDmin(0.2, safety="paper", rank=2), epochs=3, rounds=50, seed=1)
    assert result.error[-1] < 0.01
    assert result.violations.sum() == 0


@pytest.mark.parametrize("solver", [ConvergedSolver(starts="spectral"), ConvergedSolver(pool=True, every=10)])
def test_converged_variants_reach_the_truth(solver):
    env = bn.Synthetic(dim=20, tasks=20, rank=2, actions=6, baseline_rank=3)
    policy = bn.SafeAltGDmin(0.2, safety="converged", rank=2, solver=solver)
    result = bn.simulate(env, policy, epochs=2, rounds=40)
    assert result.error[-1] < 0.01
    assert result.violations.sum() == 0


def test_pooling_uses_all_rows_and_estimates_between_epochs():
    policy = bn.SafeAltGDmin(0.2, safety="converged", rank=2, solver=ConvergedSolver(pool=True, every=5))
    play = Play(policy)
    assert policy.block == 5
    play.env.reset(np.random.default_rng(0))
    for n in range(2):
        asked = play.env.requests(5, play.rng, 5 * n)
        choices = policy.decide(asked)
        policy.learn(Outcomes(asked.task, choices.features, play.env.expected(asked, choices)))
        assert policy.theta is not None
    assert policy._mode._rows.size == 50


@pytest.mark.parametrize(
    "settings",
    [
        {"safety": "certified", "solver": PaperSolver()},
        {"safety": "converged", "solver": PaperSolver()},
        {"safety": "paper", "solver": ConvergedSolver()},
        {"safety": "paper", "schedule": EqualSchedule(5)},
        {"safety": "converged", "schedule": EqualSchedule(5)},
        {"safety": "paper", "reward_bounds": (2.0, 1.0)},
        {"safety": "paper", "reward_bounds": (0.0, np.inf)},
    ],
    ids=str,
)
def test_settings_that_do_not_go_together(settings):
    with pytest.raises(SettingError):
        bn.SafeAltGDmin(**settings)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (PaperSolver, {"step": "now"}),
        (PaperSolver, {"divide": "all"}),
        (ConvergedSolver, {"starts": "cold"}),
        (ConvergedSolver, {"every": 5}),
        (ConvergedSolver, {"every": 0, "pool": True}),
    ],
)
def test_bad_solver_settings(make, settings):
    with pytest.raises(SettingError):
        make(**settings)


def test_splitting_fifty_rows_a_hundred_ways_is_an_error_that_says_what_fits():
    policy = bn.SafeAltGDmin(0.2, safety="paper", rank=2, solver=PaperSolver(split=True))
    play = Play(policy)
    with pytest.raises(InputError, match="at most 5 iterations"):
        play.epoch()


@pytest.mark.parametrize("safety", ["paper", "converged"])
def test_a_rank_that_cannot_be_is_an_error(safety):
    play = Play(bn.SafeAltGDmin(safety=safety, rank=7))
    with pytest.raises(SettingError, match="rank=7"):
        play.epoch()


def test_an_empty_block_of_requests_has_no_rho():
    policy = bn.SafeAltGDmin(safety="paper")
    policy.reset(3, np.random.default_rng(0))
    none = Requests(
        np.zeros(0, dtype=np.int64), np.zeros((0, 4, 6)), np.zeros(0, dtype=np.int64), np.zeros(0)
    )
    assert len(policy.decide(none)) == 0
