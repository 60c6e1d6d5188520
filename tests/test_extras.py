"""The core works without the extras, and what needs one says which."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("polars", "matplotlib", "jinja2", "pandas", "pyarrow", "gymnasium", "ray", "psycopg")
BLOCK = f"import sys; sys.modules.update(dict.fromkeys({HEAVY}))\n"

CORE = """
import numpy as np
import banister as bn
bandit = bn.SafeBandit(refits="manual", seed=0)
for n in range(40):
    d = bandit.decide(f"shop-{n % 4}", np.random.default_rng(n).standard_normal((3, 2)), baseline=0)
    bandit.reward(d.id, float(d.features.sum()))
bandit.refit()
print(bandit.status())
assert bandit.audit().passed
env = bn.Synthetic(dim=5, rank=1, tasks=4, actions=3, baseline_rank=2)
for policy in (bn.SafeAltGDmin(), bn.ConservativeUCB(), bn.AltGDminGreedy(), bn.TraceNormGreedy()):
    assert bn.simulate(env, policy, epochs=2, rounds=8).regret.shape == (2,)
X = np.random.default_rng(0).standard_normal((40, 3))
for model in (bn.AltGDmin(rank=1), bn.TraceNorm(), bn.TaskRidge(), bn.MethodOfMoments(rank=1)):
    model.fit(X, X[:, 0], np.arange(40) % 4)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCK + code], capture_output=True, text=True, check=False)


def test_bandit_policies_and_estimators_need_no_extra():
    shown = run(CORE)
    assert shown.returncode == 0, shown.stderr


NEEDS = {
    "logs": "import banister as bn; bn.SafeBandit().warm_start({'task': ['a'], 'reward': [1.0], 'f': [1.0]})",
    "study": "import banister as bn; bn.simulate(bn.Synthetic.example(), bn.BaselineOnly()).frame",
    "report": "from banister.report.page import render; render(None, [])",
    "ray": "import banister as bn; bn.RayPool(bn.TaskData.from_rows([[1.0]], [1.0], ['a']))",
    "postgres": "import banister as bn; bn.SafeBandit(path='postgresql:///shops')",
    "gym": "import banister.adapters.gymnasium",
}


@pytest.mark.parametrize("extra", NEEDS)
def test_what_needs_an_extra_names_it(extra):
    shown = run(NEEDS[extra])
    assert "MissingExtraError" in shown.stderr
    assert f"pip install 'banister[{extra}]'" in shown.stderr


@pytest.mark.parametrize("command", [["run"], ["report", "."], ["reproduce", "--trials", "1"]])
def test_the_command_line_names_the_extra_in_one_line(command, tmp_path):
    shown = run(f"sys.argv = ['banister', *{command}]; from banister.cli import main; main()")
    assert shown.returncode == 2
    assert "pip install 'banister[study]'" in shown.stderr.replace("\n", " ")
    assert "Traceback" not in shown.stderr
