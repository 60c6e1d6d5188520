"""Covariances kept as rows are those of the dense belief, or hardly wider, wherever they are asked for."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from banister.errors import ModelFileError
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.online.bandit import SafeBandit
from banister.online.model import Marks, Model
from banister.online.model_file import pack, unpack
from banister.safety import _matrix_kernels, _small_kernels, compact, gathering, posterior
from banister.safety import believer as module
from banister.safety.believer import Believer
from banister.safety.compact import PerTask
from banister.safety.constraint import Constraint
from banister.safety.loudness import Loudness
from banister.safety.opened import Open
from banister.safety.stored import diagonal, exactly
from banister.safety.watch import Watch
from belief_world import World

T = 14  # the last two have no rows
LOUD = np.array([1.0, 9.0, 2.0, 1.0, 1.0])


@pytest.fixture(autouse=True)
def even(monkeypatch):
    """Noise is even along features: where it is not, rows take the largest of all for every one."""
    monkeypatch.setattr(module, "loudness", lambda *_: None)


def test_rows_under_loud_features_are_as_noisy_as_the_loudest(monkeypatch):
    seen = World(T=12, d=4, noise=0.05).seen(25, claims=False)
    monkeypatch.setattr(module, "DENSE", 0)
    even = Believer().believe(seen, T, 500)
    monkeypatch.setattr(module, "loudness", lambda *_: Loudness(LOUD, np.tile(LOUD, (12, 1))))
    loud = Believer().believe(seen, T, 500)
    for t in range(12):
        for step in np.random.default_rng(t).standard_normal((20, 4)):
            assert loud.contrast(t, step, 1.0)[1] > 2 * even.contrast(t, step, 1.0)[1]
    again = model_of(loud)[1]
    np.testing.assert_array_equal(again.loud, loud.loud)
    np.testing.assert_array_equal(again.V[3], loud.V[3])


@pytest.fixture
def both(monkeypatch):
    """A world, a belief of it held densely, and the same held as rows in blocks of five tasks."""
    world = World(T=12, d=4, noise=0.05)
    seen = world.seen(25)
    dense = Believer().believe(seen, T, 500)
    monkeypatch.setattr(module, "DENSE", 0)
    monkeypatch.setattr(gathering, "chunks", lambda n, entries: posterior.chunks(n, 2**18 // 5))
    rows = Believer().believe(seen, T, 500)
    assert isinstance(rows.V, PerTask)
    assert not isinstance(dense.V, PerTask)
    assert {block.codes.dtype for block in rows.V.source.blocks} == {np.dtype(float)}
    return world, dense, rows


@pytest.fixture
def coarse(monkeypatch):
    """The same of noisier rewards without claims, whose rows are stored in one byte and in two."""
    world = World(T=12, d=4, noise=1.2)
    seen = world.seen(25, claims=False)
    dense = Believer().believe(seen, T, 500)
    monkeypatch.setattr(module, "DENSE", 0)
    monkeypatch.setattr(gathering, "chunks", lambda n, entries: posterior.chunks(n, 2**18 // 5))
    rows = Believer().believe(seen, T, 500)
    assert {block.codes.dtype for block in rows.V.source.blocks} == {np.dtype(np.int8), np.dtype(np.int16)}
    return world, dense, rows


def test_coarse_rows_give_standard_errors_a_little_above_the_exact_ones(coarse):
    _, dense, rows = coarse
    ratios = []
    for t in range(12):
        for step in np.random.default_rng(t).standard_normal((20, 4)):
            for weight in (0.0, 1.0):
                (estimate, error), (other, wider) = (b.contrast(t, step, weight) for b in (dense, rows))
                assert estimate == other
                ratios.append(wider / error)
    assert min(ratios) >= 1.0
    assert 1.0 < np.median(ratios) <= 1.03


def test_coarse_rows_certify_nothing_that_exact_ones_refuse(coarse):
    world, dense, rows = coarse
    task, actions, index, _ = world.ask(600)
    where, unknown = np.arange(600), np.full(600, np.nan)
    chosen = []
    for b in (dense, rows):
        learner = Learner(Constraint(0.5), Believer(), Memory(4))
        learner.use(b)
        verdicts = learner.decide(
            task, actions, index, actions[where, index], unknown, unknown, np.zeros(600)
        )
        chosen.append(verdicts.chosen)
    left = chosen[1] >= 0
    assert left.any()
    assert (chosen[0][left] >= 0).all()


def test_every_matrix_is_the_dense_one(both):
    _, dense, rows = both
    assert len(rows.V) == len(dense.V) == T
    for t in range(T):
        np.testing.assert_allclose(rows.V[t], dense.V[t], rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(rows.away[t], dense.away[t], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows.mean, dense.mean, rtol=1e-10)
    np.testing.assert_allclose(rows.usual, dense.usual, rtol=1e-7, atol=1e-9)
    step = np.arange(4.0)
    np.testing.assert_allclose(rows.contrast(3, step), dense.contrast(3, step), rtol=1e-9)


def test_products_with_rows_are_those_with_the_dense_matrices(both):
    _, dense, rows = both
    rng = np.random.default_rng(0)
    for t in range(T):
        V, away = rows.V[t], rows.away[t]
        for of in (_matrix_kernels.taken(b.matrices(t), t) for b in (rows, dense)):
            x, out = rng.standard_normal(len(V)), np.empty(len(V))
            _matrix_kernels.times(of, x, out)
            np.testing.assert_allclose(out, V @ x, rtol=1e-9, atol=1e-9 * np.abs(V).max())
            assert _matrix_kernels.square(of, x, out) == pytest.approx(x @ V @ x, rel=1e-9)
            _matrix_kernels.completed(of, x, out)
            np.testing.assert_allclose(out, away.T @ x, rtol=1e-9, atol=1e-9)
            out[:] = np.nan
            _matrix_kernels.turned(of, x, out)
            np.testing.assert_allclose(out, away.T @ x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [0, 2])
def test_products_where_much_is_open(k):
    rng = np.random.default_rng(k)
    p, q = 5, k + 1
    A = rng.standard_normal((q * p, q * p))
    opened = Open.of_precision(A @ A.T + np.eye(q * p), q)
    D = rng.random((1, p)) + 0.1
    rows, more, tied = exactly(diagonal(rng.standard_normal((1, 3, p)), D), k)
    of = compact.Compact(
        [rows], np.zeros((k, p)), more, tied, rng.standard_normal((p, k)), D,
        np.column_stack([np.ones(1), rng.standard_normal((1, k))]), opened, np.zeros(1, dtype=int),
    )  # fmt: skip
    (V, away), rows = of.of(0), _matrix_kernels.taken(of.coded(0), 0)
    x, out = rng.standard_normal(p), np.empty(p)
    assert _matrix_kernels.square(rows, x, out) == pytest.approx(x @ V @ x, rel=1e-12)
    np.testing.assert_allclose(out, away.T @ x, rtol=1e-11)
    _matrix_kernels.times(rows, x, out)
    np.testing.assert_allclose(out, V @ x, rtol=1e-11)


def test_only_the_last_few_are_kept(both, monkeypatch):
    _, _, rows = both
    monkeypatch.setattr(compact, "_LAST", 3)
    kept = rows.V.source._made
    kept.clear()
    first = rows.V[0]
    assert rows.V[0] is first
    assert rows.away[0] is kept[0][1]
    for t in range(5):
        rows.V[t]
    assert len(kept) <= 3


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("claims", ["numbers", "unsure", "bounds", "none"])
def test_decisions_are_the_same(both, claims, literal):
    world, dense, rows = both
    task, actions, index, expected = world.ask(40)
    where = np.arange(40)
    r = np.full(40, np.nan) if claims == "none" else expected[where, index]
    r[20:23] += 5.0  # contradicts the belief: shuts the gate for the requests after it
    low, std = r - (claims == "bounds"), np.full(40, 0.05 * (claims == "unsure"))
    verdicts = []
    for b in (dense, rows):
        learner = Learner(Constraint(0.1, literal), Believer(), Memory(4))
        learner.use(b)
        many = learner.decide(task, actions, index, actions[where, index], low, r, std)
        one = [
            learner.decide_one(int(task[i]), actions[i], int(index[i]), low[i], r[i], std[i])
            for i in range(10)
        ]
        verdicts.append((many, one, learner.gates.codes.copy()))
    (a, one, gates), (b, other, codes) = verdicts
    assert (a.chosen >= 0).any()
    for name in ("chosen", "code"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_allclose(a.bound, b.bound, rtol=1e-9)
    np.testing.assert_allclose(a.floor, b.floor, rtol=1e-12)
    np.testing.assert_array_equal(gates, codes)
    for x, y in zip(one, other, strict=True):
        assert x[0] == y[0]
        assert x[3] == y[3]


def test_a_watch_sees_the_same(both):
    world, dense, rows = both
    task, actions, index, _ = world.ask(30)
    watches = [Watch(dense), Watch(rows)]
    for i in range(30):
        for watch in watches:
            watch.see(int(task[i]), actions[i, index[i]], 9.0, i)
    np.testing.assert_allclose(watches[0]._rows, watches[1]._rows, rtol=1e-6)


def model_of(b):
    settings = SafeBandit(alpha=0.1, seed=0).settings
    data = Model(3, b, Marks(5, 4, 0)).to_bytes(settings, [str(t) for t in range(T)])
    return data, Model.from_bytes(data, "x")[0].belief


@pytest.mark.parametrize(("without", "fits"), [(0, True), (1, True), (2, False)])
def test_a_model_may_say_nothing_of_the_intercept_s_noise(without, fits):
    found = Believer().believe(World(T=12, d=4, noise=0.05).seen(25, claims=False), T, 500)
    written = replace(found, loud=LOUD[: len(LOUD) - without])
    with nullcontext() if fits else pytest.raises(ModelFileError, match="loud"):
        np.testing.assert_array_equal(model_of(written)[1].loud, written.loud)


@pytest.mark.parametrize("kind", ["both", "coarse"])
def test_a_model_comes_back_from_its_bytes(kind, request):
    _, _, rows = request.getfixturevalue(kind)
    data, again = model_of(rows)
    for t in range(T):
        np.testing.assert_array_equal(again.V[t], rows.V[t])
        np.testing.assert_array_equal(again.away[t], rows.away[t])
    assert model_of(again)[0] == data


def test_a_model_without_shared_directions_comes_back(monkeypatch):
    monkeypatch.setattr(module, "DENSE", 0)
    world = World(T=12, d=4, noise=1.0)
    world.theta[:] = 0.0
    rows = Believer().believe(world.seen(25, claims=False), T, 500)
    assert rows.V.source.L.shape[1] == 0
    np.testing.assert_array_equal(model_of(rows)[1].V[3], rows.V[3])


def test_a_model_of_whole_rows_as_they_were_written_once_is_read(both):
    _, _, rows = both
    meta, arrays = unpack(model_of(rows)[0], "x")
    for name in ("rows_1", "rows_2", "step", "fix", "dual", "more", "tied"):
        del arrays[name]
    arrays["rows_of"] = arrays["rows_of"][:, :2]
    again = Model.from_bytes(pack(meta, arrays), "x")[0].belief
    for t in range(T):
        np.testing.assert_allclose(again.V[t], rows.V[t], rtol=1e-9, atol=1e-15)


def test_a_model_of_rows_that_were_not_turned_is_read(both):
    """As they were written once: turned when they are read."""
    _, _, rows = both
    meta, arrays = unpack(model_of(rows)[0], "x")
    del arrays["tied"]
    n, r = rows.V.source.blocks[0].codes.shape[:2]
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((n, r, r)))[0]
    first = turn @ arrays["rows"][: n * r].reshape(n, r, -1)
    arrays["rows"] = np.concatenate([first.reshape(n * r, -1), arrays["rows"][n * r :]])
    again = Model.from_bytes(pack(meta, arrays), "x")[0].belief
    for t in range(T):
        np.testing.assert_allclose(again.V[t], rows.V[t], rtol=1e-9, atol=1e-15)


def test_a_model_of_coarse_rows_that_were_not_turned_is_read(coarse):
    _, _, rows = coarse
    meta, arrays = unpack(model_of(rows)[0], "x")
    del arrays["tied"]
    again = Model.from_bytes(pack(meta, arrays), "x")[0].belief
    np.testing.assert_array_equal(again.V.source.more, rows.V.source.more)
    for t in range(12):
        np.testing.assert_allclose(again.V[t], rows.V[t], rtol=0.01, atol=0.01 * np.abs(rows.V[t]).max())


FAULTS = [
    ("rows_1", lambda a: a[1:], "'rows_1' has shape"),
    ("rows_2", lambda a: a.astype(float), "'rows_2' holds"),
    ("rows_of", lambda a: a + np.array([0, 0, 1]), "rows_of"),
    ("step", lambda a: a[1:], "'step' has shape"),
    ("step", lambda a: a * np.nan, "NaN"),
    ("fix", lambda a: a[:, 1:], "'fix' has shape"),
    ("dual", lambda a: a[1:], "'dual' has shape"),
    ("more", lambda a: a[1:], "'more' has shape"),
    ("tied", lambda a: a[1:], "'tied' has shape"),
    ("tied", lambda a: a + 1.0, "'tied' holds"),
    ("more", lambda a: a - 0.5, "'more' holds"),
    ("more", lambda a: a + 0.5, "'more' holds"),
    ("rows", lambda a: np.ones((1, 5)), "'rows' has shape"),
    ("rows_of", lambda a: a.astype(float), "rows_of"),
    ("rows_of", lambda a: a[0], "rows_of"),
    ("rows_of", lambda a: a[:0], "rows_of"),
    ("rows_of", lambda a: a[::-1], "rows_of"),  # the short block must be the last
    ("rows_of", lambda a: -a, "rows_of"),
    ("rows_of", lambda a: a + np.eye(3, dtype=int) * [1, 0, 0], "rows_of"),
    ("D", lambda a: a[1:], "'D' has shape"),
    ("c", lambda a: a[1:], "'c' has shape"),
    ("open", lambda a: a[1:], "'open' has shape"),
    ("L", lambda a: a[:, 1:], "'L' has shape"),
]


@pytest.mark.parametrize(("name", "change", "says"), FAULTS)
def test_altered_models(coarse, name, change, says):
    data, _ = model_of(coarse[2])
    meta, arrays = unpack(data, "x")
    with pytest.raises(ModelFileError, match=says):
        Model.from_bytes(pack(meta, {**arrays, name: change(arrays[name])}), "x")


def test_products_with_dense_matrices_are_those_of_numpy():
    rng = np.random.default_rng(0)
    for p in (1, 4, 7, 9):
        root = rng.normal(size=(3, p, p))
        A, X, of = root @ np.swapaxes(root, 1, 2), rng.normal(size=(5, p)), rng.integers(3, size=5)
        found = np.empty(5)
        _small_kernels.quadratics(A, of, X, found)
        np.testing.assert_allclose(found, np.einsum("ni,nij,nj->n", X, A[of], X), rtol=1e-10)
        product, turned = np.empty(p), np.ones(p)
        _small_kernels.product(root[0], X[0], product)
        _small_kernels.add_transposed(root[0], X[0], turned)
        np.testing.assert_allclose(product, root[0] @ X[0], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(turned, 1.0 + root[0].T @ X[0], rtol=1e-10, atol=1e-12)
