"""The server: uvicorn, with time-outs for slow clients and a stop that finishes what was begun."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from banister.errors import SettingError
from banister.online.warm_up import warm_up
from banister.serve.app import make_app
from banister.serve.service import Service, open_store
from banister.serve.settings import ServeSettings
from banister.solver.threads import one_thread

# Seconds that a thread may keep the interpreter while another waits for it. A decision hands it back at every
# call into SQLite, a hundred times a batch; a fit beside it would keep it for 5 ms each time.
_TURN = 0.0002

_log = logging.getLogger("banister.serve")


class _Protocol(HttpToolsProtocol):
    """A connection whose request must arrive in time; uvicorn itself waits for ever for a head."""

    head_seconds = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_seconds, self._close_if_waiting)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._late.cancel()
        self._late = self.loop.call_later(self.head_seconds, self._close_if_waiting)

    def on_headers_complete(self) -> None:
        self._late.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def _close_if_waiting(self) -> None:
        _log.warning("closed a connection of %s: no request within %g s", self.client, self.head_seconds)
        self.transport.close()


class Server(uvicorn.Server):
    """A server that first tells its streams to end, and then waits for requests under way."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            _log.info("the live page is at http://%s:%d/", f"[{host}]" if ":" in host else host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; nothing that was acknowledged is lost."""
        self._service.stop()
        await super().shutdown(sockets)


def make_server(settings: ServeSettings) -> Server:
    """A server on an open store, not yet listening."""
    settings.read_tokens()  # before the store is opened: a mistake there should change nothing
    app = make_app(open_store(settings), settings)
    protocol = type("Protocol", (_Protocol,), {"head_seconds": settings.body_timeout})
    options: dict[str, Any] = {
        "http": protocol, "ws": "none", "access_log": False, "log_config": None, "server_header": False,
        "timeout_keep_alive": int(settings.keep_alive) or 1, "limit_concurrency": settings.max_connections,
        "timeout_graceful_shutdown": int(settings.stop_timeout) or 1,
    }  # fmt: skip
    config = uvicorn.Config(app, host=settings.host, port=settings.port, **options)
    return Server(config, app.state.service)


def serve(settings: ServeSettings) -> None:
    """Serve until told to stop; kernels are compiled or loaded first, so that no request waits for that."""
    settings.read_tokens()
    place = bound(settings.host, settings.port)
    with unsaid("banister.online"):
        warm_up()
    server = make_server(settings)
    spare_collections()
    sys.setswitchinterval(_TURN)
    with one_thread():  # others would keep the cores busy that decisions and the network need
        server.run([place])


def bound(host: str, port: int) -> socket.socket:
    """A place to listen on, taken before a store is opened or made: it may belong to somebody else."""
    place = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((host, port))
    except OSError as reason:
        place.close()
        raise SettingError(
            f"host={host!r}, port={port}: cannot listen there ({reason.strerror}); stop what does, or choose "
            "another with --port."
        ) from None
    return place


@contextmanager
def unsaid(name: str) -> Iterator[None]:
    """Without what a logger would say: the bandit that warms up is nobody's, and its models are no news."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def spare_collections() -> None:
    """Look for cycles rarely, and not among what stays: a batch alone makes thousands of lists.

    With the interpreter's own settings more than half of the time to read a batch goes into that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
