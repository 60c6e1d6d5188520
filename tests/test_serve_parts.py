"""Parts of the service by themselves: the board's patience, streams, the command line, the image's recipe."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest

import banister as bn
from banister.errors import ServiceError
from banister.online.live_needs import LiveNeeds
from banister.serve import board as boards
from banister.serve import delays, events
from banister.serve.board import Board
from banister.serve.desk import Desk
from banister.serve.events import Hub
from banister.serve.metrics import Metrics

ROOT = Path(__file__).parents[1]


def desk_of(bandit: bn.SafeBandit) -> Desk:
    return Desk(bandit, Metrics())


def test_a_status_that_takes_long_is_taken_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs three seconds of a clock that only moves when it is taken."""
    now, taken = [100.0], []
    bandit = bn.SafeBandit(0.1, refits="manual")
    status = bandit.status()

    def slow() -> Any:
        taken.append(now[0])
        now[0] += 3.0
        return status

    monkeypatch.setattr(bandit, "status", slow)
    monkeypatch.setattr(boards, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    board = Board(desk_of(bandit), refresh=2.0)

    async def look() -> None:
        for _ in range(40):
            await asyncio.gather(board.status(), board.status())
            now[0] += 2.5

    asyncio.run(look())
    assert taken == [100.0, 163.0]  # 3 s, then 60 s of peace


def test_decisions_go_on_while_it_is_told_what_tasks_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than the rest of a status."""
    bandit, made = bn.SafeBandit(0.1, refits="manual"), []

    def slow(self: Any, n_tasks: int) -> list[int | None]:
        worker = threading.Thread(target=lambda: made.append(bandit.decide("b", np.eye(2), baseline=0)))
        worker.start()
        worker.join(10)
        return [None] * n_tasks

    bandit.decide("a", np.eye(2), baseline=0)
    monkeypatch.setattr(LiveNeeds, "rows", slow)
    assert [t.task for t in bandit.status().tasks] == ["a"]
    assert len(made) == 1


def test_the_trail_thins_itself_and_keeps_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    bandit = bn.SafeBandit(0.1, refits="manual")
    monkeypatch.setattr(boards, "time", SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0]))
    board = Board(desk_of(bandit), refresh=1.0)

    async def look() -> None:
        for _ in range(5000):
            await board.status()
            now[0] += 1.0

    asyncio.run(look())
    times = [point.time for point in board.trail]
    assert len(times) <= 601
    assert times[0] == 0.0
    assert times[-1] > 4980
    assert np.diff(times).max() <= 16


def test_a_reader_that_does_not_keep_up_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_BEHIND", 3)
    monkeypatch.setattr(events, "_STREAMS", 2)

    async def life() -> None:
        hub = Hub()
        slow, quick = hub.listen(), hub.listen()
        with pytest.raises(ServiceError, match="open already"):
            hub.listen()
        heard = [await anext(quick)]
        for i in range(5):
            hub.publish("alarm", {"n": i})
            heard.append(await anext(quick))
        assert len(hub) == 1
        assert [json.loads(h.split(b"data: ")[1])["n"] for h in heard[1:]] == [0, 1, 2, 3, 4]
        assert len([text async for text in slow]) == 1 + 3
        hub.close()
        assert [text async for text in quick] == []
        with pytest.raises(ServiceError):
            hub.listen()

    asyncio.run(life())


def test_a_short_call_waits_in_a_thread_while_the_store_is_held() -> None:
    bandit = bn.SafeBandit(0.1, refits="manual")
    desk = desk_of(bandit)
    order: list[str] = []

    async def held_elsewhere() -> None:
        loop = asyncio.get_running_loop()
        held, go = asyncio.Event(), asyncio.Event()

        def hold() -> None:
            with bandit._lock:
                loop.call_soon_threadsafe(held.set)
                asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)

        holding = loop.run_in_executor(None, hold)
        await held.wait()
        waiting = asyncio.create_task(desk.short(bandit.receipt))
        await asyncio.sleep(0.1)
        order.append("the loop goes on")
        assert not waiting.done()
        go.set()
        await asyncio.gather(holding, waiting)

    asyncio.run(held_elsewhere())
    assert order == ["the loop goes on"]


def test_only_so_many_decisions_are_remembered_for_their_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delays, "_REMEMBERED", 2)
    bandit, counted = bn.SafeBandit(0.1, refits="manual"), Metrics()
    made = [bandit.decide("a", np.eye(2), baseline=0) for _ in range(3)]
    counted.decided(made, 0)
    counted.rewarded([d.id for d in made], ["accepted"] * 3)
    assert b"banister_reward_delay_seconds_count 2.0" in counted.text()


def banister(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from banister.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def test_a_token_is_made_and_a_wrong_role_is_told() -> None:
    made = banister("token", "shop", "--roles", "decide,reward")
    assert re.fullmatch(r"shop decide,reward sha256:[0-9a-f]{64}\n", made.stdout)
    assert made.stderr.startswith("secret: ")
    wrong = banister("token", "shop", "--roles", "fly")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'fly' is no role" in wrong.stderr


def test_a_service_that_cannot_begin_says_why(tmp_path: Path) -> None:
    missing = banister("serve", str(tmp_path / "none.banister"))
    assert missing.returncode == 2
    assert "start one with --alpha" in missing.stderr
    outside = banister("serve", str(tmp_path / "none.banister"), "--host", "0.0.0.0", "--alpha", "0.1")
    assert outside.returncode == 2
    assert "there are no tokens" in outside.stderr
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        taken = banister("serve", str(tmp_path / "none.banister"), "--alpha", "0.1", "--port", port)
    assert taken.returncode == 2
    assert f"port={port}: cannot listen there" in taken.stderr
    assert "live page" not in taken.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals are not sent so there")
def test_the_command_serves_and_stops_when_told(tmp_path: Path) -> None:
    path, port = tmp_path / "shop.banister", free_port()
    command = [sys.executable, "-c", "from banister.cli import main; main()", "serve", str(path)]
    env = {**os.environ, "BANISTER_SERVE_ALPHA": "0.2"}
    with subprocess.Popen(
        [*command, "--port", str(port)], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            body = {"task": "a", "actions": [[1.0, 0.0], [0.0, 1.0]], "baseline": 1}
            assert httpx.post(f"{url}/v1/decisions", json=body).json()["id"] == 1
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert "only this machine can connect" in said
    assert f"the live page is at http://127.0.0.1:{port}/" in said
    assert "model" not in said  # those of the warm-up are not this store's
    with bn.SafeBandit.load(path) as bandit:
        assert (bandit.settings.alpha, bandit.status().decisions) == (0.2, 1)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_for(url: str) -> None:
    until = time.monotonic() + 90
    while time.monotonic() < until:
        try:
            httpx.get(f"{url}/readyz").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the service did not begin")


def test_the_image_runs_as_nobody_special_and_installs_what_is_pinned() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert "USER banister" in lines
    assert any("-c constraints.txt '.[serve,logs,postgres]'" in line for line in lines)
    last = [line for line in lines if line.startswith("USER")][-1]
    assert lines.index(last) < next(i for i, line in enumerate(lines) if line.startswith("ENTRYPOINT"))
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line[:1] == "!"
    }
    copied = {w for line in lines if re.match(r"COPY [^-]", line) for w in line.split()[1:-1]}
    assert copied == kept
