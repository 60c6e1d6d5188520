"""AltGDmin: many linear tasks that share a low-dimensional representation, `Θ = B W`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from banister.data import Float, Int, Number, TaskData, Whole, as_matrix, is_number, joined_labels
from banister.errors import ConvergenceWarning, InputError, NotFittedError, SettingError
from banister.estimators import rank as ranks
from banister.estimators._centring import Centring
from banister.estimators._notes import data_notes, solve_note
from banister.estimators.base import Labels, MultiTaskRegressor, check_rank, label_list
from banister.estimators.confidence import LowRankCovariance, least_squares_covariance
from banister.estimators.paper import PaperSolver
from banister.estimators.search import Found, Search, find
from banister.estimators.shrinkage import Moments, RandomEffects, discounted, random_effects
from banister.solver import LocalPool, Pool, RayPool, Solution, Whitening


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
        seed: of the random starts, which are used only where the spectral ones disagree, and of the sample of
            tasks that goes first where there are many.
        pool: where the passes are made: "local" (threads of this process), "ray" (a cluster on this machine),
            or a function from `TaskData` to a pool, such as `partial(RayPool, address="auto")`. Data that sit
            in a pool already, such as a `DiskPool`, go to `fit_data`. Results do not depend on it.

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

    made_by_fit = "W_"
    B_: Float
    W_: Float
    _theta: Float | None = None

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
        pool: Literal["local", "ray"] | Callable[[TaskData], Pool] = "local",
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
        self.pool = pool

    def fit_data(self, data: TaskData | Pool) -> Self:
        """Fit data that is a `TaskData` already, or that sits in a pool."""
        self._theta = None
        return super().fit_data(data)  # type: ignore[arg-type]

    def _fit(self, data: TaskData | Pool) -> None:
        self._check_settings(data)
        self._centring: Centring | None = None
        self._covariance: LowRankCovariance | None = None
        self._data: Pool | None = None
        if not isinstance(data, TaskData):
            self._fit_pool(data)
            return
        if self.fit_intercept:
            self._centring = Centring.of(data)
            data = self._centring.apply(data)
        with self._pool_of(data) as pool:
            self._fit_pool(pool)
        self._data = LocalPool(data, threads=self.threads)

    def _pool_of(self, data: TaskData) -> Pool:
        if callable(self.pool):
            return self.pool(data)
        return RayPool(data) if self.pool == "ray" else LocalPool(data, threads=self.threads)

    def _fit_pool(self, pool: Pool) -> None:
        self._data = pool
        self._counts = pool.counts
        self._whitening = Whitening.of(pool)
        found = self._solve(pool)
        pool.release()
        self.starts_agree_ = found.agreed
        self._keep(pool, found.solution)
        self._note(pool)

    def _check_settings(self, data: TaskData | Pool) -> None:
        if not (isinstance(self.rank, str) and self.rank == "auto"):
            check_rank(self.rank, data)
        known = isinstance(self.solver, str) and self.solver in ("fast", "paper")
        if not known and not isinstance(self.solver, PaperSolver):
            raise SettingError(f"solver={self.solver!r} must be 'fast', 'paper' or a PaperSolver.")
        if not callable(self.pool) and not (isinstance(self.pool, str) and self.pool in ("local", "ray")):
            raise SettingError(
                f"pool={self.pool!r} must be 'local', 'ray' or a function that makes a pool; a packed folder "
                "goes to fit_data(DiskPool(folder))."
            )
        for name, allowed in (("fit_intercept", (bool, np.bool_)), ("shrink", (bool, np.bool_, type(None)))):
            if not isinstance(getattr(self, name), allowed):
                raise SettingError(f"{name}={getattr(self, name)!r} must be True or False.")
        if self.fit_intercept and not isinstance(data, TaskData):
            raise SettingError("fit_intercept=True needs rows in memory; a pool's rows are not centred.")
        if self.noise_std is not None and not (
            is_number(self.noise_std) and 0 < float(self.noise_std) < 1e150
        ):
            raise SettingError(f"noise_std={self.noise_std!r} must be a positive number, or None.")
        if not (is_number(self.tol) and 0 < self.tol < 1):
            raise SettingError(f"tol={self.tol!r} must lie between 0 and 1.")
        for name, least in (("max_passes", 1), ("seed", 0)):
            value = getattr(self, name)
            if not (is_number(value) and isinstance(value, (int, np.integer)) and value >= least):
                raise SettingError(f"{name}={getattr(self, name)!r} must be a whole number from {least} up.")

    def _solve(self, data: Pool) -> Found:
        if self.solver != "fast":
            return self._solve_as_printed(data)
        found = find(
            data, self._whitening, None if self.rank == "auto" else int(self.rank), self._search(data)
        )
        if not found.stands_out:
            self.warnings_.append(
                "No shared direction stands out from the noise; rank 1 was used. More rows would tell."
            )
        return found

    def _search(self, data: Pool) -> Search:
        return Search(
            rng=np.random.default_rng(self.seed),
            tol=float(max(self.tol, 1e-5) if data.dtype == np.float32 else self.tol),
            max_passes=int(self.max_passes),
            threads=self.threads,
            intercepts=self.fit_intercept,
        )

    def _solve_as_printed(self, data: Pool) -> Found:
        if not isinstance(data, LocalPool):
            raise SettingError("The paper's solver needs rows in memory; use solver='fast' with a pool.")
        paper = self.solver if isinstance(self.solver, PaperSolver) else PaperSolver()
        rank = self.rank
        if rank == "auto":
            rank = find(data, self._whitening, None, self._search(data)).solution.B.shape[1]
        return Found(paper.solve(data.data, int(rank)), True)

    def _keep(self, data: Pool, solution: Solution) -> None:
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

    def _shrink(self, data: Pool, noise: float | None) -> float:
        """Random effects in the whitened basis, then back: Θ = A B̃ W̃ = B_ (R W̃)."""
        moments = self._moments(data)
        effects = random_effects(moments, dim=data.dim, noise=noise)
        self._effects = discounted(effects, self._coefficients, moments.free, data.dim)
        self._means = effects.W  # a dropped direction must not look certain: covariances keep its size
        R = self.B_.T @ self._whitening.A @ self._basis
        self.W_ = R @ self._effects.W.T
        self.prior_mean_, self.prior_cov_ = R @ self._effects.mean, R @ self._effects.cov @ R.T
        return self._effects.noise

    def _moments(self, data: TaskData | Pool) -> Moments:
        within = self._whitening.A @ self._basis
        return Moments.of(data, within, intercepts=self.fit_intercept)

    def _set_theta(self) -> None:
        self._theta = None
        self.intercept_: Float = np.zeros(self.W_.shape[1])
        if self._centring is not None:
            self.intercept_ = self._centring.intercepts(self.theta_)

    @property
    def theta_(self) -> Float:  # type: ignore[override]
        """B_ W_, made when first asked for: a million tasks need not have it."""
        if self._theta is None:
            self._theta = self.B_ @ self.W_
        return self._theta

    def _note(self, data: Pool) -> None:
        self.warnings_ += data_notes(
            data, self.rank_, shrunk=self._effects is not None, intercepts=self.fit_intercept
        )
        note = solve_note(self.converged_, self.starts_agree_, self.n_passes_)
        if note is not None:
            self.warnings_.append(note)
            warnings.warn(note, ConvergenceWarning, stacklevel=7)  # the line that called fit

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
        Z = as_matrix(X, "X", dim=self.n_features_in_) @ self.B_
        mean = Z @ self.prior_mean_ + float(self.intercept_.mean())
        if not return_std:
            return mean
        spread = np.einsum("mi,ij,mj->m", Z, self.prior_cov_, Z) + float(self.intercept_.var())
        return mean, np.sqrt(spread)

    def add_tasks(self, X: ArrayLike, y: ArrayLike, tasks: Labels) -> Self:
        """Add new tasks from a handful of rows: B stays, only their coefficients are fitted."""
        self._check_fitted()
        features = as_matrix(X, "X", dtype=self.dtype, dim=self.n_features_in_)
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
        rewards: Float = np.einsum("ij,ji->i", X @ self.B_, self.W_[:, codes]) + self.intercept_[codes]
        return rewards

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
        if hasattr(self, self.made_by_fit):
            self._materialise()
        return dict(super().__getstate__())
