"""Wild rewards: a few lose their size and keep their side; tails, patterns and units are left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister import SafeBandit
from banister.errors import FitError
from banister.learner import memory
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.wild import Tamed, tame
from online_world import World, trained

ONE = np.zeros(100, dtype=int)


def usual(n=99, seed=0):
    return np.random.default_rng(seed).normal(1.0, 0.3, n)


def test_a_hand_made_case():
    """Distances from the median 10 are 1 to 50: half exceed 25.5, a tenth 45.1; 2³ · 45.1 is 360.8."""
    y = 10.0 + np.r_[np.arange(-50.0, 0.0), np.arange(1.0, 51.0)]
    task = np.zeros(101, dtype=int)
    assert not tame(task, np.append(y, 10.0 + 355.0)).wild.any()
    out = tame(task, np.append(y, 10.0 + 370.0))
    assert out.wild.tolist() == [False] * 100 + [True]
    assert out.y[-1] == 60.0
    low = tame(task, np.append(y, 10.0 - 370.0))
    assert low.y[-1] == -40.0  # what is bad stays bad: the worst usual one


@pytest.mark.parametrize("wild", [1e3, -1e3, 1e154, -1e154, 1.7e308])
def test_one_wild_value_counts_as_the_end_of_what_is_usual(wild):
    y = usual()
    out = tame(ONE, np.append(y, wild))
    assert out.y[-1] == (y.max() if wild > 0 else y.min())
    np.testing.assert_array_equal(out.y[:-1], y)
    assert not out.left_out.any()


@pytest.mark.parametrize(("rows", "known"), [(201, True), (199, False)])
def test_a_task_of_many_rewards_says_itself_what_is_usual(rows, known):
    """Twenty tasks of size 1 and one of size 10 (or of 1/100): what is wild in one is usual in the other."""
    rng = np.random.default_rng(0)
    others, shape = rng.standard_normal(4000), rng.standard_normal(rows - 1)
    task = np.append(np.arange(4000) % 20, np.full(rows, 20))
    large = tame(task, np.concatenate([others, 10 * shape, [40.0]]))
    assert large.wild[-1] != known
    small = tame(task, np.concatenate([others, shape / 100, [60.0]]))
    assert small.wild[-1]
    assert small.y[-1] == (shape / 100 if known else others).max()
    hidden = tame(task, np.concatenate([others, shape / 100, [4.0]]))
    assert hidden.wild[-1] == known


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5, 2.0, 2.5])
@pytest.mark.parametrize("rows", [100, 1000, 20_000])
def test_revenue_with_a_heavy_tail_keeps_its_mean(sigma, rows):
    """95 % zeros and log-normal sales: median and median distance are both 0, and sales are not errors."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(rows) < 0.05, rng.lognormal(3.0, sigma, rows), 0.0)
        out = tame(rng.integers(0, 20, rows), y)
        assert out.y.mean() >= 0.999 * y.mean()


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_clicks_and_ratings_are_usual(share):
    rng = np.random.default_rng(0)
    for y in (rng.random(5000) < share) * 1.0, rng.integers(1, 6, 5000) * 1.0:
        assert not tame(rng.integers(0, 9, 5000), y).wild.any()


def test_harm_that_comes_again_counts_in_full():
    """One reward in a hundred is a disaster: hidden, its action would look as good as any."""
    rng = np.random.default_rng(0)
    y = rng.normal(1.0, 0.3, 2000)
    y[rng.random(2000) < 0.01] = -300.0
    for task in (np.zeros(2000, dtype=int), rng.integers(0, 10, 2000)):
        out = tame(task, y)
        np.testing.assert_array_equal(out.y, y)
        assert not out.left_out.any()


def test_a_task_of_another_size_is_no_error():
    """A hundred times larger: its own rewards, few or many, are what it earns."""
    rng = np.random.default_rng(0)
    for rows in (10, 1000):
        task = np.r_[rng.integers(0, 20, 5000), np.full(rows, 20)]
        y = np.r_[rng.normal(1.0, 0.3, 5000), rng.normal(100.0, 30.0, rows)]
        np.testing.assert_array_equal(tame(task, y).y, y)


@pytest.mark.parametrize("rows", [10, 300])
def test_a_task_beyond_all_arithmetic_is_left_out(rows):
    """Flattened to one value its actions would all look equal, and kept it would drown the others' noise."""
    rng = np.random.default_rng(0)
    task = np.r_[rng.integers(0, 20, 5000), np.full(rows, 20)]
    y = np.r_[rng.normal(1.0, 0.3, 5000), 1e100 * rng.normal(1.0, 0.3, rows)]
    out = tame(task, y)
    np.testing.assert_array_equal(out.left_out, task == 20)
    np.testing.assert_array_equal(out.y, y)


def test_few_rewards_tell_nothing_and_none_is_no_error():
    assert not tame(np.zeros(15, dtype=int), np.r_[usual(14), 1e9]).wild.any()
    assert len(tame(np.zeros(0, dtype=int), np.zeros(0)).y) == 0
    assert not tame(ONE, np.ones(100)).wild.any()


@settings(deadline=None)
@given(st.integers(-150, 150), st.booleans(), st.integers(0, 5))
def test_units_do_not_matter(k, negative, seed):
    rng = np.random.default_rng(seed)
    task, y = rng.integers(0, 5, 400), rng.standard_t(2, 400)
    y[7], unit = 1e5, 10.0**k * (-1 if negative else 1)
    plain, other = tame(task, y), tame(task, y * unit)
    np.testing.assert_array_equal(other.wild, plain.wild)
    np.testing.assert_allclose(other.y, plain.y * unit, rtol=1e-12)


# --- in life --------------------------------------------------------------------------------------------


class Rows:
    """The same rows in any unit, with one wild reward among them."""

    def __init__(self, wild):
        world, rng = World(tasks=10, dim=3), np.random.default_rng(0)
        self.task = np.arange(600) % 10
        self.X = rng.normal(size=(600, 3))
        self.y = np.einsum("nd,nd->n", self.X, world.theta[self.task]) + 0.1 * rng.normal(size=600)
        self.y[100] = wild
        self.requests = rng.normal(size=(200, 5, 3))

    def decisions(self, features=1.0, rewards=1.0):
        learner, nan = Learner(Constraint(0.1), Believer(), Memory(3)), np.full(600, np.nan)
        X, y = self.X * features, self.y * rewards
        learner.memory.offer_many(self.task, X)
        learner.learn_many(self.task, X, y, np.ones(600, dtype=bool), nan, np.arange(600))
        learner.refit(10, 600)
        unknown, nothing = np.full(200, np.nan), np.zeros(200, dtype=np.int64)
        actions = self.requests * features
        return learner.decide(
            np.arange(200) % 10, actions, nothing, actions[:, 0], unknown, unknown, np.zeros(200)
        )


PLAIN = Rows(1000.0).decisions()


def test_a_wild_reward_shuts_no_gate_and_without_the_rule_it_does(monkeypatch):
    quiet = Rows(1.0).decisions()
    left = int((quiet.chosen >= 0).sum())
    assert left > 150
    assert abs(int((PLAIN.chosen >= 0).sum()) - left) <= 5
    for wild in (1e154, -1e154):
        assert abs(int((Rows(wild).decisions().chosen >= 0).sum()) - left) <= 5
    none = np.zeros(600, dtype=bool)
    monkeypatch.setattr(memory, "tame", lambda task, y: Tamed(y, none[: len(y)], none[: len(y)]))
    assert int((Rows(1000.0).decisions().chosen >= 0).sum()) < left - 10
    assert int((Rows(1e154).decisions().chosen >= 0).sum()) == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(-150, 150), st.integers(-150, 150))
def test_units_change_no_decision(features, rewards):
    other = Rows(1000.0).decisions(10.0**features, 10.0**rewards)
    np.testing.assert_array_equal(other.chosen, PLAIN.chosen)
    np.testing.assert_array_equal(other.code, PLAIN.code)


@pytest.mark.parametrize("wild", [1000.0, -1e154])
def test_a_bandit_goes_on_and_says_what_it_set_aside(wild):
    world, bandit = trained(500)
    assert bandit.status().wild == 0
    d = bandit.decide(**world.request(0))
    bandit.reward(d.id, wild)
    bandit.refit()
    assert {d.reason for d in world.play(bandit, 100)} <= {"certified", "kept:baseline-best"}
    status = bandit.status()
    assert (status.wild, status.refit_failure) == (1, None)
    assert "1 rewards far outside" in str(status)
    bandit.retract(d.id, "a typing error")
    assert bandit.status().wild == 0


def test_a_failed_refit_is_in_the_status_until_one_succeeds(monkeypatch, caplog):
    world, bandit = trained(300)
    with monkeypatch.context() as broken:
        broken.setattr("banister.online.refitter.fit", lambda *_: np.linalg.cholesky(-np.eye(2)))
        with pytest.raises(FitError, match="LinAlgError"):
            bandit.refit()
    assert "Matrix is not positive definite" in bandit.status().refit_failure
    assert "the last refit failed (LinAlgError" in str(bandit.status())
    assert any("a refit failed" in r.getMessage() for r in caplog.records)
    assert world.play(bandit, 5)[-1].model_version == 1
    bandit.refit()
    assert bandit.status().refit_failure is None
    assert bandit.version == 2


def test_a_model_that_is_not_finite_is_not_served(monkeypatch):
    world, bandit = trained(300)
    spoil = Believer.believe

    def broken(self, *arguments):
        belief = spoil(self, *arguments)
        noise = belief.noise.copy()
        noise[0] = np.nan
        object.__setattr__(belief, "noise", noise)
        return belief

    with monkeypatch.context() as patch:
        patch.setattr(Believer, "believe", broken)
        with pytest.raises(FitError, match="noise that is not finite"):
            bandit.refit()
    assert bandit.version == 1
    assert world.play(bandit, 1)[0].model_version == 1


def test_an_inline_refit_that_fails_warns_and_decides_on(monkeypatch):
    monkeypatch.setattr("banister.online.refitter.fit", lambda *_: 1 / 0)
    bandit = SafeBandit(refits="inline", seed=0)
    with pytest.warns(UserWarning, match="A refit failed"):
        World().play(bandit, 80)
    assert bandit.status().refit_failure.startswith("ZeroDivisionError")
