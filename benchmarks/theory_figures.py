"""The figures of docs/theory.md, drawn from what benchmarks/theory.py measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from banister import theory as th

OUT = Path(__file__).resolve().parents[1] / "docs" / "figures"


def draw(result: dict[str, Any]) -> None:
    plt.switch_backend("Agg")
    style = {"svg.fonttype": "none", "svg.hashsalt": "banister", "axes.grid": True, "grid.alpha": 0.3}
    with plt.rc_context(style):
        figure_contraction(result["contraction"])
        figure_floor(result["noise floor"])
        figure_regret(result["regret"])
        figure_greedy(result["greedy"])


def figure_contraction(data: dict[str, Any]) -> None:
    rows = [row for row in data["by_rho"] if row["rho"] <= 0.25]
    grid = np.linspace(0, 0.25, 60)
    fig, ax = plt.subplots(figsize=(5.2, 3.4))
    ax.plot(grid, th.mixture_variance(rho=grid), ":", color="0.5", label="2ρ²−2ρ+1 (infinite data)")
    ax.plot([r["rho"] for r in rows], [r["mean"] for r in rows], "o-", label="measured, mean")
    ax.plot([r["rho"] for r in rows], [r["worst"] for r in rows], "v", label="measured, worst iteration")
    ax.plot(grid, th.proved_coefficient(rho=grid), "--", label="what the proof supports")
    ax.axhline(0.23, color="k", lw=1, label="Theorem T5, printed")
    ax.set(xlabel="ρ", ylabel="a in  1 − a γ σ²min", ylim=(-0.1, 1.5))
    ax.legend(fontsize=8, loc="upper right")
    save(fig, "theory-contraction")


def figure_floor(runs: dict[str, Any]) -> None:
    fig, ax = plt.subplots(figsize=(5.2, 3.4))
    for noise, run in runs.items():
        ax.semilogy(np.maximum(run["path"], 1e-16), label=f"noise {noise}")
    ax.semilogy(next(iter(runs.values()))["printed"], "k--", lw=1, label="Theorem T5, printed")
    ax.set(xlabel="iteration", ylabel="subspace distance")
    ax.legend(fontsize=8)
    save(fig, "theory-floor")


def figure_regret(data: dict[str, Any]) -> None:
    fig, ax = plt.subplots(figsize=(5.2, 3.4))
    ax.loglog(data["G1"], data["measured"], "o-", label="epoch-1 regret, measured")
    ax.loglog(data["G1"], data["epoch-1 bound, corrected"], "--", label="epoch-1 bound, corrected")
    ax.loglog(data["G1"], data["epoch-1 bound, printed (mu=1)"], "k:", label="epoch-1 bound, printed")
    ax.loglog(data["G1"], data["T10, N=4 G1, mu=1"], "k", lw=1, label="Theorem T10, N = 4 G₁")
    ax.loglog(data["G1"], data["T10, N=G1^2, mu=1"], color="0.6", lw=1, label="Theorem T10, N = G₁²")
    ax.axvline(data["fails from G1 (N=4 G1, mu=1)"], color="C3", lw=0.8)
    ax.set(xlabel="G₁, rounds of epoch 1", ylabel="regret, all tasks")
    ax.legend(fontsize=8)
    save(fig, "theory-regret")


def figure_greedy(data: dict[str, Any]) -> None:
    fig, ax = plt.subplots(figsize=(5.2, 3.4))
    error = [r["error"] for r in data["rows"]]
    ax.semilogx(error, [r["safe"] for r in data["rows"]], "o-", label="greedy play is safe")
    ax.semilogx(error, [r["certified"] for r in data["rows"]], "s--", label="Theorem l9 (corrected) says so")
    ax.set(xlabel="error of the estimate, in units of ‖θ‖", ylabel="share of rounds")
    ax.legend(fontsize=8)
    save(fig, "theory-greedy")


def save(fig: Any, name: str) -> None:
    fig.tight_layout()
    fig.savefig(OUT / f"{name}.svg", metadata={"Date": None})
    plt.close(fig)
