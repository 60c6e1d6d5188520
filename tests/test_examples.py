"""The stories in `examples/` run in their short form and draw their figures."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def story(name: str, tmp_path: Path):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figure = tmp_path / f"{name}.svg"
    result = module.main(quick=True, figure=figure)
    assert figure.stat().st_size > 1000
    return result


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
