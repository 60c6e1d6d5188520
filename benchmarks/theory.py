"""Measures what docs/theory.md reports: the paper's setting simulated in plain numpy, beside its bounds.

Run with OMP_NUM_THREADS=1; about a minute of one core. Writes docs/figures/theory-*.svg and theory.json.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.stats import norm

from banister import theory as th
from theory_figures import OUT, draw

DIM, TASKS, RANK, ROWS, ACTIONS, PLACE = 100, 100, 2, 50, 10, 5  # the paper's default setting
RHOS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.5, 0.75, 1.0)
Array = np.ndarray[Any, Any]


# ---- the setting -------------------------------------------------------------------------------------------


def truth(rng: np.random.Generator, kappa: float = 1.0) -> tuple[Array, Array]:
    """B* (d, r) and W* (r, T) with singular values from 1 down to 1/kappa."""
    B = np.linalg.qr(rng.standard_normal((DIM, RANK)))[0]
    V = np.linalg.qr(rng.standard_normal((TASKS, RANK)))[0]
    return B, np.linspace(1.0, 1.0 / kappa, RANK)[:, None] * V.T


def near(B: Array, distance: float, rng: np.random.Generator) -> Array:
    """An orthonormal matrix at the given subspace distance from B."""
    outside = rng.standard_normal(B.shape)
    outside -= B @ (B.T @ outside)
    Q = np.linalg.qr(outside)[0]
    sine = distance / np.sqrt(RANK)
    return B * np.sqrt(1.0 - sine**2) + Q * sine


def features(theta: Array, place: int | None, rho: float, rng: np.random.Generator) -> Array:
    """(T, n, d) mixtures (1−ρ)x_b + ρζ; the baseline is Gaussian, or the `place`-th best of K such."""
    X = rng.standard_normal((TASKS, ROWS, DIM))
    if place is not None:  # only the component along θ_t knows which action was picked
        u = (theta / np.linalg.norm(theta, axis=0)).T
        picked = np.sort(rng.standard_normal((TASKS, ROWS, ACTIONS)), axis=-1)[..., -place]
        X += (picked - np.einsum("tnd,td->tn", X, u))[..., None] * u[:, None, :]
    if rho > 0:
        X = (1.0 - rho) * X + rho * rng.standard_normal(X.shape)
    return X


def rows_of(theta: Array, place: int | None, rho: float, noise: float, rng: np.random.Generator) -> Any:
    """A function that draws fresh features (T, n, d) and rewards (T, n)."""

    def draw() -> tuple[Array, Array]:
        X = features(theta, place, rho, rng)
        return X, np.einsum("tnd,dt->tn", X, theta) + noise * rng.standard_normal((TASKS, ROWS))

    return draw


def altgdmin_step(B: Array, gamma: float, draw: Any) -> Array:
    """One iteration of Algorithm 1 on fresh rows for each half, as its sample splitting has it."""
    X, y = draw()
    XB = X @ B
    W = np.linalg.solve(XB.transpose(0, 2, 1) @ XB, np.einsum("tnr,tn->tr", XB, y)[..., None])[..., 0]
    X, y = draw()
    residual = np.einsum("tnr,tr->tn", X @ B, W) - y
    gradient = np.einsum("tnd,tn->td", X, residual).T @ W
    return np.linalg.qr(B - gamma / ROWS * gradient)[0]


def distances(
    *,
    seed: int,
    rho: float = 0.0,
    place: int | None = None,
    noise: float = 0.0,
    kappa: float = 1.0,
    steps: int = 25,
    start: float | None = None,
    c: float = 0.5,
) -> tuple[Array, float]:
    """Subspace distances over the iterations, and γ σ*_min²; the step uses the true σ*_max = 1."""
    rng = np.random.default_rng(seed)
    B_star, W = truth(rng, kappa)
    theta = B_star @ W
    draw = rows_of(theta, place, rho, noise, rng)
    mu = th.incoherence(theta, rank=RANK)
    first = float(th.required_start(mu=mu, rank=RANK, kappa=kappa)) if start is None else start
    B, path = near(B_star, first, rng), []
    slack = 1.0 + 0.04 / (1.0 - 2.0 * rho) ** 2 if rho != 0.5 else 1.0  # the paper has no step at ½
    gamma = c / slack**2
    for _ in range(steps + 1):
        path.append(th.subspace_distance(B, B_star))
        B = altgdmin_step(B, gamma, draw)
    return np.array(path), gamma / kappa**2


def coefficient(path: Array, unit: float) -> tuple[float, float]:
    """The `a` of 1 − a γ σ²: by the mean rate over the path, and by its worst single iteration."""
    path = path[path > 1e-10]  # below it rounding takes over
    ratio = path[1:] / path[:-1]
    mean = np.exp(np.log(ratio).mean())
    return float((1.0 - mean) / unit), float((1.0 - ratio.max()) / unit)


# ---- the measurements --------------------------------------------------------------------------------------


def measure_contraction() -> dict[str, Any]:
    """Measured against printed and proved coefficients of T5 and T11."""
    by_rho = []
    for rho in RHOS:
        pairs = [coefficient(*distances(seed=s, rho=rho)) for s in range(3)]
        proved = None if 0.25 < rho < 0.75 else float(th.proved_coefficient(rho=rho))
        mean, worst = np.mean([p[0] for p in pairs]), np.min([p[1] for p in pairs])
        by_rho.append({"rho": rho, "mean": mean, "worst": worst, "printed": 0.23, "proved": proved})
    designs = {}
    for name, place in (("Gaussian", None), ("5th best of 10", PLACE), ("best of 10", 1)):
        for kappa in (1.0, 3.0):
            runs = [coefficient(*distances(seed=s, place=place, kappa=kappa, steps=30)) for s in range(3)]
            worst = np.min([p[1] for p in runs])
            designs[f"{name}, kappa={kappa:g}"] = {"mean": np.mean([p[0] for p in runs]), "worst": worst}
    far = [distances(seed=s, start=1.0, steps=40)[0] for s in range(5)]
    reached = [int(np.argmax(p < 1e-6)) if (p < 1e-6).any() else None for p in far]
    return {"by_rho": by_rho, "designs": designs, "iterations from SD=1 to 1e-6": reached}


def measure_step() -> dict[str, Any]:
    """The paper's practical step γ = c/‖Θ̂_0‖² on features that a policy picked, from its own start."""
    rows = {}
    for name, place in (("Gaussian", None), ("5th best of 10", PLACE), ("best of 10", 1)):
        rng = np.random.default_rng(5)
        B_star, W = truth(rng)
        theta = B_star @ W
        draw = rows_of(theta, place, 0.0, 1e-3, rng)
        X, y = draw()
        y = y * (y**2 <= th.estimated_truncation_multiplier(y.T) * (y**2).mean())
        U, spectrum, _ = np.linalg.svd(np.einsum("tnd,tn->dt", X, y) / ROWS, full_matrices=False)
        along = np.einsum("tnd,dt->tn", X, theta / np.linalg.norm(theta, axis=0))
        ends = {}
        for label, gamma in (("paper's step", 0.5 / spectrum[0] ** 2), ("true sigma_max", 0.5)):
            B = U[:, :RANK]
            for _ in range(60):
                B = altgdmin_step(B, gamma, draw)
            ends[f"distance after 60, {label}"] = th.subspace_distance(B, B_star)
        start = th.subspace_distance(U[:, :RANK], B_star)
        rows[name] = {
            "E[(x'u)^2]": float((along**2).mean()),
            "norm of start": float(spectrum[0]),
            "distance of start": start,
            **ends,
        }
    return rows


def measure_noise_floor() -> dict[str, Any]:
    """Where the distance stops falling, which Theorem T5 as printed does not say."""
    runs = {}
    for noise in (0.0, 1e-3, 1e-2, 1e-1):
        path, unit = distances(seed=0, noise=noise, steps=60)
        printed = path[0] * (1.0 - 0.23 * unit) ** np.arange(len(path))
        broken = np.flatnonzero(path > printed)
        floor, nsr = float(np.median(path[-15:])), TASKS * noise**2
        runs[f"{noise:g}"] = {
            "path": path,
            "printed": printed,
            "floor": floor,
            "first broken": int(broken[0]) if len(broken) else None,
            "rows given": ROWS * TASKS,
            "rows asked, printed (C=1)": float(_rows_asked(nsr, 1.0)),
            "rows asked, corrected (C=1)": float(_rows_asked(nsr, floor)),
        }
    return runs


def _rows_asked(nsr: float, target: float) -> Any:
    size = {"dim": DIM, "rank": RANK, "tasks": TASKS, "mu": 1.0, "kappa": 1.0, "nsr": nsr}
    return th.first_epoch_samples(**size, target=target, with_start=False).total


def measure_regret() -> dict[str, Any]:
    """Epoch 1's regret against T10, with G1 = N/4 as in the experiments and G1 = √N as in the schedule."""
    rng = np.random.default_rng(1)
    B, W = truth(rng)
    norms = np.linalg.norm(B @ W, axis=0)
    mu = th.incoherence(B @ W, rank=RANK)
    common = {"tasks": TASKS, "rank": RANK, "rho": 0.0, "sigma_max": 1.0, "delta": 0.01}
    grid = np.array([10, 25, 50, 100, 200, 400, 800, 1600, 3200])
    measured = np.array([_epoch_one(norms, int(g), rng) for g in grid])
    slope = th.first_epoch_slope(theta_norms=norms, rho=0.0, actions=ACTIONS, place=PLACE)
    corrected = th.first_epoch_regret(
        rounds=grid, theta_norms=norms, rho=0.0, actions=ACTIONS, place=PLACE, delta=0.01
    )
    rest = {"epochs": 4, "iterations": 100, "dim": DIM}
    printed = {
        m: th.regret_bound(rounds=4 * grid, mu=v, **common, **rest).value for m, v in (("1", 1.0), ("mu", mu))
    }
    root = th.regret_bound(rounds=grid**2, mu=1.0, **common, **rest).value
    fails = {
        m: float(th.failing_rounds(slope=slope, share=0.25, mu=v, **common))
        for m, v in (("1", 1.0), ("mu", mu))
    }
    return {
        "G1": grid,
        "measured": measured,
        "slope": float(slope),
        "mu": mu,
        "epoch-1 bound, printed (mu=1)": th.first_epoch_regret_printed(rounds=grid, mu=1.0, **common).value,
        "epoch-1 bound, corrected": corrected.value,
        "T10, N=4 G1, mu=1": printed["1"],
        "T10, N=4 G1, mu": printed["mu"],
        "T10, N=G1^2, mu=1": root,
        "fails from G1 (N=4 G1, mu=1)": fails["1"],
        "fails from G1 (N=4 G1, mu)": fails["mu"],
        "growth with T": _growth_with_tasks(rng),
    }


def _growth_with_tasks(rng: np.random.Generator) -> dict[str, Any]:
    """Exponent of T in epoch 1's regret: orthonormal W* (σ = 1), and tasks of fixed size (σ ∝ √T)."""
    tasks, regret = np.array([25, 100, 400, 1600]), {"sigma_max = 1": [], "norms fixed": []}
    for n in tasks:
        V = np.linalg.qr(rng.standard_normal((n, RANK)))[0]
        norms = np.linalg.norm(V, axis=1)
        regret["sigma_max = 1"].append(_epoch_one(norms, ROWS, rng))
        regret["norms fixed"].append(_epoch_one(norms * np.sqrt(n / RANK), ROWS, rng))
    return {k: float(np.polyfit(np.log(tasks), np.log(v), 1)[0]) for k, v in regret.items()}


def _epoch_one(norms: Array, rounds: int, rng: np.random.Generator) -> float:
    total = 0.0
    for start in range(0, rounds, 200):
        n = min(200, rounds - start)
        rewards = np.sort(rng.standard_normal((n, len(norms), ACTIONS)), axis=-1) * norms[:, None]
        total += float((rewards[..., -1] - rewards[..., -PLACE]).sum())
    return total


def measure_rho() -> dict[str, Any]:
    """Lemma l8: how often any of G1·T mixtures breaks its floor, and how much larger ρ could have been."""
    rng = np.random.default_rng(2)
    n, trials = ROWS * TASKS, 2000
    baseline = np.sort(rng.standard_normal((n, ACTIONS)), axis=-1)[:, -PLACE]  # ‖θ‖ = 1
    lowest = np.concatenate([_lowest(baseline, rng, trials // 20) for _ in range(20)])
    rows = []
    for delta in (0.5, 0.2, 0.1, 0.05, 0.01):
        reach = float(th.gaussian_radius(events=n, delta=delta))
        exact = float(norm.isf(1.0 - (1.0 - delta) ** (1.0 / n)))
        rows.append(
            {
                "delta": delta,
                "runs with a violation": float((lowest < -reach).mean()),
                "reach, lemma": reach,
                "reach, exact": exact,
                "rho could be larger by (r_b = |theta|)": (1.0 + reach) / (1.0 + exact) - 1.0,
            }
        )
    rho = th.largest_safe_rho(
        baseline_reward=baseline, alpha=0.2, theta_norm=1.0, rounds=ROWS, tasks=TASKS, delta=0.05
    ).value
    return {
        "trials": trials,
        "rows": rows,
        "mean rho (alpha=0.2, delta=0.05)": float(rho.mean()),
        "share of rounds with r_b < 0": float((baseline < 0).mean()),
        "mean rho where r_b < 0": float(rho[baseline < 0].mean()),
    }


def _lowest(baseline: Array, rng: np.random.Generator, trials: int) -> Array:
    """The lowest ζ'θ/‖θ‖ of each run, among rounds in which a mixture was played (ρ > 0)."""
    return rng.standard_normal((trials, len(baseline)))[:, baseline != 0].min(axis=1)


def measure_greedy() -> dict[str, Any]:
    """Theorem l9: rounds it certifies against rounds that are safe, by the size of the error."""
    rng = np.random.default_rng(3)
    n, alpha, delta = 200_000, 0.2, 0.05
    Z, noise = rng.standard_normal((n, ACTIONS)), rng.standard_normal((n, ACTIONS))
    order = np.sort(Z, axis=1)
    r_b, gap = order[:, -PLACE], order[:, -1] - order[:, -PLACE]
    margin = th.safety_margin(baseline_gap=gap, baseline_reward=r_b, alpha=alpha)
    limit = th.largest_safe_error(margin=margin, rounds=200, tasks=TASKS, actions=ACTIONS, delta=delta)
    rows = []
    for error in (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0):
        # the worst estimate of this error: θ̂ at sin φ = error from θ
        seen = np.sqrt(1.0 - error**2) * Z + error * noise
        played = Z[np.arange(n), np.argmax(seen, axis=1)]
        safe, certified = played >= r_b - alpha * np.abs(r_b), error <= limit
        broken = int((certified & ~safe).sum())
        loss = order[:, -1] - played
        bound = float(th.greedy_regret_mean(rounds=1, theta_norm=1.0, error=error, actions=ACTIONS))
        rows.append(
            {
                "error": error,
                "safe": float(safe.mean()),
                "certified": float(certified.mean()),
                "certified but unsafe": broken,
                "regret per round": float(loss.mean()),
                "its standard error": float(loss.std() / np.sqrt(n)),
                "bound on its mean": bound,
            }
        )
    return {"rounds": n, "rows": rows, **_iterations(margin)}


def _iterations(margin: Array) -> dict[str, Any]:
    """L per round at the default setting (unit ‖θ_t‖, κ = 1, ρ = 0), printed and corrected."""
    shared = {"margin": margin, "theta_norm": 1.0, "rho": 0.0, "kappa": 1.0, "rounds": 200, "tasks": TASKS}
    right = th.safety_iterations(**shared, actions=ACTIONS, delta=0.05, c=0.5).value
    wrong = th.safety_iterations_printed(**shared, delta=0.05, C=1.0).value
    return {
        "L corrected: median, 99 %, most": [
            float(np.median(right)),
            float(np.quantile(right, 0.99)),
            float(right.max()),
        ],
        "L printed (C=1): least, median, most": [
            float(wrong.min()),
            float(np.median(wrong)),
            float(wrong.max()),
        ],
        "T10 L printed (C=1), rho=0": float(th.regret_iterations_printed(rho=0.0, kappa=1.0)),
        "T10 L corrected, rho=0": float(th.regret_iterations(rho=0.0, kappa=1.0)),
    }


def measure_gram() -> list[dict[str, float]]:
    """Proposition p1: max_t ‖(B'Φ'ΦB)⁻¹‖·G1 against the printed and the constant-free bound."""
    rng, rows = np.random.default_rng(4), []
    for rho in (0.0, 0.1, 0.25, 0.4, 0.45, 0.5, 0.6, 0.75, 1.0):
        worst = []
        for _ in range(50):
            XB = (1 - rho) * rng.standard_normal((TASKS, 200, RANK)) + rho * rng.standard_normal(
                (TASKS, 200, RANK)
            )
            worst.append(200 / np.linalg.svd(XB, compute_uv=False)[:, -1].min() ** 2)
        size = {"rho": rho, "rows": 200, "rank": RANK, "tasks": TASKS}
        printed = 200 * float(th.gram_inverse(**size))
        exact = 200 * float(th.gram_inverse_exact(**size, delta=0.05))
        rows.append({"rho": rho, "measured, most of 50 runs": max(worst), "printed": printed, "exact": exact})
    return rows


def plain(value: Any) -> Any:
    """Numbers to four digits, for a file that can be read and compared."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(v) for v in value]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.4g}") if np.isfinite(value) else str(value)
    return value


def main() -> None:
    result = {
        "contraction": measure_contraction(),
        "step": measure_step(),
        "noise floor": measure_noise_floor(),
        "regret": measure_regret(),
        "rho": measure_rho(),
        "greedy": measure_greedy(),
        "gram": measure_gram(),
    }
    draw(result)
    for run in result["noise floor"].values():
        del run["path"], run["printed"]  # they are in the figure
    text = json.dumps(plain(result), indent=1, ensure_ascii=False)
    (OUT / "theory.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
