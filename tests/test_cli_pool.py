"""`banister data pack` and `banister fit --pool`, from a shell's point of view."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import banister.cli.data
import banister.cli.online  # noqa: F401  (both add their commands)
from banister.cli.app import app
from banister.errors import DataFileError, InputError, SettingError
from banister.estimators.altgdmin import AltGDmin
from problems import problem

runner = CliRunner()


def run(*arguments):
    result = runner.invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def data():
    return problem(d=4, T=20, n=15, seed=1)[0]


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Packed from a file with one column too many, whose rows are shuffled."""
    base = tmp_path_factory.mktemp("rows")
    order = np.random.default_rng(0).permutation(data.n_rows)
    columns = {f"f{j}": data.X[order, j] for j in range(4)}
    table = pl.DataFrame({"store": data.codes[order], "revenue": data.y[order], "note": 1.0, **columns})
    table.write_parquet(base / "rows.parquet")
    shown = run(
        "data", "pack", base / "rows.parquet", base / "packed", "--task", "store", "--reward", "revenue",
        "--features", "f0,f1,f2,f3",
    )  # fmt: skip
    assert "300 rows of 20 tasks, 4 features, float64" in shown
    return base / "packed"


def test_a_fit_from_a_folder_is_written_as_plain_arrays(folder, data, tmp_path):
    out = tmp_path / "model.npz"
    told = json.loads(run("fit", folder, "--pool", "disk", "--rank", 2, "--out", out))
    assert told["rank"] == 2
    assert told["converged"]
    expected = AltGDmin(rank=2, threads=1).fit_data(data)
    with np.load(out, allow_pickle=False) as model:
        np.testing.assert_allclose(model["B"] @ model["W"], expected.theta_, atol=1e-8)
        assert model["tasks"].tolist() == list(range(20))
        assert float(model["noise_std"]) == pytest.approx(expected.noise_std_, rel=1e-6)
        assert model["prior_mean"].shape == (2,)
    with pytest.raises(InputError, match="already"):
        run("fit", folder, "--pool", "disk", "--out", out)


def test_what_cannot_be_fitted_is_said(folder, tmp_path):
    with pytest.raises(SettingError, match="use disk or ray"):
        run("fit", folder, "--pool", "cloud", "--out", tmp_path / "m.npz")
    with pytest.raises(DataFileError, match="banister data pack"):
        run("fit", tmp_path, "--pool", "disk", "--out", tmp_path / "m.npz")


def test_a_word_that_is_no_command_is_the_name_of_a_data_set():
    assert "movielens-100k" in run("data")
    assert "pack" in run("data", "--help")
    with pytest.raises(Exception, match="netflix"):
        run("data", "netflix")
