"""A service in a thread, on a port of its own, for the tests that call it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from banister.online.warm_up import warm_up
from banister.serve.server import Server, make_server
from banister.serve.settings import ServeSettings
from online_world import World, trained

TOKENS = {role: f"a-long-secret-of-{role}" for role in ("decide", "reward", "read", "admin")}
LINES = "\n".join(f"{role}-token {role} {secret}" for role, secret in TOKENS.items())


warmed = cache(warm_up)


@contextmanager
def serving(store: Path, **settings: Any) -> Iterator[tuple[str, Server]]:
    """The address of a service on this store, and the server itself; kernels are loaded first, as in life."""
    warmed()
    server = make_server(ServeSettings(store=str(store), port=0, **settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert thread.is_alive(), "the server ended before it had begun"
        assert time.monotonic() < deadline, "the server did not begin"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


def make_store(path: Path, n: int = 400) -> World:
    """A store with open gates and some decisions that left the baseline, closed again; and its world."""
    world, bandit = trained(n, path=path)
    world.play(bandit, 60)
    bandit.close()
    return world


def bearing(url: str, role: str | None, **options: Any) -> httpx.Client:
    """A plain HTTP client with a token of this role."""
    headers = {"authorization": f"Bearer {TOKENS[role]}"} if role else {}
    return httpx.Client(base_url=url, headers=headers, timeout=30, **options)


def as_json(request: dict[str, Any]) -> dict[str, Any]:
    """A request of `World` as JSON can hold it."""
    return {**request, "actions": request["actions"].tolist()}
