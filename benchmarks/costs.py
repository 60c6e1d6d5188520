"""Write what a trial costs, from a finished run, to where `banister reproduce --dry-run` looks it up.

Usage: python benchmarks/costs.py RUN
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from banister.simulation.store import Store
from banister.studies.costs import measured

TARGET = Path(__file__).resolve().parents[1] / "src" / "banister" / "studies" / "costs.json"


def main(folder: str) -> None:
    store = Store(folder)
    made = store.manifest()["made_with"]
    where = f"{made['processor']}, {made['cores']} cores, banister {made['banister']} {made['revision']}"
    seconds = {
        point: {policy: round(value, 4) for policy, value in sorted(by_policy.items())}
        for point, by_policy in sorted(measured(store.rows()).items())
    }
    TARGET.write_text(json.dumps({"measured": where, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
