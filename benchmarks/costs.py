"""Measure what a trial costs at every point, for `banister reproduce --dry-run` to look up.

One trial of everything, in one process on one thread, by the processor's clock rather than the wall's, so
that a busy machine does not count. About four minutes. Writes src/banister/studies/costs.json.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from banister.simulation import wrappers
from banister.simulation.many import run_jobs
from banister.simulation.store import Job, Store
from banister.studies import play as playing
from banister.studies.competitors import EVERYONE
from banister.studies.costs import measured
from banister.studies.manifest import made_with
from banister.studies.panels import DEFAULT, PANELS
from banister.studies.running import prepare
from banister.studies.workload import workload_for

TARGET = Path(__file__).resolve().parents[1] / "src" / "banister" / "studies" / "costs.json"


def main() -> None:
    wrappers.perf_counter = playing.perf_counter = time.process_time
    work = workload_for(PANELS.values(), trials=1)
    prepare(work.points, print)
    playing.play(Job(point=DEFAULT, trial=1, policies=EVERYONE, seed=0))  # compile, and fill the caches
    with tempfile.TemporaryDirectory() as folder:
        for job in run_jobs(work.jobs(), playing.play, folder, workers=1):
            print(job.point.name, flush=True)
        costs = measured(Store(folder).rows())
    made = made_with()
    where = f"{made['processor']}, {made['cores']} cores, banister {made['banister']} {made['revision']}"
    seconds = {
        point: {policy: round(value, 4) for policy, value in sorted(by_policy.items())}
        for point, by_policy in sorted(costs.items())
    }
    TARGET.write_text(json.dumps({"measured": where, "seconds": seconds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
