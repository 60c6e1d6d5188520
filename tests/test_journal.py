"""Years of rows: periods say what their rows said, in any unit, and a journal filled again is the same."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from banister import SafeBandit
from banister.learner import journal, memory
from banister.learner.memory import Memory
from banister.safety import believer, seen, widening
from banister.safety.believer import Believer
from banister.safety.gates import EVERY_TASK
from banister.safety.past import Period, Start, reduced, without
from banister.safety.wild import tame
from online_world import World, same

T, D, N = 6, 3, 2400
NAN = np.full(N, np.nan)


class History:
    """Rows of six tasks whose first feature is far from zero, and labels of every one."""

    def __init__(self, seed=0, wild=None):
        rng = np.random.default_rng(seed)
        self.task, self.number = rng.integers(0, T, N), np.arange(1, N + 1)
        self.X = rng.normal(size=(N, D)) + np.array([1e4, 0.0, 0.0])
        theta = rng.normal(size=(T, D)) * np.array([1e-3, 1.0, 1.0])
        self.expected = np.einsum("nd,nd->n", self.X, theta[self.task])
        self.y = self.expected + 0.1 * rng.normal(size=N)
        if wild is not None:
            self.y[wild[0]] = wild[1]
        self.baseline = rng.random(N) < 0.7

    def memory(self, rows=slice(None), *, labels=False, features=1.0, rewards=1.0):
        memory = Memory(D)
        task, X, y, number = (
            self.task[rows],
            self.X[rows] * features,
            self.y[rows] * rewards,
            self.number[rows],
        )
        claim = np.where(self.baseline[rows], self.expected[rows] * rewards, np.nan) if labels else NAN[rows]
        memory.plays.extend(task, X, y, self.baseline[rows], claim, number)
        if labels:
            memory.labels.extend(
                task, X, self.expected[rows] * rewards, np.full(len(y), 0.02 * rewards), number
            )
        memory.offer_many(self.task, self.X * features)
        return memory

    def retract(self, memory, i):
        number, task, baseline = int(self.number[i]), int(self.task[i]), bool(self.baseline[i])
        memory.retract(number, task, self.X[i], float(self.y[i]), baseline)


@pytest.fixture
def short(monkeypatch):
    """Files of some 40 rows, filed 32 at a time after the first 64."""
    monkeypatch.setattr(journal, "_LATEST", 20)
    monkeypatch.setattr(journal, "_FIRST", 64)
    monkeypatch.setattr(journal, "_FILED", 32)


@pytest.fixture
def level_noise(monkeypatch):
    """Rows themselves say how noise depends on features; sums cannot, so it is taken to be level here."""
    monkeypatch.setattr(widening, "unequal_noise", lambda *_: 1.0)
    monkeypatch.setattr(believer, "loudness", lambda *_: None)


def believed(memory):
    return Believer().believe(memory.snapshot().seen(), T, N)


def assert_near(found, wanted, rtol=1e-8):
    np.testing.assert_allclose(found.theta, wanted.theta, rtol=rtol, atol=rtol * np.abs(wanted.theta).max())
    a, b = found.frame.reward, wanted.frame.reward
    np.testing.assert_allclose(found.noise * a, wanted.noise * b, rtol=rtol)
    V, W = found.V * a**2, wanted.V * b**2
    np.testing.assert_allclose(V, W, rtol=1e3 * rtol, atol=rtol * np.abs(W).max())
    assert (found.rank, found.claims) == (wanted.rank, wanted.claims)


def test_a_hand_made_period():
    X, y = np.array([[1.0], [3.0], [3.0]]), np.array([2.0, 2.0, 5.0])
    period = Period.of(X, y, np.array([4, 9, 7]), Start(np.array([1.0])), np.zeros(1), {})
    # rows (x − 1, 1, y): (0, 1, 2), (2, 1, 2), (2, 1, 5)
    np.testing.assert_allclose(period.F.T @ period.F, [[8, 4, 14], [4, 3, 9], [14, 9, 33]], rtol=1e-14)
    assert (period.n, period.first, period.last, period.usual, period.times) == (3, 4, 9, 2.0, 2)
    assert (period.low.tolist(), period.high.tolist()) == ([1.0, 2.0], [3.0, 5.0])
    both = period.joined(
        Period.of(X, y * 0 + 5.0, np.array([2, 2, 2]), Start(np.array([1.0])), np.ones(1), {3: 1.0})
    )
    assert (both.n, both.first, both.last, both.usual, both.times) == (6, 2, 9, 5.0, 3)
    assert (both.sums.tolist(), both.tamed) == ([1.0], {3: 1.0})
    assert both.F.shape == (3, 3)


@pytest.mark.usefixtures("level_noise")
@pytest.mark.parametrize("labels", [False, True])
def test_periods_say_what_their_rows_said(short, monkeypatch, labels):
    for module in (seen, memory):
        monkeypatch.setattr(module, "PAIRED", 10)
    found = History().memory(labels=labels)
    assert len(found.plays.view().rows()[0]) < N / 4
    with monkeypatch.context() as long:
        long.setattr(journal, "_LATEST", 10 * N)
        wanted = History().memory(labels=labels)
    assert len(wanted.plays.view().rows()[0]) == N
    np.testing.assert_array_equal(found.snapshot().row_counts(T), wanted.snapshot().row_counts(T))
    assert_near(believed(found), believed(wanted))
    assert believed(found).labelled.all() == labels


@settings(max_examples=10, deadline=None)
@given(st.integers(-140, 140), st.integers(-140, 140))
def test_units_do_not_matter(features, rewards):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_LATEST", 20)
        patch.setattr(journal, "_FIRST", 64)
        patch.setattr(journal, "_FILED", 64)
        plain = believed(History().memory())
        found = believed(History().memory(features=10.0**features, rewards=10.0**rewards))
    np.testing.assert_allclose(found.mean, plain.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.V, plain.V, rtol=1e-4, atol=1e-8 * np.abs(plain.V).max())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@pytest.mark.usefixtures("short")
@given(st.lists(st.integers(0, 700), max_size=5))
def test_one_by_one_as_many_at_once(cuts):
    history, whole, parts = History(), History().memory(slice(0, 1000)), Memory(D)
    ends = sorted({0, 1000, *cuts})
    for a, b in pairwise(ends):
        columns = (
            history.task[a:b], history.X[a:b], history.y[a:b], history.baseline[a:b], NAN[a:b],
            history.number[a:b],
        )  # fmt: skip
        if b - a < 100:
            for row in zip(*columns, strict=True):
                parts.plays.add(*row)
        else:
            parts.plays.extend(*columns)
    one, two = whole.plays.view(), parts.plays.view()
    for a, b in zip(one.rows(), two.rows(), strict=True):
        np.testing.assert_array_equal(a, b)
    for (t, p), (s, q) in zip(one.periods, two.periods, strict=True):
        assert (t, p.n, p.first, p.last) == (s, q.n, q.first, q.last)
        np.testing.assert_array_equal(p.F, q.F)


@pytest.mark.usefixtures("short")
def test_a_long_history_takes_no_more_room():
    history, memory = History(), Memory(D)
    for _ in range(20):
        memory.plays.extend(history.task, history.X, history.y, history.baseline, NAN, history.number)
    view = memory.plays.view()
    assert len(memory.plays) == 20 * N
    assert len(view.rows()[0]) <= T * 60 + 64
    assert max(sum(t == s for s, _ in view.periods) for t in range(T)) <= 10  # 8,000 rows: 2⁹ periods of 20
    assert memory.snapshot().row_counts(T).sum() == 20 * N


@pytest.mark.usefixtures("short")
def test_a_snapshot_stays_as_it_was_while_files_are_folded():
    history = History()
    memory = history.memory(slice(0, 300))
    before = memory.snapshot()
    kept = [c.copy() for c in before.plays.rows()]
    memory.plays.extend(history.task, history.X, history.y, history.baseline, NAN, history.number)
    for a, b in zip(before.plays.rows(), kept, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("short")
def test_a_change_drops_the_periods_from_before_it():
    memory = History().memory()
    whole = memory.snapshot().row_counts(T)
    memory.forget(2, 1500)
    since = memory.snapshot().row_counts(T)
    true = int(((History().task == 2) & (History().number >= 1500)).sum())
    assert true - 200 < since[2] <= true
    assert np.delete(since, 2).tolist() == np.delete(whole, 2).tolist()
    rows, past = memory.snapshot().rows(), memory.snapshot().past()
    assert rows[-1][rows[0] == 2].min() >= 1500
    assert past.n[past.of == 2].sum() + (rows[0] == 2).sum() == since[2]
    memory.forget(EVERY_TASK, N + 1)
    assert memory.snapshot().row_counts(T).sum() == 0
    assert not believed(memory).known.any()


@pytest.mark.usefixtures("short", "level_noise")
def test_a_reward_taken_back_is_taken_out_of_its_period(monkeypatch):
    history = History()
    memory, lost = history.memory(), [10, 11, 700]
    for i in lost:
        history.retract(memory, i)
    with monkeypatch.context() as long:
        long.setattr(journal, "_LATEST", 10 * N)
        wanted = History().memory(np.setdiff1d(np.arange(N), lost))
    np.testing.assert_array_equal(memory.snapshot().row_counts(T), wanted.snapshot().row_counts(T))
    assert_near(believed(memory), believed(wanted), rtol=1e-6)
    moved = np.abs(believed(memory).theta - believed(history.memory()).theta).max()
    assert moved > 1e-5  # it does make a difference


@pytest.mark.usefixtures("short", "level_noise")
def test_a_wild_reward_is_tame_in_its_period_and_can_be_taken_back():
    history, plain = History(wild=(30, 1e150)), History()
    memory = history.memory()
    assert memory.snapshot().wild() == 1
    assert_near(believed(memory), believed(plain.memory()), rtol=0.2)
    history.retract(memory, 30)
    assert memory.snapshot().wild() == 0
    wanted = plain.memory()
    plain.retract(wanted, 30)
    assert_near(believed(memory), believed(wanted), rtol=1e-6)


@pytest.mark.usefixtures("short")
def test_a_retraction_that_cannot_be_placed_costs_its_periods_and_nothing_is_guessed():
    """Rewards came out of order, so that two periods may hold decision 50; one of them is from before."""
    memory, rng = Memory(1), np.random.default_rng(0)
    number = np.r_[np.arange(1, 33), 50, np.arange(33, 50), np.arange(51, 513)]
    X, y = rng.normal(size=(512, 1)), rng.normal(size=512)
    memory.plays.extend(
        np.zeros(512, dtype=int), X, y, np.ones(512, dtype=bool), np.full(512, np.nan), number
    )
    memory.forget(0, 30)
    before = memory.snapshot().row_counts(1)[0]
    overlapping = [p for _, p in memory.plays.view().periods if p.first <= 50 <= p.last]
    memory.retract(50, 0, X[32], float(y[32]), True)
    after = memory.snapshot().row_counts(1)[0]
    held = [p for p in overlapping if p.first >= 30]
    assert after == before - sum(p.n for p in held)


def test_rows_are_taken_out_of_moments():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4)) * np.array([1.0, 1e120, 1e-120, 1.0])
    left = without(reduced(rows), rows[:5])
    size = np.array([1.0, 1e120, 1e-120, 1.0])
    L, R = left / size, rows[5:] / size
    np.testing.assert_allclose(L.T @ L, R.T @ R, rtol=1e-12, atol=1e-12)
    # the only row that showed a direction: nothing is left of it
    alone = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    left = without(alone, alone[2:])
    np.testing.assert_allclose(left.T @ left, [[5.0, 0.0], [0.0, 0.0]], atol=1e-12)
    assert len(left) == 1


@pytest.mark.usefixtures("short")
def test_claims_of_played_baselines_stay_rows_to_be_judged_by():
    """Once tasks have left their baselines, the pairs that bore claims out are old; they still do."""
    history = History()
    history.baseline[:] = np.arange(N) < 600
    memory = history.memory(labels=True)
    kept = memory.snapshot().seen()
    assert (kept.is_baseline & np.isfinite(kept.claim)).sum() >= 400
    assert str(believed(memory).claims) == "borne out by rewards"


def test_tasks_that_cannot_be_fitted_are_not_folded(short):
    history = History()
    mine = np.flatnonzero(history.task == 1)
    history.y[mine[::15]] = 1e120
    memory = history.memory()
    assert all(t != 1 for t, _ in memory.plays.view().periods)
    assert believed(memory).known.tolist() == [True, False, True, True, True, True]
    assert tame(history.task[mine], history.y[mine]).left_out.all()


# --- a bandit -------------------------------------------------------------------------------------------


def play(world, bandit, n):
    """Rewards come late and in another order."""
    waiting, out = [], []
    for _ in range(n):
        request = world.request()
        d = bandit.decide(**request)
        waiting.append((d.id, world.earn(request, d.features)))
        out.append(d)
        if len(waiting) > 7:
            bandit.reward(*waiting.pop(int(world.rng.integers(8))))
    return out


@pytest.mark.usefixtures("short")
def test_a_store_opened_again_goes_on_bit_for_bit(tmp_path):
    world, bandit = World(tasks=3, dim=4), SafeBandit(seed=1, refits="inline", path=tmp_path / "a")
    first = play(world, bandit, 300)
    bandit.retract(first[20].id, "wrong")
    play(world, bandit, 150)
    assert len(bandit._engine.store.memory.plays.view().periods) >= 5
    bandit.save(tmp_path / "b")
    other, state = SafeBandit.load(tmp_path / "b"), world.rng.bit_generator.state
    assert bandit.status().tasks == other.status().tasks
    for here in (bandit, other):
        world.rng.bit_generator.state = state
        here.log = play(world, here, 200)
        here.retract(first[40].id, "wrong too")
        here.refit()
        here.log += play(world, here, 50)
    assert bandit.version == other.version > 3
    assert all(same(a, b) for a, b in zip(bandit.log, other.log, strict=True))
    assert bandit.audit().passed
    assert other.audit().passed


@pytest.mark.usefixtures("short")
def test_a_drift_after_long_traffic_is_learned_anew(tmp_path):
    world = World(tasks=3, dim=4)
    bandit = SafeBandit(seed=1, refits="inline", path=tmp_path / "a")
    world.play(bandit, 600)
    world.theta = world.theta.copy()
    world.theta[0] *= -1.0
    for _ in range(60):
        request = {**world.request(0), "baseline_reward": None}
        d = bandit.decide(**request)
        bandit.reward(d.id, world.earn(request, d.features))
    assert bandit.status().drifts >= 1
    assert bandit.status()["shop-0"].rows <= 60
    rows = [t.rows for t in bandit.status().tasks]
    bandit.close()
    with SafeBandit.load(tmp_path / "a") as again:
        assert [t.rows for t in again.status().tasks] == rows
        assert again.audit().passed
