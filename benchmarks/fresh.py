"""Worlds that mislead a learner which pools over tasks; all of them are as the promise asks.

Expected rewards are linear with a parameter for each task, noise has mean zero and is independent between
rows, and nothing drifts. What is hard is elsewhere: tasks that are unlike the others, offers unlike what was
played before, actions just below the floor, losses too rare to be seen in time. They were written before
their first run, by a reader of `worlds.py`, `hardships.py`, `families.py`, `players.py`, `certificate.py` and
`unequal.py` who had not read the rules that judge; of the other families only names and a few summary lines
were known.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from families import ALPHAS, FAMILIES, UNKNOWN, Family, family
from worlds import Arms, Bool, Float, Int, Level, World


class LocalExperts(Arms):
    """One arm is in place nearly everywhere; a few tasks play another, as it is better there.

    Elsewhere it is mostly worse: whoever learns of an arm from those that play it hears from its friends.
    """

    T, K, p, scale, holds = 40, 4, 3, 0.4, False
    level, gap, experts = 2.0, 0.5, 4  # `experts`: how many tasks play each of the other arms

    def setup(self) -> None:
        super().setup()
        self.own = np.zeros(self.T, dtype=int)
        few = self.rng.permutation(self.T)[: self.experts * (self.K - 1)]
        self.own[few] = 1 + np.arange(len(few)) % (self.K - 1)
        level = np.full((self.T, self.K), self.level - self.gap)
        level[:, 0] = self.level
        level[few, self.own[few]] = self.level + self.gap
        self.theta[:, :: self.p] += level

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return self.own[t]

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.noise * self.rng.standard_normal(len(t))


class FewWhoHateIt(Level):
    """Three hundred tasks with some twenty rows each; one in twenty hates what the others like.

    The policy in place plays the action with the least of it.
    """

    T, K, d, noise, level, spread, holds = 300, 6, 6, 0.2, 2.0, 0.3, False
    asking, haters, likes, hates = 40, 15, 0.4, -0.8

    def setup(self) -> None:
        super().setup()
        common = 0.4 * self.rng.standard_normal(self.d - 2)
        self.theta[:, 2:] = common + 0.1 * self.rng.standard_normal((self.T, self.d - 2))
        self.theta[:, 1] = self.likes + 0.05 * self.rng.standard_normal(self.T)
        few = self.rng.choice(self.T, self.haters, replace=False)
        self.theta[few, 1] += self.hates - self.likes

    def tasks(self) -> Int:
        return np.sort(self.rng.choice(self.T, self.asking, replace=False))

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 1] = self.rng.uniform(0, 1, A.shape[:2])
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return A[:, :, 1].argmin(axis=1)


class TwoSchools(Level):
    """Two kinds of tasks agree on all that the policy in place varies, and differ on the new columns.

    Effects of the new columns follow from those of the old ones, by one rule in most tasks and by nearly the
    opposite one in three of ten.
    """

    T, K, d, old, holds = 30, 6, 12, 5, False
    level, minority = 2.0, 0.3

    def setup(self) -> None:
        super().setup()
        w = self.rng.normal((1.0, 0.0), 1.0, (self.T, 2))
        shared, rule, other = (
            self.rng.standard_normal((2, k)) / np.sqrt(k)
            for k in (self.old - 1, self.d - self.old, self.d - self.old)
        )
        first = self.rng.random((self.T, 1)) >= self.minority
        self.theta[:, 1 : self.old] = 0.5 * w @ shared
        self.theta[:, self.old :] = 0.5 * np.where(first, w @ rule, w @ (0.6 * other - 0.8 * rule))

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, 0, self.old :] *= 0.05
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)


class GrowingOrders(Level):
    """Offers lie near four directions that turn into four new ones, and grow tenfold meanwhile."""

    T, K, d, r = 20, 8, 16, 3
    growth, turned, leak = 1.015, 160, 0.02

    def setup(self) -> None:
        super().setup()
        self.plane = np.linalg.qr(self.rng.standard_normal((self.d - 1, 8)))[0]

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        angle = np.pi / 2 * min(self.n / self.turned, 1)
        now = np.cos(angle) * self.plane[:, :4] + np.sin(angle) * self.plane[:, 4:]
        offers = self.rng.standard_normal((len(t), self.K, 4)) @ now.T + self.leak * A[:, :, 1:]
        A[:, :, 1:] = self.growth**self.n * offers
        return A


class PricedToTheFloor(Level):
    """Thirty offers, priced so that most of them earn a little less than the floor, and a few enough."""

    T, K, d, scale, level, spread = 24, 30, 8, 0.5, 2.0, 0.4
    holds = False  # what is offered knows the parameters, which no belief takes into account
    alpha, below, enough = 0.1, 0.03, 0.15

    def setup(self) -> None:
        super().setup()
        self.theta[:, -1] = self.rng.normal(1.0, 0.15, self.T)

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, -1] *= 0.4
        M = self.mean(t, A)
        base, drawn = M[:, :1], self.rng.uniform(0, 1, M.shape)
        good = self.rng.random(M.shape) < self.enough
        target = base + np.abs(base) * np.where(good, 0.15 * drawn, -self.alpha - self.below * drawn)
        target[:, 0] = M[:, 0]
        A[:, :, -1] += (target - M) / self.theta[t, -1:]
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)


class HashedTags(Level):
    """Two to fifty offers of four tags each, hashed to a few columns with signs; most tags are rare.

    The policy in place plays the offer with the commonest tags.
    """

    T, d, r, level, spread = 25, 25, 4, 1.5, 0.3
    tags, each, most = 300, 4, 50

    def setup(self) -> None:
        super().setup()
        self.column = self.rng.integers(self.d - 1, size=self.tags)
        self.sign = self.rng.choice((-1.0, 1.0), self.tags)
        share = 1 / np.arange(2.0, self.tags + 2)
        self.share = share / share.sum()

    def actions(self, t: Int) -> Float:
        K = int(self.rng.integers(2, self.most + 1))
        drawn = self.rng.choice(self.tags, (len(t), K, self.each), p=self.share)
        hashed = np.eye(self.d - 1)[self.column[drawn]] * self.sign[drawn][..., None]
        self.rarity = np.log1p(drawn).sum(axis=2)
        return np.concatenate([np.ones((len(t), K, 1)), hashed.sum(axis=2)], axis=2)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return self.rarity.argmin(axis=1)


class Claims(Arms):
    """Arms that pay a premium with each play and, once in some forty, lose forty of them; in whole euros.

    The arm in place pays quietly. Rewards are rounded up or down at random, so that the mean stays.
    """

    T, K, p, scale, noise, holds = 30, 4, 2, 0.15, 0.3, False
    level, premium = 4.0, 1.5

    def setup(self) -> None:
        super().setup()
        self.theta[:, :: self.p] += self.level + self.rng.uniform(-1.6, 0.6, (self.T, self.K))
        usual = self.rng.uniform(0.015, 0.04, self.K)
        self.often = usual * np.exp(0.3 * self.rng.standard_normal((self.T, self.K)))
        self.paid = np.where(np.arange(self.K) > 0, self.premium, 0.0)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        arm = X[:, :: self.p].argmax(axis=1)
        often = self.often[t, arm]
        lost = (self.rng.random(len(t)) < often) / often
        y = mean + self.paid[arm] * (1 - lost) + self.noise * self.rng.standard_normal(len(t))
        return np.floor(y + self.rng.random(len(t)))


class Markup(World):
    """Price and cost go together in what is in place, and cancel out there: margins are near zero.

    Offers with another markup break the rule, and earn or lose by as much as the task's price effect.
    """

    T, K, d = 25, 7, 7
    rule = 1.3

    def setup(self) -> None:
        B, w = self.rng.standard_normal((4, 2)), self.rng.standard_normal((self.T, 2))
        price = 0.1 * self.rng.standard_normal(self.T)
        cost = -self.rule * price + 0.01 * self.rng.standard_normal(self.T)
        self.theta = np.c_[price, cost, 0.2 * w @ B.T, self.rng.normal(0.0, 0.2, self.T)]

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        cost = self.rng.uniform(5, 20, len(t))[:, None]
        rule = np.r_[self.rule, np.linspace(1.0, 1.8, self.K - 1)]
        A[:, :, 0] = cost * rule * (1 + 0.01 * A[:, :, 0])
        A[:, :, 1] = cost
        A[:, :, -1] = 1
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)


class Newcomers(Level):
    """Twenty tasks that are much alike; later forty more, one a round, with half of the effects reversed."""

    T, K, d, holds, level, spread = 60, 8, 10, False, 2.0, 0.2
    natives, opening, place = 20, 50, 3

    def setup(self) -> None:
        super().setup()
        common = 0.3 * self.rng.standard_normal(self.d - 1)
        self.theta[:, 1:] = common + 0.2 * self.theta[:, 1:]
        self.theta[self.natives :, self.d // 2 :] -= 2 * common[self.d // 2 - 1 :]

    def tasks(self) -> Int:
        return np.arange(min(self.T, self.natives + max(0, self.n - self.opening)))


class Copies(Level):
    """Offers are slight changes of one draft a request; the log had all sorts; nothing is shared.

    Three rewards of ten are lost, whatever they are.
    """

    T, K, d, r, level, spread, logged = 30, 8, 12, 12, 1.5, 0.4, 15
    change_size, lost = 0.15, 0.3

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 1:] = self.change_size * A[:, :, 1:] + self.rng.standard_normal((len(t), 1, self.d - 1))
        return A

    def log(self) -> tuple[Int, Float, Float]:
        t = np.tile(np.arange(self.T), self.logged)
        X = self.rng.standard_normal((len(t), self.d))
        X[:, 0] = 1
        return t, X, self.reward(t, X, np.einsum("md,md->m", X, self.theta[t]))

    def arrives(self, mean: Float, y: Float) -> Bool:
        return self.rng.random(len(y)) >= self.lost


family("fresh", "experts of an arm", LocalExperts, 110, explores=0.03)
family("fresh", "a few who hate it", FewWhoHateIt, 150, UNKNOWN)
family("fresh", "two schools", TwoSchools, 130, explores=0.05)
family("fresh", "orders that grow and turn", GrowingOrders, 160)
FAMILIES["priced to the floor"] = Family(
    "fresh", lambda seed: PricedToTheFloor(seed, alpha=ALPHAS[seed % len(ALPHAS)]), 110
)
family("fresh", "hashed tags, 2 to 50 offers", HashedTags, 130, UNKNOWN, explores=0.05)
family("fresh", "premiums and claims", Claims, 200, explores=0.1)
family("fresh", "markup, thin margins", Markup, 150, explores=0.1)
family("fresh", "newcomers of another kind", Newcomers, 130)
family("fresh", "copies of a draft", Copies, 110)
for thin in ("markup, thin margins", "copies of a draft"):
    FAMILIES[thin] = replace(FAMILIES[thin], alpha=lambda seed: 0.02)
