"""A plain twin of the path from what was seen to a belief: sums of squares, inverses, one task at a time.

Nothing is shared with the library but the rules that have hand cases of their own: moderation of noise,
outlying tasks, the verdict on claims, and the widenings that are single formulas.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from banister.safety import labels, loudness, widening
from banister.safety.frame import Frame
from banister.safety.hierarchy import Hierarchy
from banister.safety.noise import moderate
from banister.safety.passes import noise_edge, outlying
from banister.safety.posterior import Shared

inv = np.linalg.inv


class Sums:
    """`X'X`, `X'y`, `y'y` and the number of rows of each task."""

    def __init__(self, task, Z, y, T):
        p = Z.shape[1]
        self.G, self.h = np.zeros((T, p, p)), np.zeros((T, p))
        self.yy, self.n = np.zeros(T), np.zeros(T)
        for t, z, v in zip(task, Z, y, strict=True):
            self.G[t] += np.outer(z, z)
            self.h[t] += v * z
            self.yy[t] += v * v
            self.n[t] += 1


class One:
    """One task given what is shared: μ, L, D, from its sums in units of noise."""

    def __init__(self, G, g, mu, L, D):
        p, k = L.shape
        self.G, self.L, self.D = G, L, D
        self.sigma = np.diag(D) + L @ L.T
        without = inv(
            np.eye(p) + G * D
        )  # (I + G D)⁻¹, and the same with Σ: no inverse of a prior that may vanish
        self.H, self.b = without @ G, without @ g
        self.M = inv(np.eye(k) + L.T @ self.H @ L)
        self.w = self.M @ L.T @ (self.b - self.H @ mu)
        self.c = np.concatenate([[1.0], self.w])
        self.away = inv(np.eye(p) + self.sigma @ G)
        self.K = self.away.T @ G
        self.V = self.away @ self.sigma
        self.mean = mu + self.V @ (g - G @ mu)
        self.Q = self.away.T @ (g - G @ mu)

    def free(self):
        k = self.L.shape[1]
        if k == 0:
            return self.H
        HL = self.H @ self.L
        inner = self.L.T @ HL
        return self.H - HL @ inv(inner + (1e-9 * np.trace(inner) / k + 1e-9) * np.eye(k)) @ HL.T

    def expected(self, opened):
        return np.maximum(np.diag(self.K - self.K @ opened @ self.K), 0.0)

    def spent(self, plays, opened):
        """Rows of plays and of labels that went into the fit."""
        own, total = np.trace(plays @ self.V), np.trace(self.G @ self.V)
        learned = np.trace(opened @ (self.K - self.K @ self.sigma @ self.K))
        more = 1 + learned / max(total, 1e-300)
        return own * more, (total - own) * more


def posteriors(plays, lab, claimed, noise, label_level, mu, L, D):
    """Every task, with D (p,) or (T, p)."""
    exact = np.maximum(claimed, label_level)
    D = np.broadcast_to(D, plays.h.shape)
    return [
        One(
            plays.G[t] / noise[t] + lab.G[t] / exact[t],
            plays.h[t] / noise[t] + lab.h[t] / exact[t],
            mu,
            L,
            D[t],
        )
        for t in range(len(noise))
    ]


def residuals(plays, posts):
    """Squares left of plays, from sums."""
    means = np.array([o.mean for o in posts])
    fitted = np.einsum("tp,tpq,tq->t", means, plays.G, means)
    return plays.yy - 2 * (means * plays.h).sum(axis=1) + fitted


def opened_of(S_inverse, posts, p):
    """`(c ⊗ I)' S⁻¹ (c ⊗ I)`."""
    lifted = [np.kron(o.c[:, None], np.eye(p)) for o in posts]
    return np.array([C.T @ S_inverse @ C for C in lifted])


def plain_fit(plays, lab, claimed):
    """The passes of the fit, in sums and inverses."""
    T, p = plays.h.shape
    n = plays.n
    square = (plays.yy.sum() + lab.yy.sum()) / (n.sum() + lab.n.sum())
    size = square / p
    rows = max(n.sum(), lab.n.sum())
    most = max(
        k for k in range(max(min(T - 2, p - 1, 15), 0) + 1) if k == 0 or k * (p + T - k) + p <= rows / 2
    )
    mu, L, D = np.zeros(p), np.zeros((p, 0)), np.full(p, size)
    level = square / 2
    label_level = max(level / 100**2, 1e-12 * square)
    noise, freedom_of, kept = np.full(T, level), np.ones(T), np.ones(T, dtype=bool)
    for number in range(16):
        exact = np.maximum(claimed, label_level)
        told = np.mean([np.diag(plays.G[t] / noise[t] + lab.G[t] / exact[t]) for t in range(T)], axis=0)
        D = np.clip(D, 1e-7 / np.maximum(told, 1e-300), 1e4 * size)
        for _ in range(3 if L.shape[1] else 1):
            k, posts = L.shape[1], posteriors(plays, lab, claimed, noise, label_level, mu, L, D)
            S, right = np.eye((k + 1) * p) / size, np.zeros((k + 1) * p)
            second = np.zeros((k, k))
            for o in posts:
                moment = np.outer(o.c, o.c)
                moment[1:, 1:] += o.M
                second += moment[1:, 1:] / T
                S += np.kron(moment, o.H)
                right += np.kron(o.c, o.b)
            B = np.linalg.solve(S, right).reshape(k + 1, p).T
            middle = np.mean([o.w for o in posts], axis=0)
            mu = B[:, 0] + B[:, 1:] @ middle
            L = B[:, 1:] @ np.linalg.cholesky(second - np.outer(middle, middle) + 1e-12 * np.eye(k))
        U, s, _ = np.linalg.svd(L, full_matrices=False)
        L = U * s
        k, posts = L.shape[1], posteriors(plays, lab, claimed, noise, label_level, mu, L, D)
        S = known_before(L, size) + sum(np.kron(np.outer(o.c, o.c), o.free()) for o in posts)
        S_inverse = inv(S)
        opened = opened_of(S_inverse, posts, p)
        rss = residuals(plays, posts)
        spent = np.array([o.spent(plays.G[t] / noise[t], opened[t]) for t, o in enumerate(posts)])
        freedom, label_freedom = np.maximum(np.array([n, lab.n]) - spent.T, 0.0)
        expected = np.array([o.expected(opened[t]) for t, o in enumerate(posts)])
        information = sum(o.K**2 for t, o in enumerate(posts) if kept[t])
        covariance = sum(o.K - o.K @ opened[t] @ o.K for t, o in enumerate(posts) if kept[t])
        Q = np.array([o.Q for o in posts])
        least = (1e-4 if freedom.sum() < 0.1 * n.sum() else 1e-10) * square
        pooled = max((rss.sum() + 1e-3 * level) / (freedom.sum() + 1e-3), least)
        level *= np.exp(np.clip(np.log(pooled / level), -4, 1))
        noise, freedom_of = np.full(T, level), np.full(T, max(freedom.sum(), 1.0))
        if label_freedom.sum() < 0.1 * lab.n.sum():
            label_level = max(level / 100**2, 1e-12 * square, label_level / 4)
        else:
            left = residuals(lab, posts).sum() / max(label_freedom.sum(), 1.0)
            label_level = max(level / 100**2, 1e-12 * square, left)
        if number >= 8:
            if T > 1:
                found = moderate(np.maximum(rss / np.maximum(freedom, 0.5), least), freedom)
                noise, freedom_of = found.variance, found.freedom
                level = float(np.average(noise, weights=n))
            kept = ~outlying(rss / np.maximum(freedom, 1e-9), freedom)
        score = (Q[kept] ** 2).sum(axis=0) - expected[kept].sum(axis=0)
        steady = np.diag(1e-2 / D**2 + 1e-9 * np.diag(information))
        used, step = D, np.linalg.solve(information + steady, score)
        D = np.minimum(np.clip(D + step, D / 4, D * 4), 100 * size)
        if number in (1, 3, 5, 9, 10) and k < most:
            L = more_directions(L, covariance, Q[kept], T, most, on_trial=number == 1)
        if number in (7, 12) and L.shape[1]:
            L = fewer_directions(L, np.mean([o.H for o in posts], axis=0), T)
    unseen = expected[kept].sum(axis=0) * size < 0.05
    spread = np.sqrt(2 / np.maximum((expected[kept] ** 2).sum(axis=0), 1e-300))
    inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    if label_freedom.sum() < 0.1 * lab.n.sum():
        label_level = max(label_level, level)
    hierarchy = Hierarchy(
        Shared(mu, L, used), S_inverse, moderate(np.ones(2), np.ones(2)), level, label_level,
        np.minimum(spread, size),
        np.where(unseen, used, used + inverse @ score), information, unseen, size,
        ((n + lab.n).sum() - (freedom + label_freedom).sum()) / np.maximum(n, lab.n).sum(),
    )  # fmt: skip
    return hierarchy, noise, freedom_of


def known_before(L, size):
    """Precision of (μ, L) without any row, a block a column."""
    p = len(L)
    inside = L @ np.linalg.pinv(L)
    own = [inside / size + (np.eye(p) - inside) / (size + length) for length in (L**2).sum(axis=0)]
    whole = np.zeros((p * (len(own) + 1), p * (len(own) + 1)))
    for i, block in enumerate([np.eye(p) / size, *own]):
        whole[i * p : (i + 1) * p, i * p : (i + 1) * p] = block
    return whole


def more_directions(L, covariance, Q, T, most, *, on_trial):
    values, vectors = np.linalg.eigh(covariance)
    seen = values > 1e-9 * values.max()
    white = vectors[:, seen] / np.sqrt(values[seen])
    sizes, directions = np.linalg.eigh(white.T @ Q.T @ Q @ white)
    found = (sizes > 1.1 * noise_edge(seen.sum(), T)).sum() + 3 * on_trial
    found = min(found, most - L.shape[1], (sizes > 1.5).sum())
    best = np.argsort(-sizes)[:found]
    return np.concatenate([L, white @ directions[:, best] * np.sqrt(T * (sizes[best] - 1))], axis=1)


def fewer_directions(L, H, T):
    dims = np.linalg.matrix_rank(H, tol=1e-9 * np.trace(H), hermitian=True)
    sizes, turn = np.linalg.eigh(L.T @ H @ L)
    return (L @ turn)[:, 1 + sizes > 1.1 * noise_edge(min(len(H), dims), T)]


def own_scale(plays, lab, claimed, noise, label_level, mu, L, D, few, added, opened, size):
    """Each task's factor of the left-over, `few` where it is not odd."""
    T = len(noise)
    scale, most = np.ones(T), size / D.mean()
    odd = np.ones(T, dtype=bool)
    for step in range(10):
        Dt = scale[:, None] * D + added[:, None]
        posts = posteriors(plays, lab, claimed, noise, label_level, mu, L, Dt)
        found = np.array([(o.Q**2 * o.D).sum() for o in posts])
        expected = np.array([(o.expected(opened[t]) * o.D).sum() for t, o in enumerate(posts)])
        chance = np.array([np.sqrt(2 * (o.K**2 * np.outer(o.D, o.D)).sum()) for o in posts])
        if step == 0:
            odd = found > expected + 2 * chance
        grown = np.clip(scale * np.sqrt((found + chance) / np.maximum(expected, 1e-300)), 1.0, 100 * most)
        scale = np.where(odd, grown, scale)
    return np.where(odd, np.maximum(few, np.minimum(25 * scale, 100**2 * most)), few)


def means_of(task, Z, T):
    """The mean row of each task, and how many there are."""
    n = np.array([(task == t).sum() for t in range(T)])
    return np.array([Z[task == t].sum(axis=0) / max(n[t], 1) for t in range(T)]), n


def plain_belief(seen, decisions, confidence=0.95):
    """The numbers of a belief, every task known, nothing before it."""
    T = int(seen.task.max()) + 1
    z = norm.isf((1 - confidence) / max(2 * decisions, 100 * T))
    frame = Frame.of(seen.offered, seen.X, seen.y)
    Z, y, claim = frame.rows(seen.X), seen.y / frame.reward, seen.claim / frame.reward
    label_Z, label = frame.rows(seen.labelled_features), seen.label / frame.reward
    rows = np.flatnonzero(seen.is_baseline & ~np.isnan(claim))
    verdict = labels.trust(seen.task[rows], Z[rows], y[rows], claim[rows], seen.label_task, label_Z, label, T)
    plays, used = Sums(seen.task, Z, y, T), verdict.labelled[seen.label_task]
    lab = Sums(seen.label_task[used], label_Z[used], label[used], T)
    claimed = np.ones(T)
    for t in np.flatnonzero(lab.n):
        claimed[t] = np.mean((seen.label_std[used][seen.label_task[used] == t] / frame.reward) ** 2)
    h, noise, freedom_of = plain_fit(plays, lab, claimed)
    posts = posteriors(plays, lab, claimed, noise, h.label_level, h.shared.mu, h.shared.L, h.shared.D)
    opened = opened_of(h.open, posts, frame.dim)
    raw = residuals(plays, posts)
    spent = np.array([o.spent(plays.G[t] / noise[t], opened[t])[0] for t, o in enumerate(posts)])
    freedom, lent = np.maximum(plays.n - spent, 0.0), 1e4
    if T > 1:
        square = (plays.yy.sum() + lab.yy.sum()) / (plays.n.sum() + lab.n.sum())
        settled = moderate(np.maximum(raw / np.maximum(freedom, 0.5), 1e-10 * square), freedom)
        noise, freedom_of, lent = settled.variance, settled.freedom, settled.lent
    added = widening.odd_noise(raw / np.maximum(freedom, 1e-9), freedom, frame.dim)
    guess = np.array([o.mean for o in posts])
    unequal = widening.unequal_noise(y - (Z * guess[seen.task]).sum(axis=1), (Z**2).sum(axis=1))
    b, d = seen.is_baseline, len(frame.scale)
    sides = [(seen.task[b], Z[b][:, :d]), (seen.offered_task, frame.rows(seen.offered)[:, :d])]
    lean = widening.Leaning(*(part for side in sides for part in means_of(*side, T)))
    added = added + lean.added(plays.yy / plays.n, frame.dim)
    tails = widening.tails(T, h.shared.rank, z)
    L = np.sqrt(tails) * h.shared.L
    D, loud, wider = widening.left_over(h, tails), unequal * noise, unequal * opened
    few = widening.of_own_size(plays.n, tails, z) if h.loose else np.ones(T)
    added = added + widening.alone(np.array([o.c for o in posts])[:, 1:], h.shared.L)
    scale = own_scale(plays, lab, claimed, loud, h.label_level, h.shared.mu, L, D, few, added, wider, h.size)
    final = posteriors(
        plays, lab, claimed, loud, h.label_level, h.shared.mu, L, scale[:, None] * D + added[:, None]
    )
    V = np.array([o.V + o.away @ wider[t] @ o.away.T for t, o in enumerate(final)])
    mean = np.array([o.mean for o in final])
    std = np.sqrt(noise)
    steady = np.maximum(std, np.sqrt(noise.mean()))
    spread, miss = np.einsum("np,npq,nq->n", Z, V[seen.task], Z), y - (Z * mean[seen.task]).sum(axis=1)
    share, louder, near = spread / loud[seen.task], np.ones((T, frame.dim)), np.ones(len(y))
    if (share < 0.5).any():
        told = share < 0.5
        square = miss[told] ** 2 / loud[seen.task][told]
        rows = loudness.Told(seen.task[told], Z[told], square, 1 - share[told])
        along = [
            [(z2**2).sum() ** 2 / max((z2**4).sum(), 1e-300) for z2 in Z[seen.task == t].T] for t in range(T)
        ]
        common, louder = loudness.loudness(rows, np.array(along) + lent, z)
        own = h.shared.D
        for j in range(frame.dim):
            z2, left = Z[told, j] ** 2, 1 - share[told]
            rows_left = (z2 * left).sum() ** 2 / max((z2**2 * left).sum(), 1e-300)
            if rows_left < 3 and own[j] > 4 * np.median(own):
                louder[:, j] = np.maximum(louder[:, j], 1 + own[j] / noise)
        near = (Z**2 * common).sum(axis=1) / (Z**2).sum(axis=1)
    V = V * np.sqrt(louder[:, :, None] * louder[:, None, :])
    spread, error = spread / steady[seen.task] ** 2, miss / steady[seen.task] / np.sqrt(near)
    told = spread < 0.5
    return {
        "mean": mean, "V": V, "away": np.array([o.away for o in final]), "noise": std,
        "left": widening.left_over_error(h), "z": student.isf(norm.sf(z), np.maximum(freedom_of, 3.0)),
        "label_error": np.sqrt(h.label_level), "labelled": verdict.labelled, "rank": h.shared.rank,
        "usual": np.sort(error[told] / np.sqrt(1 - spread[told])), "odd": scale > few, "added": added,
        "unequal": unequal, "loud": louder,
    }  # fmt: skip
