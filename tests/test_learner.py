"""The learner: one request as many, learning, forgetting, drifts, and units that never matter."""

import numpy as np
import pytest

from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.gates import EVERY_TASK
from banister.safety.labels import Claims
from banister.safety.reasons import CERTIFIED, DISAGREES, DRIFT, NEW_TASK, NO_DATA, TOO_UNCERTAIN
from banister.safety.watch import Alarm
from belief_world import UNKNOWN, World, belief


class Life:
    """A learner in a world: asked in turn, refitted when told."""

    def __init__(self, world, *, claims=True, features=1.0, rewards=1.0, alpha=0.2, dim=None):
        self.world, self.claims, self.features, self.rewards = world, claims, features, rewards
        self.learner = Learner(Constraint(alpha), Believer(), Memory(dim or world.d))
        self.number, self.alarms = 0, []
        self.log = []  # (task, chosen, code, expected reward, that of the baseline)

    def play(self, rounds, *, refit=True, only=None):
        learner, world = self.learner, self.world
        for _ in range(rounds):
            task, actions, index, expected = world.ask(world.T if only is None else 5, only)
            errors = world.noise * world.rng.normal(size=len(task))
            for i, t in enumerate(task.tolist()):
                self._one(learner, t, actions[i] * self.features, int(index[i]), expected[i], errors[i])
        if refit:
            learner.refit(world.T, self.number)
        return self

    def _one(self, learner, t, A, b, expected, error):
        r = expected[b] * self.rewards if self.claims else UNKNOWN
        chosen, _, _, code = learner.decide_one(t, A, b, r, r, 0.0)
        if code == DISAGREES:
            learner.disagreed(t, self.number)
        if self.claims:
            learner.memory.labels.add(t, A[b], r, 0.0, self.number)
        learner.memory.offer(t, A[self.number % len(A)])
        k = chosen if chosen >= 0 else b
        y = (expected[k] + error) * self.rewards
        self.alarms += learner.learn(t, A[k], y, chosen < 0, r if chosen < 0 else UNKNOWN, self.number)
        self.log.append((t, chosen, code, expected[k], expected[b]))
        self.number += 1

    def of(self, column, last=None):
        return np.array([row[column] for row in self.log[-last if last else 0 :]])

    @property
    def violations(self):
        expected, base = self.of(3), self.of(4)
        return int((expected < base - 0.2 * np.abs(base) - 1e-12).sum())


def small(**settings):
    return World(**{"T": 10, "d": 3, "K": 5, "noise": 0.05, **settings})


@pytest.mark.parametrize("claims", [True, False])
def test_it_learns_leaves_the_baseline_and_keeps_the_floor(claims):
    life = Life(small(), claims=claims).play(4)
    assert set(life.of(2)) == {NO_DATA}
    for _ in range(4):
        life.play(5)
    assert life.violations == 0
    assert np.mean(life.of(2, 50) == CERTIFIED) > 0.8
    assert life.alarms == []
    assert life.learner.belief.claims is (Claims.BORNE_OUT if claims else Claims.NONE)


@pytest.mark.parametrize("claims", [True, False])
def test_one_request_is_judged_as_many_are(claims):
    life = Life(small(level=2.0), claims=claims).play(12)
    one, many = Life(small()).learner, Life(small()).learner
    for learner in (one, many):
        learner.use(life.learner.belief)
        learner.gates.shut(4, DRIFT)
    task, A, index, expected = life.world.ask(60)
    task[::7] = 33  # a task that the belief does not know
    r = expected[np.arange(60), index] + (task == 2) * 3.0  # a lie shuts task 2
    r = r if claims else r * UNKNOWN
    low = np.where(task == 5, r - 0.1, r)
    std = np.where((task == 6) | (task == 4), 0.05, 0.0)
    out = many.decide(task, A, index, A[np.arange(60), index], low, r, std)
    for i in range(60):
        verdict = one.decide_one(int(task[i]), A[i], int(index[i]), low[i], r[i], std[i])
        assert (verdict[0], verdict[3]) == (out.chosen[i], out.code[i])
        np.testing.assert_allclose(verdict[1:3], [out.bound[i], out.floor[i]], rtol=1e-14)
    np.testing.assert_array_equal(one.gates.codes, many.gates.codes)
    assert one.settled == many.settled
    assert len(set(out.code)) >= 3


def test_a_task_that_came_later_and_none_at_all():
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    assert learner.decide_one(0, np.eye(2), 0, 5.0, 5.0, 0.0) == (
        -1,
        pytest.approx(np.nan, nan_ok=True),
        4.0,
        NO_DATA,
    )
    task, A, r = np.arange(2), np.repeat(np.eye(2)[None], 2, axis=0), np.full(2, 5.0)
    out = learner.decide(task, A, np.zeros(2, int), A[:, 0], r, r, np.zeros(2))
    assert out.code.tolist() == [NO_DATA] * 2
    assert out.floor.tolist() == [4.0] * 2
    learner.use(belief([[1.0, 2.0]], [np.zeros((2, 2))]))
    assert learner.decide_one(3, np.eye(2), 0, 5.0, 5.0, 0.0)[3] == NEW_TASK
    learner.gates.shut(EVERY_TASK)
    out = learner.decide(np.array([0, 3]), A, np.zeros(2, int), A[:, 0], r, r, np.zeros(2))
    assert out.code.tolist() == [DRIFT, NEW_TASK]


def test_many_rewards_are_learned_as_one_by_one():
    first = Life(small()).play(14)
    one, many = (Learner(Constraint(0.2), Believer(), Memory(3)) for _ in range(2))
    seen = first.learner.memory.snapshot().seen()
    columns = seen.task, seen.X, seen.y + 2.0, seen.is_baseline, seen.claim, np.arange(len(seen.y))
    alarms = []
    for learner in (one, many):
        learner.use(first.learner.belief)
        alarms.append([])
    for t, x, y, b, c, n in zip(*columns, strict=True):
        alarms[0] += one.learn(int(t), x, float(y), bool(b), float(c), int(n))
    alarms[1] = many.learn_many(*columns)
    assert alarms[0] == alarms[1] != []
    np.testing.assert_array_equal(one.gates.codes, many.gates.codes)
    assert one.memory.since == many.memory.since
    for a, b in zip(one.memory.snapshot().seen(), many.memory.snapshot().seen(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_without_a_belief_nothing_is_watched():
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    two = np.zeros(2, dtype=int)
    assert learner.learn_many(two, np.eye(2), np.ones(2), two == 0, np.ones(2), np.arange(2)) == []
    assert len(learner.memory.plays) == 2


def test_a_drift_of_one_task_shuts_it_and_it_recovers():
    life = Life(small(), claims=False).play(14).play(14).play(14)
    before = life.number
    life.world.theta[2] *= -1.0
    life.world.level[2] -= 3.0
    life.play(20, refit=False)
    assert [a.task for a in life.alarms] == [2]
    alarm = life.alarms[0]
    assert before - 15 <= alarm.since <= before + 30
    assert life.learner.gates.codes[2] == DRIFT
    assert life.learner.gates.codes.tolist().count(CERTIFIED) == 9
    kept = life.learner.memory.snapshot().seen()
    assert (kept.task == 2).sum() <= 25
    assert (kept.task == 3).sum() == 62
    assert life.learner.memory.snapshot().row_counts(10)[3] == 62
    life.play(10).play(10)
    mine = life.of(0, 100) == 2
    assert np.mean(life.of(2, 100)[mine] == CERTIFIED) > 0.5
    late, base = life.of(3, 100), life.of(4, 100)
    assert np.all(late >= base - 0.2 * np.abs(base))


def test_a_drift_of_all_tasks_makes_everything_start_anew():
    life = Life(small(T=12), claims=False).play(14).play(14)
    life.world.level -= 4.0
    life.play(6, refit=False)
    assert EVERY_TASK in [a.task for a in life.alarms]
    assert not life.learner.gates.any_open
    assert life.learner.memory.since[EVERY_TASK] >= 28 * 12 - 12
    kept = life.learner.memory.snapshot().seen()
    assert len(kept.y) <= 7 * 12
    life.learner.refit(12, life.number)
    assert life.learner.belief.start.rows == len(kept.y)  # from nothing
    life.play(14).play(6)
    assert np.mean(life.of(2, 60) == CERTIFIED) > 0.3


def test_after_a_change_of_all_the_next_fit_begins_from_nothing():
    life = Life(small()).play(14)
    rows = len(life.learner.memory.plays)
    life.play(2)
    assert life.learner.belief.start.rows == rows  # warm
    life.learner.forget(EVERY_TASK, 5)
    life.learner.refit(10, life.number)
    assert life.learner.belief.start.rows == life.number - 5


def test_contradicted_baselines_of_many_tasks_are_a_change_of_all():
    b = belief([[1.0, 2.0]] * 100, np.zeros((100, 2, 2)))
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    learner.use(b)
    # five of a hundred known
    alone = [Alarm(0, 11, 1.0), Alarm(1, 12, 2.0), None, Alarm(2, 13, 3.0), Alarm(3, 14, 4.0)]
    assert [learner.disagreed(t, 10 + t) for t in (0, 1, 1, 2, 3)] == alone
    assert learner.gates.codes[:5].tolist() == [DRIFT] * 4 + [CERTIFIED]
    assert learner.memory.since == {0: 11, 1: 12, 2: 13, 3: 14}
    assert learner.disagreed(4, 20) == Alarm(EVERY_TASK, 21, 5.0)
    assert not learner.gates.any_open
    assert learner.memory.since[EVERY_TASK] == 21
    assert learner.disagreed(5, 21) is None  # all are shut already
    few = Learner(Constraint(0.2), Believer(), Memory(2))
    few.use(belief([[1.0, 2.0]] * 4, np.zeros((4, 2, 2))))
    assert [few.disagreed(t, t).task for t in (0, 1, 2)] == [0, 1, EVERY_TASK]  # three at least
    few.use(few.belief)  # a new belief has been contradicted by nobody
    assert [few.disagreed(t, t).task for t in (0, 1)] == [0, 1]


def test_contradictions_now_and_then_are_wrong_numbers_and_no_change_of_all():
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    learner.use(belief([[1.0, 2.0]] * 40, np.zeros((40, 2, 2))))
    assert [learner.disagreed(t, 31 * t).task for t in range(6)] == list(range(6))
    assert learner.gates.any_open
    # three within thirty decisions, whatever was before
    assert [learner.disagreed(t, 1000 + 15 * (t - 6)).task for t in (6, 7, 8)] == [6, 7, EVERY_TASK]
    just = Learner(Constraint(0.2), Believer(), Memory(2))
    just.use(belief([[1.0, 2.0]] * 40, np.zeros((40, 2, 2))))
    assert [just.disagreed(*one).task for one in ((0, 1), (1, 2), (2, 32), (3, 33))] == [0, 1, 2, 3]


def test_a_contradicted_baseline_dates_the_change():
    learner = Life(small(), claims=False).play(14).learner
    learner.disagreed(3, 500)
    alarms = []
    for i in range(300):
        alarms += learner.learn(3, np.ones(3), 99.0, True, UNKNOWN, 490 + i)
    assert [(a.task, a.since) for a in alarms if a.task == 3] == [(3, 501)]


def test_a_state_put_back_is_as_it_was():
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    learner.use(belief([[1.0, 2.0]] * 4, np.zeros((4, 2, 2))))
    learner.disagreed(0, 3)
    learner.decide_one(1, np.eye(2), 0, UNKNOWN, UNKNOWN, 0.0)
    kept = learner.state()
    learner.decide_one(9, np.eye(2), 0, UNKNOWN, UNKNOWN, 0.0)
    for t in (1, 2):
        learner.disagreed(t, 5)
    assert not learner.gates.any_open
    assert not learner.settled
    learner.put_back(kept)
    assert learner.gates.codes.tolist() == [DRIFT] + [CERTIFIED] * 3
    assert learner.memory.since == {0: 4}
    assert learner.settled
    assert learner.disagreed(1, 7).task == 1  # two of the three that it takes
    assert learner.disagreed(2, 8).task == EVERY_TASK


def test_settled_when_hardly_a_request_is_uncertain():
    sure, unsure = belief([[1.0, 2.0]], [np.zeros((2, 2))]), belief([[1.0, 2.0]], [9 * np.eye(2)])
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    assert not learner.settled  # nobody asked
    for b, code, settled in ((sure, CERTIFIED, True), (unsure, TOO_UNCERTAIN, False)):
        learner.use(b)
        for _ in range(3):
            assert learner.decide_one(0, np.eye(2), 0, UNKNOWN, UNKNOWN, 0.0)[3] == code
        assert learner.settled == settled
    learner.use(sure)
    for i in range(100):
        learner.decide_one(0 if i else 7, np.eye(2), 0, UNKNOWN, UNKNOWN, 0.0)
    assert learner.settled  # one in a hundred
    for _ in range(2):
        learner.decide_one(7, np.eye(2), 0, UNKNOWN, UNKNOWN, 0.0)
    assert not learner.settled


@pytest.mark.parametrize(
    ("features", "rewards"), [(1e-150, 1e150), (1e150, 1e-150), (1e3, 1e-6), (1e-40, 1.0)]
)
@pytest.mark.parametrize("claims", [True, False])
def test_units_change_no_decision(features, rewards, claims):
    plain, other = (
        Life(small(), claims=claims, features=f, rewards=r).play(6).play(6).play(6)
        for f, r in ((1.0, 1.0), (features, rewards))
    )
    assert CERTIFIED in plain.of(2)
    np.testing.assert_array_equal(other.of(1), plain.of(1))
    np.testing.assert_array_equal(other.of(2), plain.of(2))


def test_the_same_rows_give_the_same_belief_and_another_order_nearly_so():
    seen = small().seen(12)
    one, two = (Believer().believe(seen, 10, 500) for _ in range(2))
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.V, two.V)
    turn = np.random.default_rng(0).permutation(len(seen.y))
    rows = {name: getattr(seen, name)[turn] for name in ("task", "X", "y", "is_baseline", "claim")}
    other = Believer().believe(seen._replace(**rows), 10, 500)
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-8)


# --- data as they come ----------------------------------------------------------------------------------


class Odd(World):
    """A world whose features are bent after the fact; rewards come from what was offered."""

    def __init__(self, bend, **settings):
        super().__init__(**settings)
        self.bend = bend

    def ask(self, m, task=None):
        task, actions, _, _ = super().ask(m, task)
        bent = self.bend(actions)
        return task, bent, *self._of(task, bent[..., : self.d])


def repeated(A):
    return np.concatenate([A, A[..., :1]], axis=-1)


def constant(A):
    return np.concatenate([A, np.full((*A.shape[:-1], 1), 7.0)], axis=-1)


def zeros(A):
    return np.concatenate([A, np.zeros((*A.shape[:-1], 2))], axis=-1)


@pytest.mark.parametrize("bend", [repeated, constant, zeros])
@pytest.mark.parametrize("claims", [True, False])
def test_columns_that_say_nothing_new_do_no_harm(bend, claims):
    world = Odd(bend, T=10, d=3, K=5, noise=0.05)
    life = Life(world, claims=claims, dim=bend(np.zeros((1, 3))).shape[1]).play(8).play(8).play(8)
    assert life.violations == 0
    assert np.mean(life.of(2, 50) == CERTIFIED) > 0.7


@pytest.mark.parametrize("T", [1, 2])
@pytest.mark.parametrize("claims", [True, False])
def test_one_task_or_two(T, claims):
    life = Life(small(T=T), claims=claims).play(30).play(30)
    assert life.violations == 0
    assert np.mean(life.of(2, 30 * T) == CERTIFIED) > 0.7


def test_one_row_and_constant_rewards_open_nothing():
    for rows in (1, 2, 50):
        learner = Learner(Constraint(0.2), Believer(), Memory(3))
        rng = np.random.default_rng(0)
        for i in range(rows):
            learner.learn(i % 2, rng.normal(size=3), 1.0, True, UNKNOWN, i)
        learner.refit(2, rows)
        A = rng.normal(size=(4, 3))
        assert learner.decide_one(0, A, 0, UNKNOWN, UNKNOWN, 0.0)[0] == -1
    one = Learner(Constraint(0.2), Believer(), Memory(3))
    one.learn(0, np.ones(3), 1.0, True, UNKNOWN, 0)
    one.learn(1, np.ones(3), 2.0, True, UNKNOWN, 1)
    one.refit(3, 2)
    assert one.belief.known.tolist() == [True, True, False]
    assert one.decide_one(0, np.eye(3), 0, UNKNOWN, UNKNOWN, 0.0)[0] == -1
    assert one.decide_one(2, np.eye(3), 0, UNKNOWN, UNKNOWN, 0.0)[3] == NEW_TASK


def test_features_that_never_vary():
    learner = Learner(Constraint(0.2), Believer(), Memory(2))
    rng = np.random.default_rng(0)
    for i in range(60):
        learner.learn(i % 3, np.array([1.0, 2.0]), 1 + 0.1 * rng.normal(), True, UNKNOWN, i)
    learner.refit(3, 60)
    assert np.all(np.isfinite(learner.belief.mean))
    # an action away from all that was ever seen is never certified
    assert learner.decide_one(0, np.array([[1.0, 2.0], [9.0, -5.0]]), 0, UNKNOWN, UNKNOWN, 0.0)[0] == -1


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_an_action_that_is_no_number_is_never_played(broken):
    learner = Life(small(), claims=False).play(20).learner
    A = np.random.default_rng(0).normal(size=(6, 3))
    A[4, 1] = broken
    for b in range(3):
        assert learner.decide_one(0, A, b, UNKNOWN, UNKNOWN, 0.0)[0] != 4
        assert learner.decide_one(0, A, b, 0.1, 0.1, 0.0)[0] != 4
    assert learner.decide_one(0, A, 4, UNKNOWN, UNKNOWN, 0.0)[0] == -1
