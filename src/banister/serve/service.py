"""A service: the bandit at its desk, and everything that routes need besides."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from banister.errors import ModelFileError, SettingError
from banister.online.bandit import SafeBandit
from banister.serve.board import Board
from banister.serve.desk import Desk
from banister.serve.events import Hub, Watcher
from banister.serve.limits import Rate
from banister.serve.metrics import Metrics
from banister.serve.settings import ServeSettings


class Service:
    """Everything one process serves with.

    Args:
        bandit: open for writing; closed when the service stops.
        settings: checked.
    """

    def __init__(self, bandit: SafeBandit, settings: ServeSettings) -> None:
        self.settings, self.tokens = settings, settings.read_tokens()
        self.metrics = Metrics()
        self.desk = Desk(bandit, self.metrics)
        self.board = Board(self.desk, settings.refresh)
        self.hub = Hub()
        self.rate = Rate(settings.rate, settings.burst)
        self.stopping = False

    @property
    def bandit(self) -> SafeBandit:
        """The bandit."""
        return self.desk.bandit

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the store meanwhile; afterwards finish what has begun and close it."""
        watching = asyncio.create_task(Watcher(self.desk, self.board, self.hub).run())
        try:
            yield
        finally:
            self.stop()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await asyncio.to_thread(self.desk.close)

    def stop(self) -> None:
        """Take no new work in: /readyz says so, and streams end."""
        self.stopping = True
        self.hub.close()


def open_store(settings: ServeSettings) -> SafeBandit:
    """The bandit of a store; with `alpha` a store that is not there is started."""
    try:
        bandit = SafeBandit.load(settings.store)
    except ModelFileError as missing:
        if "There is no store" not in str(missing):
            raise
        if settings.alpha is None:
            raise SettingError(
                f"There is no store at {shown(settings.store)!r}; start one with --alpha 0.1, the share of "
                "the baseline reward that may be risked, or make one from logs with `banister fit`."
            ) from None
        return SafeBandit(path=settings.store, **settings.made_with())
    for name, value in settings.made_with().items():
        own = getattr(bandit.settings, name)
        if value != own:
            bandit.close()
            raise SettingError(f"{shown(settings.store)!r} was made with {name}={own}; leave {name} out.")
    return bandit


def shown(store: str) -> str:
    """An address without its password.

    Examples:
        >>> shown("postgresql://shop:secret@host/db"), shown("shop.banister")
        ('postgresql://shop:…@host/db', 'shop.banister')
    """
    return re.sub(r"(//[^:/@]*):[^@]*@", r"\1:…@", store)
