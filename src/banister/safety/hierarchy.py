"""A fitted hierarchy: what tasks share and how well it is known, and where the next fit may begin."""

from __future__ import annotations

from dataclasses import dataclass

from banister.contract import Bool
from banister.data import Float
from banister.safety.noise import Moderated
from banister.safety.opened import Open
from banister.safety.posterior import Shared

_SPENT = 0.5  # share of the rows beyond which a fit may pass through them in several ways


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A fit: what tasks share and how well it is known.

    Attributes:
        shared: μ, L and D.
        open: covariance of (μ, L), `S⁻¹`.
        noise: variance of each task's rewards and the degrees of freedom behind it, (T,); level: their mean;
            label_level: the least variance of a label.
        spread: (p,) standard error of D.
        unforced: (p,) D as it would be without the constraint that variances are positive.
        information: (p, p) Fisher's, of D.
        unseen: (p,) coordinates of which rows say next to nothing.
        size: τ0², the prior variance of a coordinate before anything is known.
        spent: the share of the rows that the fit has used up; at 1 it passes through all of them.
    """

    shared: Shared
    open: Open
    noise: Moderated
    level: float
    label_level: float
    spread: Float
    unforced: Float
    information: Float
    unseen: Bool
    size: float
    spent: float

    @property
    def through(self) -> bool:
        """Whether the fit may pass through its rows, so that others would have explained them as well."""
        return self.spent > _SPENT

    @property
    def loose(self) -> bool:
        """Whether nothing speaks yet for tasks of one size: nothing is shared, or what is shared may be an
        accident of a fit that passes through its rows.
        """
        return self.shared.rank == 0 or self.through

    def open_of(self, c: Float) -> Float:
        """Covariance of `μ + L w_t` for coefficients `c = (1, w)` (T, k+1): what all rows leave open."""
        return self.open.of(c)


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit may begin: the last fit's result, in its own coordinates.

    Attributes:
        shared: μ, L and D.
        noise: a guess at the variance of rewards, as a multiple of their mean square.
        rows: how many rows the last fit that began from nothing had.
    """

    shared: Shared
    noise: float
    rows: int

    def per(self, units: Float) -> Start:
        """With coefficients (p,) in other units."""
        s = self.shared
        return Start(Shared(s.mu * units, s.L * units[:, None], s.D * units**2), self.noise, self.rows)
