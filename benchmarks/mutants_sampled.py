"""Faults that nobody chose, in safety, learner and online code: nearly all must make a test fail.

    python benchmarks/mutants_sampled.py        # the sample; exit code 1 if one survives without a reason
    python benchmarks/mutants_sampled.py online # those of it whose path or name contains this word

`mutation_sample.py` draws them. Where a survivor shows a guard that no test holds, it gets a test; the others
stand below with the reason why no test can, or need, notice them.
"""

from __future__ import annotations

import mutants as chosen
import mutants_online as chosen_online
from mutation import main
from mutation_sample import sample

ROOMS, SEED, NUMBER = ["safety", "learner", "online"], 2026, 100
_BELIEFS = ["test_belief.py", "test_judge.py"]
_CALLS = ["test_online_calls.py", "test_online.py"]
_LOGS = ["test_online_logs.py", "test_online_raw.py"]
_TELLING = ["advice", "dry_run", "live_needs", "needed", "off_policy", "outlook", "status", "tables"]
_OTHERS = [*_CALLS, "test_online_parts.py", "test_online_data.py", "test_online_bad_input.py"]
_SHARED = ["test_online_shared.py"]  # needs BANISTER_TEST_POSTGRES

TESTS = chosen.TESTS | chosen_online.TESTS | {
    "safety/_small_kernels.py": ["test_compact.py", "test_judge.py"],
    "safety/belief.py": _BELIEFS,
    "safety/constraint.py": ["test_constraint.py"],
    "safety/evidence.py": ["test_evidence.py"],
    "safety/exploration.py": ["test_exploration.py"],
    "safety/gathering.py": ["test_gathering.py"],
    "safety/given.py": ["test_gathering.py", *_BELIEFS],
    "safety/norm_guess.py": ["test_norm_guess.py"],
    "safety/opened.py": ["test_stored.py", *_BELIEFS],
    "safety/reasons.py": ["test_judge.py"],
    "learner/blocks.py": ["test_memory.py", "test_journal.py"],
    "online/bandit.py": [*_CALLS, "test_online_bad_input.py", "test_online_service.py"],
    "online/chain.py": [*chosen_online.TESTS["online/chain.py"], "test_online_audit.py"],
    "online/door.py": ["test_online_bad_input.py", "test_online_raw.py"],
    "online/export.py": [*_CALLS, "test_online_raw.py"],
    "online/log_blocks.py": _LOGS,
    "online/logs.py": _LOGS,
    "online/raw.py": _LOGS,
    **{f"online/{name}.py": ["test_reports.py", "test_online_parts.py", *_LOGS] for name in _TELLING},
    "online/postgres/copying.py": _SHARED,
    "online/postgres/place.py": _SHARED,
    "online/postgres/reading.py": _SHARED,
    "online/postgres/schema.py": _SHARED,
}  # fmt: skip

EXCUSED = {  # the title of a fault, and why no test can, or need, notice it
    "learner/learner.py: 1 -> 2 (3)": "a bound's place for one request is longer, and nobody reads its second entry",
    "safety/noise.py: 10000.0 -> 10001.0": "degrees of freedom that stand for infinitely many: no quantile tells them apart",
}  # fmt: skip

MUTANTS = sample(ROOMS, NUMBER, SEED)
TESTS = {m.path: TESTS.get(m.path, _OTHERS) for m in MUTANTS}

if __name__ == "__main__":
    raise SystemExit(main(MUTANTS, TESTS, EXCUSED))
