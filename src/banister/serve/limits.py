"""Limits: how large and how slow a body may be, and how often one caller may ask."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from math import ceil

from starlette.requests import Request
from starlette.types import Receive

from banister.errors import ServiceError

_CALLERS = 10_000  # remembered at once; the one that asked longest ago is forgotten, with a full bucket


async def read_body(request: Request, most: int, seconds: float) -> bytearray:
    """The whole body, or an error before more than `most` bytes of it are held."""
    length = request.headers.get("content-length")
    if length is not None and length.isdecimal() and int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _collected(request.receive, most)
    except TimeoutError:
        raise ServiceError.of(
            408,
            f"The body did not arrive within {seconds:g} seconds; send it at once.",
            {"connection": "close"},
        ) from None


async def _collected(receive: Receive, most: int) -> bytearray:
    """Writable, because kernels are compiled for arrays that are."""
    message = await receive()
    body = message.get("body", b"")
    if not message.get("more_body") and message["type"] == "http.request" and len(body) <= most:
        return bytearray(body)
    parts, size = [body], len(body)
    while size <= most and message.get("more_body"):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if message["type"] == "http.disconnect":
        raise ServiceError.of(400, "The connection was closed before the whole request had come.")
    if size > most:
        raise _too_large(most)
    return bytearray().join(parts)


def _too_large(most: int) -> ServiceError:
    return ServiceError.of(
        413, f"A request may have {most} bytes; send less at once.", {"connection": "close"}
    )


class Rate:
    """A bucket of `burst` requests for each caller, filled at `rate` a second.

    Examples:
        >>> now = 0.0
        >>> rate = Rate(2.0, 3, clock=lambda: now)
        >>> [rate.wait("a") for _ in range(4)], rate.wait("b")
        ([0.0, 0.0, 0.0, 0.5], 0.0)
        >>> now = 0.5
        >>> rate.wait("a"), rate.wait("a")
        (0.0, 0.5)
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Take a request from the caller's bucket; seconds to wait if it is empty."""
        if self._rate == 0.0:
            return 0.0
        now = self._clock()
        left, last = self._left.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - last) * self._rate)
        taken = left >= 1.0
        self._left[caller] = (left - taken, now)
        self._left.move_to_end(caller)
        if len(self._left) > _CALLERS:
            self._left.popitem(last=False)
        return 0.0 if taken else (1.0 - left) / self._rate

    def check(self, caller: str) -> None:
        """An error if the caller asks too often."""
        seconds = self.wait(caller)
        if seconds > 0.0:
            raise ServiceError.of(
                429,
                f"More than {self._rate:g} requests a second; wait {seconds:.2g} seconds.",
                {"retry-after": str(ceil(seconds))},
            )
