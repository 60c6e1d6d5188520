"""The README's figure: regret and violations as the noise grows.

python docs/figures/noise.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from banister import BaselineOnly, SafeAltGDmin, Synthetic
from banister.report.style import COLOURS
from banister.simulation.trial import one_trial

NOISE = (0.001, 0.01, 0.03, 0.1, 0.3)
STYLE = {
    "policy in place": (COLOURS["grey"][0], "--"),
    "paper's schedule, converged fit": (COLOURS["red"][0], "-"),
    "Banister, baseline reward unknown": (COLOURS["violet"][0], "-"),
    "Banister": (COLOURS["blue"][0], "-"),
}


def measure(noise: float, seed: int) -> dict[str, tuple[float, int]]:
    env = Synthetic(noise_std=noise)
    known = one_trial(
        env,
        {
            "policy in place": BaselineOnly(),
            "paper's schedule, converged fit": SafeAltGDmin(safety="converged"),
            "Banister": SafeAltGDmin(),
        },
        seed=seed,
    )
    blind = one_trial(
        Synthetic(noise_std=noise, baseline_known=False),
        {"Banister, baseline reward unknown": SafeAltGDmin()},
        seed=seed,
    )
    return {name: (r.regret.sum(), int(r.violations.sum())) for name, r in {**known, **blind}.items()}


def draw(values: dict[float, list[dict[str, tuple[float, int]]]], path: Path) -> None:
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    for name, (colour, line) in STYLE.items():
        for axis, part in zip(axes, (0, 1), strict=True):
            mean = [np.mean([run[name][part] for run in values[n]]) for n in NOISE]
            axis.plot(NOISE, mean, line, color=colour, marker="o", markersize=4, label=name, linewidth=2)
    axes[0].set(xscale="log", xlabel="noise (std) of a reward", title="Regret over 200 rounds of 100 tasks")
    axes[1].set(xscale="log", xlabel="noise (std) of a reward", title="Decisions below the floor, of 20,000")
    axes[0].set_ylim(0)
    axes[1].set_yscale("symlog", linthresh=1)
    axes[1].set_ylim(-0.3)
    axes[0].legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(0.0, 0.86))
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("noise.png"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    draw({n: [measure(n, s) for s in range(options.seeds)] for n in NOISE}, options.out)


if __name__ == "__main__":
    main()
