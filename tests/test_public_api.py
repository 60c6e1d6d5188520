"""The public names: each imports from where the table says, and nothing heavy comes with the package."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import banister

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def test_the_list_of_names_is_the_table():
    assert sorted(banister.__all__) == sorted({"__version__", "errors", *banister._HOME})
    assert set(dir(banister)) == set(banister.__all__)
    assert len(set(banister.__all__)) == len(banister.__all__)


@pytest.mark.parametrize("name", sorted(banister._HOME))
def test_each_name_imports(name):
    value = getattr(banister, name)
    assert value is getattr(importlib.import_module(banister._HOME[name]), name)
    assert value.__doc__


def test_the_version_is_the_one_that_the_changelog_speaks_of():
    text = CHANGELOG.read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == banister.__version__


@pytest.mark.parametrize("name", ["AltGDmin", "TaskData", "TraceNorm", "MethodOfMoments", "TaskRidge"])
def test_the_estimators_are_public(name):
    assert name in banister.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        banister.Nonsense  # noqa: B018


def test_importing_is_light():
    heavy = ("numpy", "numba", "sklearn", "matplotlib")
    code = f"import sys, banister; print([m for m in {heavy} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
