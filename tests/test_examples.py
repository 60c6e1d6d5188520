"""The stories in `examples/` run in their short form and draw their figures."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def story(name: str, tmp_path: Path):
    module = load(name)
    figure = tmp_path / f"{name}.svg"
    result = module.main(quick=True, figure=figure)
    assert figure.stat().st_size > 1000
    return result


def test_every_example_is_told_here_or_with_the_tutorials():
    told = Path(__file__).read_text() + (Path(__file__).parent / "test_tutorials.py").read_text()
    for file in FOLDER.glob("[a-z]*.py"):
        assert f'"{file.stem}"' in told


@pytest.mark.statistical
def test_a_story_starts_from_a_shell(tmp_path):
    command = [sys.executable, str(FOLDER / "new_store.py"), "--quick", "--figure", "story.svg"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "story.svg").exists()


def test_estimators(tmp_path):
    module = load("estimators")
    found = module.errors()
    module.draw_figure(found, tmp_path / "estimators.png")
    assert (tmp_path / "estimators.png").stat().st_size > 1000
    alone = found["each task alone (ridge)"]
    for rows, shared in enumerate(found["shared, shrunk"]):
        assert shared < 0.9 * alone[rows]


@pytest.mark.statistical
def test_many_shops(tmp_path):
    found = story("many_shops", tmp_path)
    assert found.below_floor == 0
    assert np.mean(found.certified) > 0.5
    assert sum(found.gain) > 0.5 * sum(found.best)
    assert found.reasons["fallback:drift"] > 0


@pytest.mark.statistical
def test_banners(tmp_path):
    found = story("banners", tmp_path)
    assert found.below_floor == 0
    assert found.left > 0.2
    assert sum(found.gain) > 0.4 * sum(found.best)


@pytest.mark.statistical
def test_new_clinic(tmp_path):
    shared, alone = story("new_clinic", tmp_path)
    assert shared[8] > 0.5
    assert alone[8] == 0.0
    assert alone[120] > 0.5


@pytest.mark.statistical
def test_catalogue(tmp_path):
    report, gain = story("catalogue", tmp_path)
    assert report.left > 0.03  # the few films that a bound lets it leave the popular one for
    assert np.mean(gain) > 0
    assert {"inverse propensity", "self-normalised", "doubly robust"} <= {e.method for e in report.gains}
