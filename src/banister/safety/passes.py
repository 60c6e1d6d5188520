"""The hierarchical fit: what tasks share, and how well that is known, from sums of their rows.

`θ_t = μ + L w_t + u_t` with noise of its own in each task (see `posterior`). One task alone is an ordinary
regression (k = 0, everything is μ); equal tasks are one task (L and D vanish); the paper's low-rank model is
`μ = 0, D = 0`. Everything is estimated by restricted maximum likelihood, in passes:

1. (μ, L) by a few steps of parameter-expanded EM, the left-over integrated out.
2. What all rows leave open of (μ, L): `S = Σ cc' ⊗ F`, coefficients being free parameters.
3. Noise: residual squares over the rows not spent, moderated across tasks.
4. D by Fisher scoring, one coordinate each.
5. Directions are added where scores stand out of what noise makes of them, and dropped where they no longer
   do: the edge is that of random matrices, `(1 + √(p/T))²`.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from banister.contract import Bool
from banister.data import Float
from banister.safety._posterior_kernels import place_blocks
from banister.safety.factors import Information
from banister.safety.hierarchy import Hierarchy, Start
from banister.safety.noise import Moderated, lifted, moderate
from banister.safety.opened import Open, root
from banister.safety.posterior import Posterior, Shared, symmetric
from banister.safety.rows import Rows, mean_square

PASSES = 16  # with these, D, noise and directions have settled on every design tried
_WARM = 6  # passes from the last fit's result
_EM_STEPS = 3  # of (μ, L) a pass
_ADD = (1, 3, 5, 9, 10)  # passes in which directions may be added, counted from a cold start
_DROP = (7, 12)
_TRIAL = 3  # directions more than stand out, added once on trial: weak ones need each other to be seen
_STANDS_OUT = 1.1  # above the edge of noise: finite samples reach a little beyond it
_TRIED = 1.5  # a direction on trial must at least exceed the typical size of noise
EXACT = 100.0  # a label said to be exact counts as a reward with this much less noise
LEAST_NOISE = 1e-10  # share of the mean square: below, arithmetic would take rounding for information
_LEAST_LABEL = 1e-12  # the same for labels
_OUTLYING = 3.0  # robust standard deviations of log noise beyond which a task is unlike the others
_LEFT_OVER = 0.1  # share of labels; it jumps from nothing to more than half when tasks' labels outnumber p
_STEP = 4.0  # factor by which D may change in one pass


def fit(rows: Rows, start: Start | None = None, most: int | None = None) -> Hierarchy:
    """Fit the hierarchy to rows in standardised coordinates, with at most so many shared directions."""
    work = _Work(rows, start, most)
    for number in range(0 if start is None else PASSES - _WARM, PASSES):
        work.run(number)
    return work.result()


class _Work:
    """The state of a fit between passes."""

    def __init__(self, rows: Rows, start: Start | None, most: int | None) -> None:
        self.rows, self.T, self.p = rows, rows.n_tasks, rows.dim
        self.square = mean_square(*rows.total())
        self.size = self.square / self.p
        self.most = rows.most_directions() if most is None else min(most, rows.most_directions())
        self.mu: Float = np.zeros(self.p)
        self.L: Float = np.zeros((self.p, 0))
        self.D: Float = np.full(self.p, self.size)
        self.level = self.square / 2
        if start is not None:
            self.mu, self.L, self.D = start.shared.mu, start.shared.L[:, : self.most], start.shared.D
            self.level = start.noise
        self.noise = Moderated(np.full(self.T, self.level), np.full(self.T, 1.0))
        self.label_level = max(self.level / EXACT**2, _LEAST_LABEL * self.square)
        self.kept: Bool = np.ones(self.T, dtype=bool)

    def run(self, number: int) -> None:
        """One pass."""
        info = self.rows.information(self.noise.variance, self.label_level)
        self._bound_left_over(info)
        self.post = Posterior(info, Shared(self.mu, self.L, self.D))
        for _ in range(_EM_STEPS if self.L.shape[1] else 1):
            self._expand()
        self._orthogonalise()
        self._given()
        self._leave_open()
        adding = number in _ADD and self.L.shape[1] < self.most
        self._judge(adding)
        self._estimate_noise(number)
        self._score_left_over()
        if adding:
            self._add(on_trial=number == _ADD[0])
        if number in _DROP:
            self._drop()

    def _bound_left_over(self, info: Information) -> None:
        """Keep D where arithmetic can tell it from nothing and from infinity."""
        told = np.einsum("trp,trp->p", info.R, info.R) / self.T
        self.D = np.minimum(np.maximum(self.D, 1e-7 / np.maximum(told, 1e-300)), 1e4 * self.size)

    def _given(self) -> Posterior:
        """The same rows and left-over, with μ and L as they are now."""
        self.post = self.post.given(Shared(self.mu, self.L, self.D))
        return self.post

    def _expand(self) -> None:
        """One step of parameter-expanded EM for (μ, L), D and noise given."""
        k, post = self.L.shape[1], self._given()
        c = post.c
        moment = c[:, :, None] * c[:, None, :]
        moment[:, 1:, 1:] += post.M
        S = self._blocks(moment, post.packed)
        S.flat[:: len(S) + 1] += 1 / self.size
        right = (c.T @ post.b).reshape(-1)
        B = cho_solve((root(S), True), right, check_finite=False).reshape(k + 1, self.p).T
        mean = c[:, 1:].mean(axis=0)
        spread = moment[:, 1:, 1:].mean(axis=0) - np.outer(mean, mean)
        self.mu = B[:, 0] + B[:, 1:] @ mean
        self.L = B[:, 1:] @ np.linalg.cholesky(symmetric(spread) + 1e-12 * np.eye(k))

    def _blocks(self, weights: Float, packed: Float) -> Float:
        """The upper triangle of Σ_t weights_t ⊗ A_t, A (T, p, p) symmetric and packed."""
        q, p = weights.shape[1], self.p
        a, b = np.triu_indices(q)
        whole = np.zeros((q, p, q, p))
        place_blocks(weights[:, a, b].T @ packed, whole)
        return whole.reshape(q * p, q * p)

    def _orthogonalise(self) -> None:
        if self.L.shape[1]:
            turn = np.linalg.eigh(self.L.T @ self.L)[1]
            self.L = np.ascontiguousarray((self.L @ turn)[:, ::-1])

    def _leave_open(self) -> None:
        """What all rows leave open of (μ, L): the inverse of `S = Σ cc' ⊗ F` and of what is known before.

        F is the precision with free coefficients.
        """
        c, p = self.post.c, self.p
        S = self._blocks(c[:, :, None] * c[:, None, :], self.post.packed_free)
        for i, known in enumerate(self._known_before()):
            S[i * p : (i + 1) * p, i * p : (i + 1) * p] += known
        self.open = Open.of_precision(S, c.shape[1])

    def _known_before(self) -> list[Float]:
        """The precision that μ and each column of L have without any row, (p, p) each.

        A column of L can be wrong by its own size: where no task's rows link two parts of the features, they
        may turn against each other and the rows would not notice. Turns of L within its own span are no
        errors, since the coefficients follow them; there and in μ the size of one coordinate is enough.
        """
        p, sizes = self.p, (self.L**2).sum(axis=0)
        inside = np.linalg.qr(self.L)[0]
        inside = inside @ inside.T
        blocks: list[Float] = [np.eye(p) / self.size]
        blocks += [inside / self.size + (np.eye(p) - inside) / (self.size + size) for size in sizes]
        return blocks

    def _judge(self, adding: bool) -> None:
        """Compare scores and residuals of every task with what the model expects of them."""
        rows, post, noise = self.rows, self.post, self.noise.variance
        learned = post.learned_by(self.open.products(post.c), self.open.sums)
        self.rss = rows.plays.rest + post.play_squares(noise)
        self.label_rss = rows.labels.rest + post.label_squares(np.maximum(rows.claimed, self.label_level))
        plays, labels = post.spent(learned)
        self.freedom = np.maximum(rows.plays.n - plays, 0.0)
        self.label_freedom = np.maximum(rows.labels.n - labels, 0.0)
        self.Q, self.expected = post.Q, post.scores_expected(learned)
        self.information = np.zeros((self.p, self.p))
        post.information(self.kept, self.information)
        self.information += np.triu(self.information, 1).T
        if adding:
            self.covariance = post.scores_covariance(learned, self.kept)

    def _estimate_noise(self, number: int) -> None:
        """Residual squares over the rows that the fit has not spent."""
        rss, freedom, n = self.rss, self.freedom, self.rows.plays.n
        # With hardly a row left over, residuals are rounding and no noise level.
        least = (1e-4 if freedom.sum() < 0.1 * n.sum() else LEAST_NOISE) * self.square
        pooled = max((rss.sum() + 1e-3 * self.level) / (freedom.sum() + 1e-3), least)
        self.level *= float(np.exp(np.clip(np.log(pooled / self.level), -4, 1)))
        self.noise = Moderated(np.full(self.T, self.level), np.full(self.T, max(freedom.sum(), 1.0)))
        self._estimate_labels()
        if number < PASSES // 2:
            return
        if self.T > 1:
            own = np.maximum(rss / np.maximum(freedom, 0.5), least)
            told = np.minimum(freedom, self.rows.telling)
            self.noise = lifted(moderate(own, told), np.maximum(n, 1e-9), self.rows.telling)
            self.level = float(np.average(self.noise.variance, weights=np.maximum(n, 1e-9)))
        self.kept = ~outlying(rss / np.maximum(freedom, 1e-9), np.minimum(freedom, self.rows.telling))

    def _estimate_labels(self) -> None:
        """A label may be exact while `x'θ` is not: what labels leave unexplained is an error of theirs too.

        An exact label still counts as a reward with `EXACT` times less noise, and no more: a belief must not
        hang on digits that the model does not have.
        """
        least = max(self.level / EXACT**2, _LEAST_LABEL * self.square)
        freedom = float(self.label_freedom.sum())
        if not self._labels_tell():
            self.label_level = max(least, self.label_level / 4)
            return
        self.label_level = max(least, float(self.label_rss.sum()) / max(freedom, 1.0))

    def _label_level(self) -> float:
        """The least variance of a label in the belief.

        Labels that the fit interpolates cannot be contradicted by anything: until some of them are left over
        they are taken for rewards, however exact they are said to be.
        """
        if self._labels_tell():
            return self.label_level
        return max(self.label_level, self.level)

    def _labels_tell(self) -> bool:
        """Whether a tenth of the labels is left over to judge them by."""
        return float(self.label_freedom.sum()) >= _LEFT_OVER * float(self.rows.labels.n.sum())

    def _score_left_over(self) -> None:
        """One step of Fisher scoring for D; tasks unlike the others are left out."""
        self.score = (self.Q[self.kept] ** 2).sum(axis=0) - self.expected[self.kept].sum(axis=0)
        steady = np.diag(1e-2 / self.D**2 + 1e-9 * np.diag(self.information))
        step = np.linalg.solve(self.information + steady, self.score)
        self.used, wanted = self.D, self.D + step
        self.D = np.minimum(np.clip(wanted, self.D / _STEP, self.D * _STEP), 100 * self.size)

    def _add(self, *, on_trial: bool) -> None:
        """Directions in which scores of many tasks stand out of what noise makes of them."""
        Q = self.Q[self.kept]
        values, vectors = np.linalg.eigh(symmetric(self.covariance))
        seen = values > 1e-9 * values[-1]
        white = vectors[:, seen] / np.sqrt(values[seen])
        sizes, directions = np.linalg.eigh(white.T @ (Q.T @ Q) @ white)
        found = int((sizes > _STANDS_OUT * noise_edge(int(seen.sum()), self.T)).sum())
        more = found + (_TRIAL if on_trial else 0)
        more = min(more, self.most - self.L.shape[1], int((sizes > _TRIED).sum()))
        if more > 0:
            new = white @ directions[:, ::-1][:, :more] * np.sqrt(self.T * (sizes[::-1][:more] - 1))
            self.L = np.concatenate([self.L, new], axis=1)

    def _drop(self) -> None:
        """Directions that no longer stand out of the noise of their own estimate."""
        if self.L.shape[1] == 0:
            return
        H = self._blocks(np.full((self.T, 1, 1), 1 / self.T), self.post.packed)
        H += np.triu(H, 1).T
        dims = np.linalg.matrix_rank(H, tol=1e-9 * np.trace(H), hermitian=True)
        sizes, turn = np.linalg.eigh(self.L.T @ H @ self.L)
        self.L = (self.L @ turn)[:, 1 + sizes > _STANDS_OUT * noise_edge(min(self.p, int(dims)), self.T)]

    def result(self) -> Hierarchy:
        """What the last pass found, with the D that it used."""
        expected = self.expected[self.kept]
        unseen = expected.sum(axis=0) * self.size < 0.05
        inverse = np.linalg.pinv(self.information, rcond=1e-10, hermitian=True)
        spread = np.sqrt(2 / np.maximum((expected**2).sum(axis=0), 1e-300))
        return Hierarchy(
            shared=self.post.shared,
            open=self.open,
            noise=self.noise,
            level=self.level,
            label_level=self._label_level(),
            spread=np.minimum(spread, self.size),
            unforced=np.where(unseen, self.used, self.used + inverse @ self.score),
            information=self.information,
            unseen=unseen,
            size=self.size,
            spent=self._spent(),
        )

    def _spent(self) -> float:
        """The share of the rows that the fit has used up; a play and its label are rows of one action."""
        plays, labels = self.rows.plays.n, self.rows.labels.n
        left = float((self.freedom + self.label_freedom).sum())
        return (float((plays + labels).sum()) - left) / max(float(np.maximum(plays, labels).sum()), 1.0)


def noise_edge(dims: int, n_tasks: int) -> float:
    """The largest eigenvalue that pure noise gives a covariance of `dims` dimensions from `n_tasks` draws."""
    return float((1 + np.sqrt(dims / max(n_tasks, 1))) ** 2)


def outlying(raw: Float, freedom: Float) -> Bool:
    """Tasks whose residual variance is far above the others', (T,); at least five tasks can tell."""
    told = freedom >= 2
    if told.sum() < 5:
        return np.zeros(len(raw), dtype=bool)
    size = np.log(np.maximum(raw, 1e-300))
    middle = np.median(size[told])
    usual = 1.4826 * np.median(np.abs(size[told] - middle))
    chance = np.sqrt(2 / np.maximum(freedom, 1))
    found: Bool = told & (size - middle > _OUTLYING * np.maximum(usual, chance))
    return found
