"""Every formula of the posterior against a dense twin: `θ ~ N(μ, Σ)`, `y = Rθ + ε`, one task at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.safety._posterior_kernels import inverse_roots, less, packed_less, place_blocks, whole_blocks
from banister.safety.factors import Factors, Information
from banister.safety.opened import Open
from banister.safety.posterior import Posterior, Shared, chunks, symmetric
from banister.safety.rows import Rows


def case(T, r, p, k, seed, *, own=False):
    """Rows of T tasks with duplicates and zeros among them, and what they share."""
    rng = np.random.default_rng(seed)
    R, y = 2 * rng.normal(size=(T, r, p)), rng.normal(size=(T, r))
    if r > 1:
        R[0, 1], R[-1, 0] = R[0, 0], 0.0
    D = rng.uniform(0.01, 2.0, size=(T, p) if own else p)
    shared = Shared(rng.normal(size=p), rng.normal(size=(p, k)), D)
    A = rng.normal(size=(T, p, p))
    return Information(R, y, r // 2), shared, 0.02 * A @ np.swapaxes(A, 1, 2)


def dense(info, shared, opened, t):
    """All of it from Σ and S = I + RΣR', by textbook formulas."""
    R, y, L, mu = info.R[t], info.y[t], shared.L, shared.mu
    D = np.diag(shared.D if shared.D.ndim == 1 else shared.D[t])
    sigma, eye = D + L @ L.T, np.eye(len(mu))
    S, Su = np.eye(len(y)) + R @ sigma @ R.T, np.eye(len(y)) + R @ D @ R.T
    inverse = np.linalg.inv(S)
    K, e = R.T @ inverse @ R, inverse @ (y - R @ mu)
    H = R.T @ np.linalg.inv(Su) @ R
    V = np.linalg.inv(np.linalg.inv(sigma) + R.T @ R)
    mean = V @ (np.linalg.inv(sigma) @ mu + R.T @ y)
    away = eye - sigma @ K
    plays = slice(0, info.plays)
    leverage = np.diag(R @ sigma @ R.T @ inverse)
    own, total = leverage[plays].sum(), leverage.sum()
    learned = np.trace(opened[t] @ (K - K @ sigma @ K))
    return {
        "GG": np.linalg.inv(Su), "GPG": inverse, "H": H, "K": K, "b": R.T @ np.linalg.inv(Su) @ y,
        "M": np.eye(L.shape[1]) - L.T @ K @ L, "w": L.T @ R.T @ e, "left": e, "Q": R.T @ e,
        "centre": mu + L @ L.T @ R.T @ e, "mean": mean, "away": away,
        "V": V + away @ opened[t] @ away.T, "residual": y - R @ mean,
        "expected": np.maximum(np.diag(K - K @ opened[t] @ K), 0.0),
        "spent": own * (1 + (learned / total if total > 0 else 0.0)),
        "labels_spent": (total - own) * (1 + (learned / total if total > 0 else 0.0)),
        "label_squares": 3.0 * (e[info.plays :] ** 2).sum(),
        "squares": 3.0 * (e[plays] ** 2).sum(),
    }  # fmt: skip


def close(found, wanted):
    np.testing.assert_allclose(
        found, wanted, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(wanted).max(initial=0))
    )


SHAPES = st.tuples(
    st.integers(1, 4), st.integers(0, 6), st.integers(1, 5), st.integers(0, 3), st.integers(0, 999)
)


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.booleans())
def test_every_formula_has_a_dense_twin(shape, own):
    info, shared, opened = case(*shape, own=own)
    post = Posterior(info, shared)
    learned = post.learned(opened)
    V, away = post.covariance(opened)
    noise = np.full(len(info.y), 3.0)
    found = {
        **{name: getattr(post, name) for name in ("H", "K", "b", "M", "w", "left", "Q")},
        "GG": np.swapaxes(post.G, 1, 2) @ post.G, "GPG": np.swapaxes(post.G, 1, 2) @ post.PG,
        "centre": post.centre, "mean": post.mean, "away": away, "V": V, "residual": post.left,
        "expected": post.scores_expected(learned), "spent": post.spent(learned)[0],
        "labels_spent": post.spent(learned)[1],
        "label_squares": post.label_squares(noise),
        "squares": post.play_squares(noise),
    }  # fmt: skip
    for t in range(len(info.y)):
        for name, wanted in dense(info, shared, opened, t).items():
            close(found[name][t], wanted)
    kept = np.arange(len(info.y)) % 2 == 0
    K = post.K[kept]
    close(post.scores_covariance(learned, kept), (K - K @ opened[kept] @ K).sum(axis=0))
    found_squares, D = np.zeros(K.shape[1:]), np.atleast_2d(shared.D) * np.ones((len(info.y), 1))
    post.information(kept, found_squares)
    close(np.triu(found_squares), np.triu((K**2).sum(axis=0)))
    close(post.squares(D), np.einsum("tij,tij,ti,tj->t", post.K, post.K, D, D))
    close(post.packed, post.H[:, *np.triu_indices(post.H.shape[1])])
    np.testing.assert_array_equal(post.c[:, 0], 1.0)
    np.testing.assert_array_equal(post.c[:, 1:], post.w)


@settings(deadline=None, max_examples=40)
@given(SHAPES)
def test_precision_with_free_coefficients_is_the_schur_complement(shape):
    T, _, p, k, seed = shape
    info, shared, _ = case(T, p + 2, p, min(k, p), seed)
    post = Posterior(info, shared)
    F = post.H - post.free @ np.swapaxes(post.free, 1, 2)
    for t in range(T):
        H = Posterior(info, shared).H[t]
        HL = H @ shared.L
        size = np.trace(shared.L.T @ HL) / max(shared.rank, 1)
        kept = 1e-9 * size + 1e-9
        free = np.linalg.inv(shared.L.T @ HL + kept * np.eye(shared.rank))
        weakest = np.linalg.eigvalsh(shared.L.T @ HL).min(initial=np.inf)
        # an inverse is exact to rounding times its condition; either of the two may lose that much
        lost = 1e-14 * max(1.0, size / max(weakest, kept)) * np.abs(H).max(initial=0.0)
        np.testing.assert_allclose(F[t], H - HL @ free @ HL.T, rtol=1e-10, atol=1e-11 + lost)
        # coefficients left free tell nothing along the directions themselves, but for what keeps them defined
        share = shared.rank * kept / max(weakest, kept)
        assert np.abs(F[t] @ shared.L).max(initial=0) <= (share + 1e-8) * np.abs(HL).max(initial=0) + 1e-12


def test_shrunk_coefficients_would_pass_for_information():
    info, shared, _ = case(1, 6, 4, 2, 0)
    weak = Shared(shared.mu, 1e-3 * shared.L, shared.D)
    post = Posterior(info, weak)
    direction = shared.L[:, 0]
    assert direction @ post.K[0] @ direction > 0.9 * direction @ post.H[0] @ direction
    free = direction @ (post.H[0] - post.free[0] @ post.free[0].T) @ direction
    assert free < 1e-3 * direction @ post.H[0] @ direction


def test_a_task_without_rows_is_what_is_shared():
    shared = Shared(np.array([1.0, -2.0]), np.array([[1.0], [0.5]]), np.array([0.1, 0.2]))
    for r in (0, 3):
        post = Posterior(Information(np.zeros((1, r, 2)), np.zeros((1, r)), r), shared)
        V, away = post.covariance(0.5 * np.eye(2)[None])
        np.testing.assert_array_equal(post.mean[0], shared.mu)
        np.testing.assert_allclose(V[0], np.diag(shared.D) + shared.L @ shared.L.T + 0.5 * np.eye(2))
        np.testing.assert_array_equal(away[0], np.eye(2))
        assert post.spent(np.zeros((1, r, r)))[0].tolist() == [0.0]


def test_rows_of_zeros_change_nothing():
    info, shared, opened = case(2, 3, 4, 2, 5)
    padded = Information(
        np.concatenate([info.R, np.zeros((2, 2, 4))], axis=1),
        np.concatenate([info.y, np.zeros((2, 2))], axis=1),
        1,
    )
    plain, more = Posterior(info, shared), Posterior(padded, shared)
    np.testing.assert_allclose(more.mean, plain.mean, rtol=1e-12)
    np.testing.assert_allclose(
        more.covariance(opened)[0], plain.covariance(opened)[0], rtol=1e-12, atol=1e-15
    )


def test_hand_case_of_one_number():
    # θ ~ N(1, 2 + 2), one row 1·θ + ε = 5 in units of its noise: mean 1 + 4/5·4, variance 4/5.
    info = Information(np.ones((1, 1, 1)), np.full((1, 1), 5.0), 1)
    post = Posterior(info, Shared(np.ones(1), np.array([[np.sqrt(2.0)]]), np.array([2.0])))
    V, away = post.covariance(np.full((1, 1, 1), 10.0))
    assert post.mean[0, 0] == pytest.approx(1 + 4 / 5 * 4)
    assert away[0, 0, 0] == pytest.approx(1 / 5)
    assert V[0, 0, 0] == pytest.approx(4 / 5 + 10 / 25)
    assert post.w[0, 0] == pytest.approx(np.sqrt(2) * 4 / 5)
    assert post.spent(post.learned(np.zeros((1, 1, 1))))[0][0] == pytest.approx(4 / 5)


def test_tiny_noise_leaves_a_covariance_that_is_positive():
    rng = np.random.default_rng(3)
    info = Information(1e9 * rng.normal(size=(1, 6, 4)), 1e9 * rng.normal(size=(1, 6)), 6)
    V, _ = Posterior(info, Shared(np.zeros(4), rng.normal(size=(4, 2)), np.ones(4))).covariance(
        np.zeros((1, 4, 4))
    )
    values = np.linalg.eigvalsh(V[0])
    assert values.min() > -np.finfo(float).eps * values.max()  # no eigenvalue is known better than that
    few = Information(info.R[:, :2], info.y[:, :2], 2)
    V, _ = Posterior(few, Shared(np.zeros(4), np.zeros((4, 0)), np.ones(4))).covariance(np.zeros((1, 4, 4)))
    np.testing.assert_allclose(
        np.linalg.eigvalsh(V[0])[2:], 1.0, rtol=1e-9
    )  # what no row saw stays as it was


@settings(deadline=None, max_examples=40)
@given(SHAPES)
def test_what_is_open_for_coefficients_is_summed_task_by_task(shape):
    info, shared, _ = case(*shape)
    rng = np.random.default_rng(shape[-1])
    post, p = Posterior(info, shared), len(shared.mu)
    A = rng.normal(size=(shared.rank + 1, p, shared.rank + 1, p))
    opened = Open((A + A.transpose(2, 3, 0, 1)).transpose(0, 2, 1, 3))
    close(post.learned_by(opened.products(post.c), opened.sums), post.learned(opened.of(post.c)))


def apart(plays, noise, labels, claimed):
    """Plays and labels as rows of their own, in units of their noise."""
    kinds = (plays, noise), (labels, claimed)
    R = [f.R / np.sqrt(variance)[:, None, None] for f, variance in kinds]
    y = [f.z / np.sqrt(variance)[:, None] for f, variance in kinds]
    return Information(np.concatenate(R, axis=1), np.concatenate(y, axis=1), plays.R.shape[1])


@settings(deadline=None, max_examples=60)
@given(SHAPES, st.integers(0, 3), st.integers(-2, 2))
def test_a_play_and_its_label_may_be_one_row(shape, others, more):
    """Of any labels, the first `others` of a task being of other features, and `more` labels than plays."""
    T, r, p, k, seed = shape
    info, shared, opened = case(T, r, p, k, seed)
    rng = np.random.default_rng(seed)
    m, n, nothing = max(r + more, 1), np.full(T, float(r)), np.zeros(T)
    labelled = rng.normal(size=(T, m, p))
    labelled[:, : min(r, m)] = info.R[:, : min(r, m)]
    labelled[0, :others] += 1.0
    plays = Factors(info.R, rng.normal(size=(T, r)), nothing, nothing, n)
    labels = Factors(labelled, rng.normal(size=(T, m)), nothing, nothing, n)
    noise, claimed = rng.uniform(0.1, 2.0, T), rng.uniform(0.001, 0.1, T)
    one = Rows(plays, labels, claimed, n).information(noise, 0.0)
    both, found = Posterior(apart(plays, noise, labels, claimed), shared), Posterior(one, shared)
    for name in ("mean", "Q", "K", "H", "w"):
        close(getattr(found, name), getattr(both, name))
    close(found.play_squares(noise), both.play_squares(noise))
    close(found.label_squares(claimed), both.label_squares(claimed))
    for spent, wanted in zip(
        found.spent(found.learned(opened)), both.spent(both.learned(opened)), strict=True
    ):
        close(spent, wanted)
    first = Posterior(one.of_tasks(slice(0, 1)), shared)
    close(first.play_squares(noise[:1]), both.play_squares(noise)[:1])


def rows_of(played, labelled):
    """How many rows those of one task (r, 1) are together."""
    plays, labels = (
        Factors(
            np.reshape(x, (1, -1, 1)),
            np.ones((1, len(x))),
            np.zeros(1),
            np.zeros(1),
            np.full(1, float(len(x))),
        )
        for x in (played, labelled)
    )
    return Rows(plays, labels, np.ones(1), plays.n).information(np.ones(1), 0.0).R.shape[1]


def test_only_labels_of_other_features_are_rows_of_their_own():
    assert rows_of([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 3
    assert rows_of([1.0, 2.0, 3.0], [1.0, 5.0, 3.0]) == 4
    assert rows_of([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == 6
    assert rows_of([1.0, 2.0], [1.0, 2.0, 3.0]) == 3
    assert rows_of([1.0, 2.0], []) == 2


def test_inverse_roots():
    # I + A = [[4, 2], [2, 5]] = F F' with F = [[2, 0], [1, 2]], whose inverse is [[1/2, 0], [−1/4, 1/2]]
    np.testing.assert_allclose(
        inverse_roots(np.array([[[3.0, 2.0], [2.0, 4.0]]])), [[[0.5, 0], [-0.25, 0.5]]]
    )
    assert inverse_roots(np.zeros((2, 0, 0))).shape == (2, 0, 0)
    assert np.isnan(inverse_roots(np.full((1, 1, 1), np.nan))).all()


@pytest.mark.parametrize("k", [1, 2, 4])
def test_less_is_a_difference_of_products(k):
    rng = np.random.default_rng(k)
    A, left, right = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4, k)), rng.normal(size=(3, k, 5))
    before = A.copy()
    close(less(A, left, right), A - left @ right)
    turned = np.ascontiguousarray(np.swapaxes(left, 1, 2))
    close(less(A, np.swapaxes(turned, 1, 2), right), A - left @ right)  # whatever its memory looks like
    np.testing.assert_array_equal(A, before)


def test_a_pivot_that_rounding_takes_below_one_is_one():
    # Two rows that are one: 1 + 1e18 − 1e36 / (1 + 1e18) is 2 in truth and 0 in double precision.
    root = inverse_roots(np.full((1, 2, 2), 1e18))[0]
    assert np.isfinite(root).all()
    assert root[1, 1] == 1.0


def test_what_rows_and_left_over_make_is_kept_for_another_mean():
    info, shared, _ = case(3, 4, 3, 1, 2)
    first = Posterior(info, shared)
    _ = first.G, first.W, first.v, first.H, first.b, first.w, first.K
    other = Shared(shared.mu + 1, 2 * shared.L, shared.D)
    again, fresh = first.given(other), Posterior(info, other)
    assert again.G is first.G
    for name in ("H", "b", "w", "K", "Q", "mean", "M"):
        np.testing.assert_allclose(getattr(again, name), getattr(fresh, name), rtol=1e-12)


def test_symmetric_and_chunks():
    A = np.array([[[1.0, 2.0], [4.0, 3.0]]])
    np.testing.assert_array_equal(symmetric(A), [[[1.0, 3.0], [3.0, 3.0]]])
    assert chunks(5, 2**17) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert chunks(3, 2**20) == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert chunks(0, 4) == []


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_packed_blocks_have_a_plain_twin(q, p, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, p, p))
    A = A + A.transpose(0, 2, 1)
    packed = A[:, *np.triu_indices(p)]
    X = rng.normal(size=(3, p, q))
    less = np.empty_like(packed)
    packed_less(packed, X, less)
    close(less, (A - X @ X.transpose(0, 2, 1))[:, *np.triu_indices(p)])
    weights = rng.normal(size=(3, q, q))
    weights = weights + weights.transpose(0, 2, 1)
    whole = np.zeros((q, p, q, p))
    place_blocks(weights[:, *np.triu_indices(q)].T @ packed, whole)
    plain = sum(np.kron(w, a) for w, a in zip(weights, A, strict=True))
    close(np.triu(whole.reshape(q * p, q * p)), np.triu(plain))
    blocks = np.empty((q, q, p, p))
    whole_blocks(np.triu(plain), blocks)
    close(blocks, plain.reshape(q, p, q, p).transpose(0, 2, 1, 3))
