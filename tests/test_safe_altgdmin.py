"""Safe-AltGDmin: what certified mode does in small worlds."""

from dataclasses import replace

import numpy as np
import pytest
from banister.safety.certificate import Certificate
from banister.safety.certify import Certifier

import banister as bn
from banister.contract import Outcomes
from banister.errors import SettingError
from banister.policies.schedules import EqualSchedule
from banister.safety import checks
from banister.safety.evidence import Evidence

SMALL = {"dim": 20, "tasks": 20, "rank": 2, "actions": 6, "baseline_rank": 3, "noise_std": 0.01}


def world(**settings):
    return bn.Synthetic(**{**SMALL, **settings})


class Trial:
    """A policy at play in a world, block by block; keeps what was asked, chosen and earned."""

    def __init__(self, env, policy=None, *, seed=0):
        self.env, self.policy = env, policy or bn.SafeAltGDmin(0.2)
        self.rng, self.now = np.random.default_rng([seed, 1]), 0
        env.reset(np.random.default_rng([seed, 0]))
        self.policy.reset(env.n_tasks, np.random.default_rng([seed, 2]))
        self.asked, self.choices, self.rewards, self.below = [], [], [], []

    def play(self, rounds, *, returned=lambda outcomes, rng: outcomes, told=lambda requests: requests):
        """`returned` is what comes back of the outcomes, `told` what the policy hears of the requests."""
        end = self.now + rounds
        while self.now < end:
            n = min(self.policy.block or rounds, end - self.now)
            requests = self.env.requests(n, self.rng, self.now)
            choices = self.policy.decide(told(requests))
            expected, baseline = self.env.expected(requests, choices), self.env.baseline(requests)
            reward = self.env.reward(requests, expected, self.env.noise(requests, self.rng))
            self.policy.learn(returned(Outcomes(requests.task, choices.features, reward), self.rng))
            self.asked.append(requests)
            self.choices.append(choices)
            self.rewards.append(reward)
            self.below.append(expected < baseline - 0.2 * np.abs(baseline) - 1e-12)
            self.now += n
        return self

    @property
    def violations(self):
        return int(np.concatenate(self.below).sum())

    @property
    def reasons(self):
        return np.concatenate([c.reason for c in self.choices])

    @property
    def task(self):
        return np.concatenate([r.task for r in self.asked])

    @property
    def moved(self):
        """Which rows were certified to leave the baseline, over all rounds."""
        left = [c.certified & (c.index != r.baseline) for c, r in zip(self.choices, self.asked, strict=True)]
        return np.concatenate(left)

    @property
    def certificate(self):
        return self.policy._mode.certificate


def no_outcomes():
    return Outcomes(np.zeros(0, dtype=np.int64), np.zeros((0, 20)), np.zeros(0))


# --- certified mode -------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"baseline_known": False},
        {"noise_std": 0.1},
        {"noise_std": 0.0},
        {"noise_std": 0.0, "baseline_known": False},
        {"rank": 1},
        {"rank": 4, "noise_std": 1e-3},
        {"contexts": "non-negative"},
        {"noise_law": "student", "noise_spread": 3.0},
        {"traffic_ratio": 5.0},
        {"baseline_reward_std": 0.02},
    ],
    ids=str,
)
def test_it_opens_and_nothing_falls_below_the_floor(settings):
    trial = Trial(world(**settings)).play(50)
    assert trial.violations == 0
    assert trial.moved[len(trial.moved) // 2 :].mean() > 0.3
    assert trial.certificate.rank == settings.get("rank", 2)


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_a_rank_below_what_the_data_show_keeps_it_shut(known):
    trial = Trial(world(baseline_known=known), bn.SafeAltGDmin(0.2, rank=1)).play(30)
    assert not trial.moved.any()
    assert trial.reasons[-1] == "fallback:rank-too-small"
    assert trial.violations == 0


@pytest.mark.statistical
@pytest.mark.parametrize(("rank", "fitted"), [(4, 4), (99, 20)])
def test_a_rank_above_it_is_fitted_and_safe(rank, fitted):
    trial = Trial(world(noise_std=0.03, baseline_known=False), bn.SafeAltGDmin(0.2, rank=rank)).play(60)
    assert trial.violations == 0
    assert trial.certificate.rank == fitted
    assert trial.moved.any()
    assert "fallback:drift" not in trial.reasons


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_task_outside_the_subspace_stays_at_the_baseline_or_is_modelled(known, seed):
    env = world(outliers=1, noise_std=0.03, baseline_known=known)
    trial = Trial(env, seed=seed).play(40)
    B = np.linalg.svd(env.theta)[0][:, :2]
    off = np.linalg.norm(env.theta - B @ (B.T @ env.theta), axis=0)
    odd = int(off.argmax())
    assert trial.violations == 0
    assert trial.moved[trial.task != odd].any()
    # With few rows it passes for a task of much noise, which is as good: nothing clears.
    assert not trial.moved[trial.task == odd].any() or trial.certificate.rank > 2


@pytest.mark.statistical
def test_understated_errors_of_baseline_rewards_are_found_out():
    honest = Trial(world(baseline_reward_std=0.05, noise_std=0.03)).play(40)
    assert honest.certificate.details["inflation"] == 1.0
    for share, factor in ((4, 4.0), (10, 10.0)):
        env = world(baseline_reward_std=0.05, claimed_std=0.05 / share, noise_std=0.03)
        trial = Trial(env).play(40)
        assert trial.certificate.details["inflation"] == pytest.approx(factor, rel=0.2)
        assert trial.violations == 0
        assert trial.moved.any()


@pytest.mark.statistical
@pytest.mark.parametrize("bias", [0.05, -0.05])
def test_biased_baseline_rewards_within_their_claim_do_no_harm(bias):
    trial = Trial(world(baseline_bias=bias, claimed_std=0.05, noise_std=0.03)).play(40)
    assert trial.violations == 0


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_a_drift_is_noticed_and_everything_starts_anew(known):
    trial = Trial(world(drift_at=31, baseline_known=known)).play(31)
    assert trial.moved.any()
    mode, before = trial.policy._mode, trial.policy._mode.evidence
    trial.play(2)
    trial.play(1)
    assert mode.evidence is not before
    assert mode.evidence.n_plays <= 3 * 20
    assert trial.policy.block == 2  # of the five rounds before the first fit
    assert "fallback:drift" in trial.choices[-1].reason
    assert trial.certificate.shut.tolist() == [checks.DRIFT] * 20
    quiet = len(trial.below)
    trial.play(40)
    assert not np.concatenate(trial.below[quiet:]).any()
    assert trial.certificate.opened
    if known:  # the very first contradicted baseline shuts its task, so hardly anything is lost
        assert trial.violations <= 5


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_late_shuffled_and_missing_rewards(known):
    pending = []

    def returned(outcomes, rng):
        """A random 60 % of the rewards, four blocks late, in any order."""
        kept = rng.permutation(len(outcomes))[: int(0.6 * len(outcomes))]
        pending.append(Outcomes(outcomes.task[kept], outcomes.features[kept], outcomes.reward[kept]))
        return pending.pop(0) if len(pending) > 4 else no_outcomes()

    trial = Trial(world(baseline_known=known)).play(60, returned=returned)
    assert trial.violations == 0
    assert trial.moved.any()


def test_without_rewards_it_stays_at_the_baseline():
    trial = Trial(world()).play(20, returned=lambda outcomes, rng: no_outcomes())
    assert not trial.moved.any()
    assert set(trial.reasons) == {"fallback:no-data"}
    assert trial.policy.theta is None


@pytest.mark.statistical
def test_tasks_without_labels_learn_from_their_rewards():
    def told(requests):
        reward = np.where(requests.task < 12, requests.baseline_reward, np.nan)
        return replace(requests, baseline_reward=reward)

    trial = Trial(world()).play(40, told=told)
    assert trial.violations == 0
    assert trial.moved[trial.task < 12].any()
    assert trial.moved[trial.task >= 12].any()


@pytest.mark.statistical
def test_mixtures_take_the_place_of_uncertified_baselines():
    trial = Trial(world(), bn.SafeAltGDmin(0.2, mixing=True, norm_bound=0.6)).play(40)
    first = trial.choices[0]
    assert set(first.index) == {-1}
    assert not first.certified.any()
    assert set(first.reason) == {"fallback:no-data"}
    assert np.all(first.lower_bound >= first.floor - 1e-12)
    assert trial.moved.any()
    assert trial.violations == 0


@pytest.mark.statistical
def test_the_literal_floor_is_never_crossed_by_what_is_certified():
    trial = Trial(world(), bn.SafeAltGDmin(0.2, literal_floor=True)).play(40)
    assert trial.moved.any()
    for requests, choices in zip(trial.asked, trial.choices, strict=True):
        floor = 0.8 * trial.env.baseline(requests)
        assert np.all((trial.env.expected(requests, choices) >= floor - 1e-12)[choices.certified])


def test_fixed_action_sets_never_open():
    trial = Trial(world(action_sets="fixed")).play(60)
    assert not trial.moved.any()
    assert trial.violations == 0


@pytest.mark.parametrize("known", [True, False])
def test_the_same_seed_gives_the_same_choices(known):
    one, two = (Trial(world(baseline_known=known, noise_std=0.05)).play(25) for _ in range(2))
    other = Trial(world(baseline_known=known, noise_std=0.05), seed=1).play(25)
    for a, b in zip(one.choices, two.choices, strict=True):
        np.testing.assert_array_equal(a.index, b.index)
        np.testing.assert_array_equal(a.lower_bound, b.lower_bound)
    assert any(not np.array_equal(a.index, b.index) for a, b in zip(one.choices, other.choices, strict=False))


@pytest.mark.parametrize("known", [True, False])
def test_the_unit_of_rewards_does_not_matter(known):
    def in_cents(outcomes, rng):
        return Outcomes(outcomes.task, outcomes.features, 1e6 * outcomes.reward)

    plain = Trial(world(baseline_known=known)).play(25)
    cents = Trial(world(baseline_known=known)).play(
        25, returned=in_cents, told=lambda r: replace(r, baseline_reward=1e6 * r.baseline_reward)
    )
    assert plain.moved.any()
    np.testing.assert_array_equal(plain.moved, cents.moved)
    np.testing.assert_array_equal(plain.reasons, cents.reasons)


def test_the_given_schedule_is_kept_and_blocks_end_at_its_refits():
    policy = bn.SafeAltGDmin(0.2, schedule=EqualSchedule(16))
    trial = Trial(world(), policy)
    assert policy.block == 16
    trial.play(16)
    assert trial.certificate.opened
    assert policy.block == 2  # open: rewards are looked at every other round, for a drift
    last = trial.certificate
    trial.play(14)
    assert trial.certificate is last
    trial.play(2)
    assert trial.certificate is not last


def test_a_fit_that_settles_nothing_leaves_an_open_certificate_in_place(monkeypatch):
    trial = Trial(world()).play(20)
    mode, last = trial.policy._mode, trial.certificate
    assert last.opened
    for code, kept in ((checks.UNDECIDED, True), (checks.REGIME, False)):
        closed = Certificate.closed(20, 20, code)
        monkeypatch.setattr(mode.certifier, "certify", lambda *_, closed=closed: closed)
        mode.refit(20)
        assert (mode.certificate is last) == kept


# --- every reason, and the certifier alone --------------------------------------------------------------


def quiet_task(outcomes, rng):
    kept = outcomes.task != 0
    return Outcomes(outcomes.task[kept], outcomes.features[kept], outcomes.reward[kept])


def lying(requests):
    """From now on task 3's baseline reward is far from what it was."""
    return replace(requests, baseline_reward=requests.baseline_reward + 5.0 * (requests.task == 3))


def new_tasks(requests):
    return replace(requests, task=requests.task + 20)


NOISY_OUTLIER = world(outliers=1, noise_std=0.1, baseline_known=False)
LITERAL = bn.SafeAltGDmin(literal_floor=True)
REACHED = {
    "fallback:no-data": lambda: Trial(world()).play(1),
    "fallback:fit-undecided": lambda: Trial(world(outliers=2, noise_std=0.03), seed=2).play(40),
    "fallback:signal-too-weak": lambda: Trial(world(noise_std=3.0, baseline_known=False)).play(40),
    "fallback:rank-too-small": lambda: Trial(world(), bn.SafeAltGDmin(rank=1)).play(20),
    "fallback:few-rows": lambda: Trial(world(baseline_known=False)).play(30, returned=quiet_task),
    "fallback:task-misfit": lambda: Trial(NOISY_OUTLIER, seed=1).play(90),
    "fallback:baseline-disagrees": lambda: Trial(world()).play(20).play(2, told=lying),
    "fallback:drift": lambda: Trial(world(drift_at=20)).play(30),
    "fallback:no-action-clears": lambda: Trial(world(baseline_rank=1), LITERAL).play(40),
    "certified": lambda: Trial(world()).play(20),
}


@pytest.mark.parametrize("reason", REACHED)
def test_every_reason_is_reached(reason):
    assert reason in REACHED[reason]().reasons


def test_every_reason_is_listed_here():
    assert set(REACHED) == {*checks.REASONS, "fallback:no-action-clears"}


def test_a_task_it_was_not_told_of_gets_the_baseline():
    trial = Trial(world()).play(20)
    requests = new_tasks(trial.asked[-1])
    choices = trial.certificate.judge(requests, trial.policy.constraint)
    assert set(choices.reason) == {"fallback:new-task"}
    np.testing.assert_array_equal(choices.features, requests.baseline_features())


def evidence_of(env, rounds, seed=0):
    rng = np.random.default_rng(seed)
    env.reset(rng)
    requests = env.requests(rounds, rng)
    evidence = Evidence()
    evidence.see(requests)
    baseline = env.baseline(requests) + env.noise(requests, rng)
    evidence.learn(Outcomes(requests.task, requests.baseline_features(), baseline))
    return evidence, requests


def certified_from(certifier, evidence):
    return certifier.certify(evidence, 20, 20, 600, np.random.default_rng(5))


@pytest.mark.parametrize("known", [True, False])
def test_a_restored_certifier_goes_on_as_the_one_it_was(known):
    evidence, _ = evidence_of(world(baseline_known=known), 20)
    certifier, copy = Certifier(), Certifier()
    certified_from(certifier, evidence)
    copy.restore(certifier.state())
    one, two = certified_from(certifier, evidence), certified_from(copy, evidence)
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.z, two.z)
    assert one.details == two.details
    fresh = Certifier()
    fresh.restore({})
    assert certified_from(fresh, evidence).opened


def test_what_was_forgotten_is_found_again():
    evidence, _ = evidence_of(world(), 20)
    certifier = Certifier()
    first = certified_from(certifier, evidence)
    certifier.forget()
    again = certified_from(certifier, evidence)
    np.testing.assert_allclose(again.theta, first.theta, atol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_bounds_hold_for_every_action_on_offer(known):
    # 3600 bounds of two-sided level far beyond 1e-4: none may fail.
    env = world(baseline_known=known, noise_std=0.1)
    evidence, requests = evidence_of(env, 30, seed=3)
    c = certified_from(Certifier(), evidence)
    assert c.opened
    mean = np.einsum("mkd,md->mk", requests.actions, c.theta[requests.task])
    truth = np.einsum("mkd,md->mk", requests.actions, env.theta.T[requests.task])
    std = np.sqrt(np.einsum("mkd,mde,mke->mk", requests.actions, c.V[requests.task], requests.actions))
    size = np.abs(mean - truth) / std
    assert np.all(size < c.z[requests.task][:, None])
    assert 0.1 < np.median(size) < 1.0  # and they are not empty: a normal error has 0.67


def test_more_confidence_and_more_decisions_ask_for_more():
    evidence, _ = evidence_of(world(), 20)
    plain = certified_from(Certifier(), evidence).details["z"]
    # √(2 log(max(2·600, 100·20)/0.05))
    assert plain == pytest.approx(np.sqrt(2 * np.log(2000 / 0.05)))
    assert certified_from(Certifier(confidence=0.99), evidence).details["z"] > plain
    assert certified_from(Certifier(decisions=10**6), evidence).details["z"] > plain


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": "a"},
        {"safety": "none"},
        {"confidence": 1.0},
        {"confidence": 0.0},
        {"rank": 0},
        {"rank": 1.5},
        {"rank": True},
        {"horizon": 0},
        {"delta": 0.0},
        {"rho": 0.5},
        {"norm_bound": -1.0},
        {"norm_bound": np.nan},
    ],
    ids=str,
)
def test_bad_settings_are_errors_at_once(settings):
    with pytest.raises(SettingError):
        bn.SafeAltGDmin(**settings)


def test_a_baseline_given_as_a_vector():
    def told(requests):
        return replace(requests, baseline=requests.baseline_features())

    trial = Trial(world()).play(25, told=told)
    assert trial.violations == 0
    assert "certified" in trial.reasons


class Collinear(bn.Synthetic):
    """Features that lie in a subspace: twelve of thirty dimensions are ever seen."""

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self.seen = np.linalg.qr(rng.standard_normal((self.dim, 12)))[0]

    def _offer(self, out: np.ndarray, task: np.ndarray, rng: np.random.Generator) -> None:
        super()._offer(out, task, rng)
        out[...] = out @ self.seen @ self.seen.T


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_collinear_features_do_not_make_rounding_a_certificate(known: bool) -> None:
    env = Collinear(dim=30, rank=2, tasks=30, actions=8, baseline_rank=4, baseline_known=known)
    policy = bn.SafeAltGDmin(0.2)
    result = bn.simulate(env, policy, epochs=3, rounds=25, seed=1)
    assert result.violations.sum() == 0
    assert result.certified[-1] > 0.9
    assert np.linalg.eigvalsh(policy._mode.certificate.V).min() > 0
