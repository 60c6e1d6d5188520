"""AltGDmin: many linear tasks that share a low-dimensional representation, `Θ = B W`."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from banister.data import Float, Int, Number, TaskData, Whole, as_matrix, joined_labels
from banister.errors import ConvergenceWarning, InputError, NotFittedError, SettingError
from banister.estimators import rank as ranks
from banister.estimators._centring import Centring
from banister.estimators._notes import data_notes, solve_note
from banister.estimators._passes import Passes
from banister.estimators._starts import solve
from banister.estimators._varpro import Solution, Whitening
from banister.estimators.base import Labels, MultiTaskRegressor, check_rank, label_list
from banister.estimators.confidence import LowRankCovariance, least_squares_covariance
from banister.estimators.paper import PaperSolver
from banister.estimators.prediction import most_predictive
from banister.estimators.shrinkage import Moments, RandomEffects, discounted, random_effects

_RANKS_TRIED = (4, 8, 16, 20)  # by rank="auto"


class AltGDmin(MultiTaskRegressor):
    """Low-rank regression over many tasks, minimising `Σ_t ‖y_t − X_t B w_t‖²` over B (d, r) and w_t.

    Args:
        rank: r, or "auto": of the directions that stand out from the noise, as many as help to predict.
        solver: "fast" (whitened variable projection, the default), "paper" (Algorithm 1's iteration) or a
            `PaperSolver` with its settings.
        shrink: treat the tasks' coefficients as random effects with learned mean, covariance and noise;
            None means yes for the fast solver, no for the paper's.
        fit_intercept: a level of its own for each task (rows are centred within tasks: one copy of X).
        noise_std: the noise level if known; otherwise estimated from residuals.
        tol: stop once a step's actual and predicted decrease are below this share of the objective.
        max_passes: passes over the data allowed per start.
        threads: threads of the compiled passes; by default BANISTER_THREADS or all cores. Results do not
            depend on it.
        dtype: "float64", or "float32" for half the memory.
        seed: of the random starts, which are used only where the spectral ones disagree.

    Attributes:
        B_, W_, theta_: (d, r) orthonormal, (r, T), (d, T) = B_ W_.
        tasks_: labels in column order.
        rank_: r.
        intercept_: (T,), zeros without fit_intercept.
        noise_std_: noise level, given or estimated.
        converged_, n_iter_, n_passes_, objective_, history_: how the solve went.
        starts_agree_: the fit explains the data down to noise, or two starts led to it: the best signs that
            the optimum is the global one.
        singular_values_: of the coefficients, in units of what noise alone gives; above 1 stands out.
        prior_mean_, prior_cov_: learned population of the coefficients (with shrinkage).
        warnings_: what was noticed, in words.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 30))
        >>> X, tasks = rng.standard_normal((300, 8)), np.repeat(np.arange(30), 10)
        >>> y = np.einsum("ij,ji->i", X, theta[:, tasks])
        >>> model = AltGDmin(rank=2).fit(X, y, tasks)
        >>> bool(np.abs(model.theta_ - theta).max() < 1e-6), model.converged_
        (True, True)
    """

    B_: Float
    W_: Float

    def __init__(
        self,
        rank: Whole | Literal["auto"] = "auto",
        *,
        solver: Literal["fast", "paper"] | PaperSolver = "fast",
        shrink: bool | None = None,
        fit_intercept: bool = False,
        noise_std: Number | None = None,
        tol: Number = 1e-8,
        max_passes: Whole = 400,
        threads: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        seed: Whole = 0,
    ) -> None:
        self.rank = rank
        self.solver = solver
        self.shrink = shrink
        self.fit_intercept = fit_intercept
        self.noise_std = noise_std
        self.tol = tol
        self.max_passes = max_passes
        self.threads = threads
        self.dtype = dtype
        self.seed = seed

    def _fit(self, data: TaskData) -> None:
        self._check_settings(data)
        self._centring = Centring.of(data) if self.fit_intercept else None
        if self._centring is not None:
            data = self._centring.apply(data)
        self._data: TaskData | None = data
        self._covariance: LowRankCovariance | None = None
        self._counts = data.counts
        self._whitening = Whitening.of(data)
        solution = self._solve(data)
        self._keep(data, solution)
        self._note(data)

    def _check_settings(self, data: TaskData) -> None:
        if self.rank != "auto":
            check_rank(self.rank, data)
        if self.solver not in ("fast", "paper") and not isinstance(self.solver, PaperSolver):
            raise SettingError(f"solver={self.solver!r} must be 'fast', 'paper' or a PaperSolver.")
        if self.noise_std is not None and not (np.isfinite(self.noise_std) and self.noise_std > 0):
            raise SettingError(f"noise_std={self.noise_std!r} must be a positive number, or None.")
        if not 0 < self.tol < 1:
            raise SettingError(f"tol={self.tol!r} must lie between 0 and 1.")
        for name, least in (("max_passes", 1), ("seed", 0)):
            if not (isinstance(getattr(self, name), (int, np.integer)) and getattr(self, name) >= least):
                raise SettingError(f"{name}={getattr(self, name)!r} must be a whole number from {least} up.")

    def _solve(self, data: TaskData) -> Solution:
        rng = np.random.default_rng(self.seed)
        warm = self._scan(data, rng) if self.rank == "auto" else None
        rank = int(self.rank) if warm is None else warm.shape[1]
        if self.solver != "fast":
            paper = self.solver if isinstance(self.solver, PaperSolver) else PaperSolver()
            self.starts_agree_ = True
            return paper.solve(data, rank)
        tol = float(max(self.tol, 1e-5) if data.X.dtype == np.float32 else self.tol)
        passes = Passes(data, rank, threads=self.threads)
        solution, self.starts_agree_ = solve(
            passes, self._whitening, warm=warm, rng=rng, tol=tol, max_passes=int(self.max_passes)
        )
        return solution

    def _scan(self, data: TaskData, rng: np.random.Generator) -> Float:
        """The basis of the rank that should predict best, among those whose directions stand out.

        Four ranks are tried, then eight and so on, as long as the best is in the upper half of them.
        """
        for most in _RANKS_TRIED:
            scan = ranks.scan_ranks(
                data, self._whitening, rng=rng, max_rank=most, threads=self.threads,
                max_passes=int(self.max_passes), intercepts=self.fit_intercept,
            )  # fmt: skip
            fits = scan.solutions[: max(scan.rank, 1)]
            found = most_predictive(
                data, self._whitening, fits, intercepts=self.fit_intercept, threads=self.threads
            ).B
            if scan.rank < most or found.shape[1] <= most // 2:
                break
        if scan.rank == 0:
            self.warnings_.append(
                "No shared direction stands out from the noise; rank 1 was used. More rows would tell."
            )
        return found

    def _keep(self, data: TaskData, solution: Solution) -> None:
        self.rank_ = solution.B.shape[1]
        self.converged_, self.n_iter_ = solution.converged, solution.iterations
        self.n_passes_, self.objective_ = solution.passes, solution.objective
        self.history_ = np.array(solution.history)
        given = None if self.noise_std is None else float(self.noise_std) ** 2
        noise = ranks.noise_variance(data, solution, given, intercepts=self.fit_intercept)
        self._basis, self._coefficients = ranks.whiten_basis(self._whitening, solution.B, solution.W)
        levels = np.full(data.n_tasks, noise)
        self.singular_values_ = ranks.standardised_singular_values(data, self._coefficients, levels)
        self.B_, self.W_ = solution.B, solution.W
        self._effects: RandomEffects | None = None
        if self.shrink is True or (self.shrink is None and self.solver == "fast"):
            noise = self._shrink(data, given)
        self.noise_std_ = float(np.sqrt(noise))
        self._set_theta()

    def _shrink(self, data: TaskData, noise: float | None) -> float:
        """Random effects in the whitened basis, then back: Θ = A B̃ W̃ = B_ (R W̃)."""
        moments = self._moments(data)
        effects = random_effects(moments, dim=data.dim, noise=noise)
        self._effects = discounted(effects, self._coefficients, moments.free, data.dim)
        self._means = effects.W  # a dropped direction must not look certain: covariances keep its size
        R = self.B_.T @ self._whitening.A @ self._basis
        self.W_ = R @ self._effects.W.T
        self.prior_mean_, self.prior_cov_ = R @ self._effects.mean, R @ self._effects.cov @ R.T
        return self._effects.noise

    def _moments(self, data: TaskData) -> Moments:
        within = self._whitening.A @ self._basis
        return Moments.of(data, within, intercepts=self.fit_intercept, threads=self.threads)

    def _set_theta(self) -> None:
        self.theta_ = self.B_ @ self.W_
        self.intercept_: Float = np.zeros(self.theta_.shape[1])
        if self._centring is not None:
            self.intercept_ = self._centring.intercepts(self.theta_)

    def _note(self, data: TaskData) -> None:
        self.warnings_ += data_notes(
            data, self.rank_, shrunk=self._effects is not None, intercepts=self.fit_intercept
        )
        note = solve_note(self.converged_, self.starts_agree_, self.n_passes_)
        if note is not None:
            self.warnings_.append(note)
            warnings.warn(note, ConvergenceWarning, stacklevel=5)  # the line that called fit

    @overload
    def predict(self, X: ArrayLike, tasks: Labels, *, return_std: Literal[False] = ...) -> Float: ...
    @overload
    def predict(self, X: ArrayLike, tasks: Labels, *, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def predict(
        self, X: ArrayLike, tasks: Labels, *, return_std: bool = False
    ) -> Float | tuple[Float, Float]:
        """Expected rewards of rows X (m, d), shape (m,); with `return_std` also their standard errors."""
        features, codes = self._check_rows(X, tasks)
        mean = self._predict(features, codes)
        return (mean, self._std(features, codes)) if return_std else mean

    def interval(self, X: ArrayLike, tasks: Labels, *, level: Number = 0.95) -> tuple[Float, Float]:
        """A confidence interval for the expected reward of each row: its lower and upper ends, (m,) each."""
        if not 0 < level < 1:
            raise SettingError(f"level={level!r} must lie between 0 and 1.")
        mean, std = self.predict(X, tasks, return_std=True)
        half = norm.ppf(0.5 + level / 2) * std
        return mean - half, mean + half

    @overload
    def predict_unseen(self, X: ArrayLike, *, return_std: Literal[False] = ...) -> Float: ...
    @overload
    def predict_unseen(self, X: ArrayLike, *, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def predict_unseen(self, X: ArrayLike, *, return_std: bool = False) -> Float | tuple[Float, Float]:
        """What to expect of a task with no rows yet: the population's mean, and its spread."""
        self._check_fitted()
        if self._effects is None:
            raise NotFittedError("Only a model fitted with shrink=True knows what to expect of a new task.")
        Z = as_matrix(X, "X", dim=self.theta_.shape[0]) @ self.B_
        mean = Z @ self.prior_mean_ + float(self.intercept_.mean())
        if not return_std:
            return mean
        spread = np.einsum("mi,ij,mj->m", Z, self.prior_cov_, Z) + float(self.intercept_.var())
        return mean, np.sqrt(spread)

    def add_tasks(self, X: ArrayLike, y: ArrayLike, tasks: Labels) -> Self:
        """Add new tasks from a handful of rows: B stays, only their coefficients are fitted."""
        self._check_fitted()
        features = as_matrix(X, "X", dtype=self.dtype, dim=self.theta_.shape[0])
        data = TaskData.from_rows(features, y, tasks, dtype=self.dtype)
        known = set(self.tasks_.tolist())
        again = [i for i, label in enumerate(data.labels.tolist()) if label in known]
        if again:
            raise InputError(
                f"Task(s) {label_list(data.labels, again)} are in the model already; refit them."
            )
        covariance = self._materialise()
        if self._centring is not None:
            own = Centring.of(data)
            data, self._centring = own.apply(data), self._centring.extended(own)
        self._append(data, covariance)
        return self

    def _append(self, data: TaskData, covariance: LowRankCovariance) -> None:
        moments, noise = self._moments(data), self.noise_std_**2
        if self._effects is None:
            W, cov = moments.W, least_squares_covariance(moments.gram, np.full(data.n_tasks, noise))
        else:
            W, cov = self._effects.update(moments)
        self._covariance = covariance.extended(data, W, cov, noise)
        self._counts = np.concatenate([self._counts, data.counts])
        self.W_ = np.hstack([self.W_, self.B_.T @ self._whitening.A @ self._basis @ W.T])
        self.tasks_ = joined_labels(self.tasks_, data.labels)
        self._set_theta()

    def _predict(self, X: Float, codes: Int) -> Float:
        return super()._predict(X, codes) + self.intercept_[codes]

    def _std(self, X: Float, codes: Int) -> Float:
        covariance = self._materialise()
        if self._centring is None:
            return np.sqrt(covariance.variance(X, codes))
        own_level = self.noise_std_**2 / np.maximum(self._counts[codes], 1)
        return np.sqrt(covariance.variance(self._centring.centred(X, codes), codes) + own_level)

    def _materialise(self) -> LowRankCovariance:
        """The covariance, computed when first asked for; the data are let go then."""
        if self._covariance is None:
            effects, data = self._effects, self._data
            assert data is not None  # it is let go only once the covariance exists
            self._covariance = LowRankCovariance.of(
                data,
                self._whitening.A,
                self._basis,
                self._coefficients,
                np.full(data.n_tasks, self.noise_std_**2),
                posterior=None if effects is None else (self._means, effects.W_cov),
            )
            self._data = None
        return self._covariance

    def __getstate__(self) -> dict[str, Any]:
        """A stored model carries its covariance, never the data it was fitted on."""
        if hasattr(self, "theta_"):
            self._materialise()
        return dict(super().__getstate__())
