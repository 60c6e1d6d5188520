"""Around a store: backups, logging, the command line beside a server, the cache of compiled kernels."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import banister
import banister.cli.online
from banister import SafeBandit, _cache
from banister.cli.app import app
from banister.errors import FitError, InputError
from online_world import World, trained
from places import tamper
from test_online_logs import log

SOURCES = Path(banister.__file__).parent


def test_save_is_a_whole_backup_while_decisions_go_on(place, copy_place):
    world, bandit = trained(100, path=place)
    world.play(bandit, 20)
    receipt = bandit.receipt()
    bandit.save(copy_place)
    world.play(bandit, 5)
    with SafeBandit.load(copy_place) as copy:
        assert copy.receipt() == receipt
        assert copy.audit(receipt).passed
        assert copy.status().rewards == 120
        with pytest.raises(InputError, match="already"):
            bandit.save(copy_place)
    if "://" not in copy_place:
        assert Path(f"{copy_place}.ledger").stat().st_mode & 0o777 == 0o600
    bandit.close()


def test_a_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    _, bandit = trained(60)
    monkeypatch.setattr("banister.online.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        bandit.save(tmp_path / "copy.banister")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_needs_the_write_ahead_log_too(tmp_path):
    """All files, copied while nothing is written, are the store; without `-wal` the last calls are not."""
    world, bandit = trained(60, path=tmp_path / "s.banister")
    world.play(bandit, 5)
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
        for file in tmp_path.glob("s.banister*"):
            left_out = ("-lock", "-shm") if name == "whole" else ("-lock", "-shm", "-wal")
            if not file.name.endswith(left_out):
                shutil.copy(file, tmp_path / name)
    with SafeBandit.load(tmp_path / "whole" / "s.banister") as copy:
        assert copy.receipt() == bandit.receipt()
    with pytest.raises(OSError):
        SafeBandit.load(tmp_path / "part" / "s.banister")
    bandit.close()


def test_what_happens_is_logged(caplog):
    caplog.set_level(logging.INFO, logger="banister")
    world, bandit = trained(400)
    d = bandit.decide(**world.request(0))
    bandit.reward(d.id, 1.0)
    bandit.reward(d.id, 1.0)
    bandit.retract(d.id, "wrong")
    for _ in range(40):
        request = world.request(0)
        d = bandit.decide(**request)
        bandit.reward(d.id, -5.0 * float(d.features @ world.theta[0]) - 7.0)
    said = [(r.levelname, r.getMessage()) for r in caplog.records]
    for level, pattern in [
        ("INFO", r"model 1 serves after .* s: 400 rewards"),
        ("INFO", "model 1 serves after .* 12 tasks known, rank 2"),
        ("INFO", "claimed baseline rewards: borne out"),
        ("INFO", "refused a reward of decision 401: duplicate"),
        ("INFO", "retracted the reward of decision 401: wrong"),
        ("WARNING", "drift of 'shop-0' after decision"),
    ]:
        assert any(r[0] == level and re.search(pattern, r[1]) for r in said), (pattern, said)


def test_slow_calls_and_failed_refits_are_warnings(caplog, monkeypatch):
    monkeypatch.setattr("banister.online.bandit._SLOW", 0.0)
    monkeypatch.setattr("banister.online.refitter.fit", lambda *_: 1 / 0)
    bandit = SafeBandit(refits="inline", seed=0)
    with pytest.warns(banister.errors.BanisterWarning):
        World().play(bandit, 80)
    said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert any(re.match(r"decide took \d", line) for line in said)
    assert any("a refit failed" in line for line in said)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_a_fit_with_a_typo_leaves_nothing_behind(tmp_path):
    logs, out = tmp_path / "logs.parquet", tmp_path / "m.banister"
    log(World(), 600, explore=0.3).write_parquet(logs)
    with pytest.raises(InputError):
        run("fit", str(logs), "--task", "tsak", "--out", str(out))
    assert [p.name for p in tmp_path.iterdir()] == ["logs.parquet"]
    assert run("fit", str(logs), "--seed", "0", "--out", str(out))[0] == 0


def test_a_fit_that_fails_later_leaves_nothing_either(tmp_path, monkeypatch):
    logs = tmp_path / "logs.parquet"
    log(World(), 600, explore=0.3).write_parquet(logs)
    monkeypatch.setattr("banister.online.refitter.fit", lambda *_: 1 / 0)
    with pytest.raises(FitError, match="ZeroDivisionError"):
        run("fit", str(logs), "--out", str(tmp_path / "m.banister"))
    assert [p.name for p in tmp_path.iterdir()] == ["logs.parquet"]


def test_a_store_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("banister.online.sqlite.opening.create", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SafeBandit(path=tmp_path / "s.banister")
    assert list(tmp_path.iterdir()) == []


def test_status_beside_a_server_and_against_a_receipt(place, tmp_path):
    path, kept = place, tmp_path / "receipt.json"
    world, bandit = trained(60, path=path)
    code, out = run("status", str(path), "--json")
    kept.write_text(out)
    world.play(bandit, 5)
    assert code == 0
    assert json.loads(out)["receipt"] == {**json.loads(out)["receipt"], "decisions": 60, "rewards": 60}
    code, out = run("status", str(path), "--receipt", str(kept), "--json")
    assert (code, json.loads(out)["audit"]["passed"]) == (0, True)
    tamper(place, "UPDATE rewards SET value = -value WHERE id = 60")
    assert run("status", str(path), "--receipt", str(kept))[0] == 1
    bandit.close()
    kept.write_text("[")
    with pytest.raises(InputError, match="no receipt"):
        run("status", str(path), "--receipt", str(kept))


DIGEST = "import numpy as np; from banister.online._digest import digests; print(digests(np.ones((1, 2, 2))))"


def bare(tmp_path: Path, **more: str) -> dict[str, str]:
    """The package installed where nothing can be written, for a user without a home."""
    copy = tmp_path / "installed"
    shutil.copytree(SOURCES, copy / "banister", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy / "banister", *(p for p in (copy / "banister").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("a file where numba wants a folder")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))}
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/cache", "PYTHONPATH": str(copy)}
    return {**clean, **nowhere, **more}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", "-c", DIGEST], env=bare(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_filled_folder_is_used_where_it_cannot_be_written(tmp_path, monkeypatch):
    """Everything that was compiled is in the private copy; nothing is written to the folder itself."""
    filled = tmp_path / "filled"
    filled.mkdir()
    (filled / "kernel.nbi").write_bytes(b"compiled")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(filled))
    monkeypatch.setattr(_cache, "_writable", lambda folder: False)
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    _cache.ready()
    private = Path(os.environ["NUMBA_CACHE_DIR"])
    assert private != filled
    assert (private / "kernel.nbi").read_bytes() == b"compiled"
    assert private.stat().st_mode & 0o777 == 0o700
    assert private == Path(numba.config.CACHE_DIR)


def test_a_folder_that_can_be_written_is_left_to_numba(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new"))
    _cache.ready()
    assert os.environ["NUMBA_CACHE_DIR"] == str(tmp_path / "new")


def test_warm_up_compiles_into_a_folder(tmp_path, monkeypatch):
    """The command hands its folder to a process that compiles; here that process only digests."""
    from banister.online import warm_up

    assert warm_up.warm_up() == 2
    started = []
    real = subprocess.run

    def compile_one(command, **options):
        started.append(command)
        return real([sys.executable, "-c", DIGEST], **options)

    monkeypatch.setattr(subprocess, "run", compile_one)
    code, out = run("warm-up", str(tmp_path / "cache"))
    assert (code, json.loads(out)["kernels"]) == (0, 2)  # one row's digest, and many rows'
    assert started == [[sys.executable, "-m", "banister.online.warm_up"]]
    with pytest.raises(InputError, match="cannot be made"):
        run("warm-up", "/dev/null/x")


def test_sql_stands_in_the_rooms_of_the_databases():
    words = re.compile(r"\b(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|PRAGMA|BEGIN IMMEDIATE)\b|sqlite3")
    found = [
        path.name
        for path in SOURCES.rglob("*.py")
        if not {"sql", "sqlite", "postgres"} & set(path.parts) and words.search(path.read_text())
    ]
    assert found == []


def test_the_interface_is_the_ledger():
    """Every operation of the interface is there, and nothing outside uses another."""
    from banister.online.ledger import Ledger, SharedLedger
    from banister.online.postgres.ledger import PostgresLedger
    from banister.online.sqlite.ledger import SqliteLedger

    names = {n for n in vars(Ledger) if not n.startswith("_")}
    assert names <= set(dir(SqliteLedger))
    assert names - {"head", "last_id"} <= set(dir(PostgresLedger))
    used = set()
    for path in (SOURCES / "online").glob("*.py"):
        used |= set(re.findall(r"\bledger\.([a-z_]+)\(", path.read_text()))
    shared = {n for n in vars(SharedLedger) if not n.startswith("_")}
    assert used <= names | shared
    assert np.all([callable(getattr(SqliteLedger, n)) or n in ("head", "last_id") for n in names])
