"""What a run was made of: settings, seeds, versions, machine, duration."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from banister import __version__
from banister.errors import SettingError
from banister.simulation.store import Store
from banister.studies.competitors import COMPETITORS
from banister.studies.workload import Workload

_LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "polars", "joblib", "matplotlib")


def describe(workload: Workload, *, kind: str, panels: list[str], command: str) -> dict[str, Any]:
    """The manifest of a run that is about to begin."""
    counts: dict[str, dict[str, int]] = {}
    for (point, policy), trials in workload.trials.items():
        counts.setdefault(point.name, {})[policy] = trials
    return {
        "schema": 1,
        "kind": kind,
        "command": command,
        "seed": workload.seed,
        "fingerprint": fingerprint(workload),
        "panels": panels,
        "trials": counts,
        "competitors": {name: asdict(c) for name, c in COMPETITORS.items()},
        "made_with": made_with(),
        "sessions": [],
    }


def fingerprint(workload: Workload) -> str:
    """Of everything that decides rows besides their point and trial: rows of two of them must not mix."""
    settings = {name: [c.home, sorted(c.settings.items()), c.takes] for name, c in COMPETITORS.items()}
    text = json.dumps([__version__, workload.seed, settings], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def resume(store: Store, fresh: dict[str, Any]) -> dict[str, Any]:
    """The manifest to go on with: the fresh one, with the sessions and trials of the folder so far."""
    old = store.manifest()
    if not old:
        return fresh
    if old.get("fingerprint") != fresh["fingerprint"]:
        raise SettingError(
            f"{store.folder} holds results of other settings (seed {old.get('seed')}, "
            f"version {old.get('made_with', {}).get('banister')}); rows of the two must not mix. "
            "Give another folder with --out."
        )
    trials = {**old["trials"]}
    for point, counts in fresh["trials"].items():
        have = trials.setdefault(point, {})
        for policy, count in counts.items():
            have[policy] = max(count, have.get(policy, 0))
    panels = list(dict.fromkeys([*old["panels"], *fresh["panels"]]))
    return {**fresh, "trials": trials, "panels": panels, "sessions": old["sessions"]}


def session(began: datetime, jobs: int, workers: int) -> dict[str, Any]:
    """One stretch of work on a run; a run that was interrupted has several."""
    now = datetime.now(UTC)
    return {
        "began": began.isoformat(timespec="seconds"),
        "ended": now.isoformat(timespec="seconds"),
        "seconds": round((now - began).total_seconds(), 1),
        "jobs": jobs,
        "workers": workers,
        "revision": revision(),
    }


def made_with() -> dict[str, Any]:
    """Versions and machine."""
    return {
        "banister": __version__,
        "revision": revision(),
        "python": sys.version.split()[0],
        **{name: version(name) for name in _LIBRARIES},
        "machine": platform.machine(),
        "system": platform.platform(terse=True),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def revision() -> str:
    """The git revision of the source, with "+changes" if it was edited; "" outside a repository."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()
