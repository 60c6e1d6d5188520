"""Build sdist and wheel, install each in an empty environment outside the repository, and try them there.

Run by `make release-check`. Nothing of the repository is on the path of what is tried.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
SMOKE = """
import pathlib, tempfile
import numpy as np
import banister as bn
from importlib.metadata import version

assert version("banister") == bn.__version__, (version("banister"), bn.__version__)
assert (pathlib.Path(bn.__file__).parent / "py.typed").is_file()
path = pathlib.Path(tempfile.mkdtemp()) / "shop.banister"
with bn.SafeBandit(alpha=0.1, path=path, refits="manual", seed=0) as bandit:
    for n in range(40):
        rows = np.random.default_rng(n).standard_normal((3, 2))
        d = bandit.decide(f"shop-{n % 4}", rows, baseline=0, baseline_reward=float(rows[0].sum()))
        bandit.reward(d.id, float(d.features.sum()))
    bandit.refit()
with bn.SafeBandit.load(path) as again:
    assert again.audit().passed
print("banister", bn.__version__, "from", pathlib.Path(bn.__file__).parent)
"""


def main() -> None:
    """Build, then try both files."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tools = environment(place / "tools")
        run([tools, "-m", "pip", "install", "-q", "build"])
        run([tools, "-m", "build", "--outdir", place / "dist", ROOT])
        files = sorted((place / "dist").iterdir())
        assert [f.suffix for f in files] == [".whl", ".gz"], files
        for file in files:
            smoke(file, place)
        print("release-check: both files install and work")


def smoke(file: Path, place: Path) -> None:
    """Install one file in an empty environment and use it from another folder."""
    python = environment(place / f"env{file.suffix}")
    run([python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", file])
    run([python, "-c", SMOKE], cwd=place)
    run([python.parent / "banister", "--version"], cwd=place)


def environment(folder: Path) -> Path:
    """An empty virtual environment; its Python."""
    venv.create(folder, with_pip=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def run(words: list[str | Path], cwd: Path | None = None) -> None:
    """Run a command with Python's own variables left out; a failure ends the check."""
    subprocess.run(words, cwd=cwd, check=True, env=clean())


def clean() -> dict[str, str]:
    """The environment without what would put the repository on the path."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


if __name__ == "__main__":
    main()
