"""Rows in few bytes: no variance that a decision asks for is below the exact one, nor far above it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.safety import _kernels, _matrix_kernels, stored
from banister.safety.believer import Believer
from banister.safety.compact import Compact
from banister.safety.constraint import Constraint
from banister.safety.opened import Open
from banister.safety.posterior import Shared
from banister.safety.reasons import DISAGREES
from banister.safety.stored import MOST, Stored, Storing, diagonal, exactly
from belief_world import belief

KINDS = [np.int8, np.int16]


class Task:
    """One task with rows, shared directions, open parts and left-overs of any size."""

    def __init__(self, seed, p=6, r=5, k=2, size=1.0, loud=1.0, open_=1.0, own=1.0):
        rng = np.random.default_rng(seed)
        self.R = size * rng.standard_normal((1, r, p)) * np.exp(rng.standard_normal((1, r, 1)))
        D = rng.random(p) + 0.1
        self.wide = Shared(np.zeros(p), loud * rng.standard_normal((p, k)), D)
        self.D = own * D[None] * (1 + rng.random(p))
        A = rng.standard_normal(((k + 1) * p, (k + 1) * p))
        self.open = Open.of_precision((A @ A.T + np.eye(len(A))) / open_, k + 1)
        self.c = np.column_stack([np.ones(1), rng.standard_normal((1, k))])
        self.left = rng.random(p) * D
        self.storing = Storing.of(self.wide, self.open, self.left)
        self.x = rng.standard_normal((40, p))

    def compact(self, kept=None):
        rows, more, tied = exactly(diagonal(self.R, self.D), self.wide.rank) if kept is None else kept
        return Compact(
            [rows], self.storing.dual, more, tied, self.wide.L, self.D, self.c, self.open,
            np.zeros(1, dtype=int),
        )  # fmt: skip

    def rounded(self, kind, turned=True):
        """Stored in this kind whatever it costs; `turned` to be diagonal, or as the rows are."""
        R = diagonal(self.R, self.D) if turned else self.R
        return self.compact(self.storing._kept(R, Stored.rounded(R, kind, self.wide.L), self.D, self.c))

    def variances(self, of):
        """What decisions take for the variance of each x, with what is not known of the left-over."""
        V, away = of.of(0)
        own = self.x @ away
        more = _kernels.UP * np.sqrt(((own * own * self.left) ** 2).sum(axis=1))
        return np.einsum("np,pq,nq->n", self.x, V, self.x) + more


tasks = st.builds(
    Task, st.integers(0, 10**6), p=st.integers(1, 8), r=st.integers(0, 8), k=st.integers(0, 3),
    size=st.floats(0.01, 30.0), loud=st.floats(0.1, 10.0), open_=st.floats(1e-3, 10.0),
    own=st.floats(0.3, 3.0),
)  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(tasks, st.sampled_from(KINDS), st.booleans())
def test_no_variance_is_below_the_exact_one(task, kind, turned):
    """Not even of rows that are far from diagonal: what that costs is counted."""
    exact, coarse = task.compact(), task.rounded(kind, turned)
    if not np.isfinite(coarse.more).all():
        return
    true, found = task.variances(exact), task.variances(coarse)
    assert (found >= true * (1 - 1e-12)).all()
    assert (found <= true * coarse.more / np.maximum(2 - coarse.more, 1e-9) * (1 + 1e-9)).all()
    V, wider = exact.of(0)[0], coarse.of(0)[0]
    assert np.linalg.eigvalsh(wider - V).min() >= -1e-12 * np.trace(wider)
    assert np.linalg.eigvalsh(V - (2 - coarse.more[0]) / coarse.more[0] * wider).min() >= -1e-12 * np.trace(V)


def test_the_bound_is_needed():
    """Rows that were merely rounded say less than the truth in some direction: the property can fail."""
    below = 0
    for seed in range(20):
        task = Task(seed, size=3.0)
        rows = task.rounded(np.int8)
        rows.more[:] = 1.0
        below += (task.variances(rows) < task.variances(task.compact())).any()
    assert below == 20


@settings(deadline=None, max_examples=50)
@given(tasks)
def test_products_with_coarse_rows_are_those_with_their_matrices(task):
    of = task.rounded(np.int16)
    if not np.isfinite(of.more).all():
        return
    (V, away), rows = of.of(0), _matrix_kernels.taken(of.coded(0), 0)
    for x in task.x[:3]:
        out, sketch = np.empty(len(x)), np.empty(len(x))
        assert _matrix_kernels.square(rows, x, out) == pytest.approx(x @ V @ x, rel=1e-9)
        np.testing.assert_allclose(out, away.T @ x, rtol=1e-8, atol=1e-9 * np.abs(x).max())
        least = _matrix_kernels.at_least(rows, x, out)
        assert least <= x @ V @ x
        assert _matrix_kernels.sketched(rows, x, sketch) == pytest.approx(least, abs=1e-9 * (x @ V @ x))
        y = task.x[3]
        both = least + 2 * y @ sketch + _matrix_kernels.at_least(rows, y, out)
        assert both <= (x + y) @ V @ (x + y) * (1 + 1e-9)
        _matrix_kernels.times(rows, x, out)
        np.testing.assert_allclose(out, V @ x, rtol=1e-8, atol=1e-9 * np.abs(V).max() * np.abs(x).max())


def test_a_cheap_bound_is_tight_where_only_the_left_over_is_open():
    task = Task(1, k=0, open_=1e-12)
    of = _matrix_kernels.taken(task.compact().coded(0), 0)
    for x in task.x:
        found = _matrix_kernels.square(of, x, np.empty(6))
        assert _matrix_kernels.at_least(of, x, np.empty(6)) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_coarse_rows_hide_no_contradiction(seed):
    """A claimed reward just far enough off for exact rows to refuse it is refused by coarse ones too."""
    task = Task(seed, size=2.0)
    exact, coarse = task.compact(), task.rounded(np.int8)
    assert coarse.more[0] > 1.01
    x = task.x[0]
    plain = belief(np.zeros((1, 6)), exact.of(0)[0][None], left=task.left, labelled=np.ones(1, dtype=bool))
    spread = task.variances(exact)[0] + plain.label_error**2
    r = np.array([(1 + 1e-9) * plain.z[0] * np.sqrt(spread)])
    for of in (exact, coarse):
        learner = Learner(Constraint(0.1), Believer(), Memory(6))
        learner.use(replace(plain, V=of.covariances, away=of.away))
        actions = np.stack([x, 2 * x])[None]
        verdict = learner.decide(
            np.zeros(1, dtype=int), actions, np.zeros(1, dtype=int), x[None], r, r, 0 * r
        )
        assert verdict.code[0] == DISAGREES


def test_as_few_bytes_as_will_do():
    quiet, clear, exact = (Task(0, size=size, loud=1.0, open_=0.1) for size in (0.1, 10.0, 1e6))
    found = [t.storing.store(t.R, t.D, t.c) for t in (quiet, clear, exact)]
    assert [kept.rows.codes.dtype for kept in found] == [np.int8, np.int16, np.float64]
    assert all(1.0 <= kept.more[0] <= stored._USUALLY for kept in found)
    assert found[2][1][0] == 1.0
    rows = found[2][0].one(0, exact.storing.dual)
    np.testing.assert_allclose(rows.T @ rows, exact.R[0].T @ exact.R[0], rtol=1e-9)


def test_a_block_stays_coarse_for_one_task_a_little_off_and_not_for_one_far_off():
    task = Task(0, size=0.1, open_=0.1)
    R, D, c = (np.repeat(a, 3, axis=0) for a in (task.R, task.D, task.c))
    for times, kind in ((4.0, np.int8), (60.0, np.int16)):
        louder = R * np.array([1.0, 1.0, times])[:, None, None]
        rows, more, _ = task.storing.store(louder, D, c)
        assert rows.codes.dtype == kind
        assert more.max() <= MOST


def test_products_with_shared_directions_are_as_good_as_exact():
    task = Task(3)
    rows = Stored.rounded(task.R, np.int8, task.wide.L).one(0, task.storing.dual)
    assert np.abs(rows - task.R[0]).max() > 1e-4
    np.testing.assert_allclose(rows @ task.wide.L, task.R[0] @ task.wide.L, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("r", [0, 1, 5, 9])
def test_turned_rows_say_the_same_and_are_diagonal(r):
    task = Task(2, r=r, size=100.0)
    R = diagonal(task.R, task.D)
    assert R.shape == (1, min(r, 6), 6)
    scale = max(float((task.R**2).sum()), 1.0)
    np.testing.assert_allclose(R[0].T @ R[0], task.R[0].T @ task.R[0], rtol=1e-9, atol=1e-12 * scale)
    tau, tied = stored._off_diagonal(R, task.D)
    assert tau[0] <= 1e-10
    assert tied[0] <= 2 * stored._ROUNDING


def test_what_is_off_the_diagonal_is_counted():
    """Rows as they come make the same estimate wider, and are known to."""
    wider = 0
    for seed in range(20):
        task = Task(seed, size=0.3)
        rows = task.rounded(np.int16, turned=False)
        assert rows.more[0] > task.rounded(np.int16).more[0]
        rows.more[:] = 1.0
        wider += (task.variances(rows) > 1.001 * task.variances(task.compact())).any()
    assert wider > 15


def test_rows_of_zeros_and_without_numbers():
    task = Task(0)
    rows = Stored.rounded(np.zeros((2, 3, 6)), np.int8, task.wide.L)
    np.testing.assert_array_equal(rows.rows(task.storing.dual), np.zeros((2, 3, 6)))
    assert len(Stored.rounded(np.zeros((2, 0, 6)), np.int8, task.wide.L).one(0, task.storing.dual)) == 0


def test_what_is_open_is_measured_in_units_of_the_prior():
    task = Task(5)
    S = np.kron(np.eye(3), np.diag(task.wide.D) + task.wide.L @ task.wide.L.T)
    inverse = task.open.blocks.transpose(0, 2, 1, 3).reshape(18, 18)
    omega = task.storing.omega
    assert np.linalg.eigvalsh(omega * S - inverse).min() == pytest.approx(0.0, abs=1e-12 * np.trace(S))


def test_norms_are_bounds():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((20, 5, 9)) * np.exp(5 * rng.standard_normal((20, 1, 1)))
    exact = np.linalg.norm(F, 2, axis=(1, 2))
    found = stored._norms(F)
    assert (found >= exact * (1 - 1e-12)).all()
    assert (found <= exact * 5 ** (1 / 16) * (1 + 1e-12)).all()
    np.testing.assert_array_equal(stored._norms(np.zeros((2, 3, 4))), 0.0)
