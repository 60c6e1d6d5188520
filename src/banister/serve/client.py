"""`Client` and `AsyncClient`: a service with the methods of `SafeBandit`.

A call whose answer was lost is made again, with the key of the first: a decision that was made is given back,
not made twice.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from numpy.typing import ArrayLike

from banister.data import Number, Whole
from banister.errors import ServiceError
from banister.extras import CLIENT, need
from banister.features.baseline import Baseline
from banister.online.audit import Audit
from banister.online.decision import Decision
from banister.online.head import Receipt
from banister.online.status import Status
from banister.serve import calls
from banister.serve.calls import Call

T = TypeVar("T")
_AGAIN = (429, 502, 503, 504)  # the service, or what stands before it, cannot answer now
_FIRST, _LONGEST = 0.05, 5.0  # seconds to wait before trying again, doubled each time


class _Sender:
    """What both clients share: how a call is sent, when it is sent again, how its answer is read."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int) -> None:
        need(CLIENT)
        self._retries = retries
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}

    def _wait(self, tried: int, answer: Any) -> float | None:
        """Seconds until the next try; None if this answer stands."""
        if answer is not None and answer.status_code not in _AGAIN:
            return None
        if tried >= self._retries:
            return None
        asked = answer.headers.get("retry-after", "") if answer is not None else ""
        least = float(asked) if asked.isdecimal() else 0.0
        return min(_LONGEST, max(least, _FIRST * 2.0**tried * random.uniform(0.5, 1.0)))

    @staticmethod
    def _read(call: Call[T], answer: Any, lost: Exception | None) -> T:
        if answer is None:
            raise ServiceError.of(0, f"The service does not answer ({lost}); is it running?") from lost
        if answer.status_code != 200:
            problem = answer.json() if "json" in answer.headers.get("content-type", "") else None
            raise calls.failure(answer.status_code, problem)
        return call.answer(answer.headers.get("content-type", ""), answer.content)


class Client(_Sender):
    """A bandit behind a service; see `SafeBandit` for what each method does.

    Args:
        url: of the service, such as "http://127.0.0.1:8080".
        token: with the roles that the calls need.
        timeout: seconds to wait for an answer.
        retries: how often a call is made again that got no answer.

    Examples:
        >>> import banister as bn
        >>> with bn.Client("http://127.0.0.1:1", retries=0) as bandit:  # nothing listens there
        ...     bandit.decide("store-17", [[1.0, 0.2], [0.4, 0.9]], baseline=1)
        Traceback (most recent call last):
        banister.errors.ServiceError: The service does not answer (...); is it running?
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retries: int = 5
    ) -> None:
        super().__init__(url, token, timeout, retries)
        import httpx

        self._http, self._lost = httpx.Client(**self._options), httpx.TransportError

    def _do(self, call: Call[T]) -> T:
        tried = 0
        while True:
            answer, lost = None, None
            try:
                answer = self._http.request(call.method, call.path, **call.content())
            except self._lost as reason:
                lost = reason
            seconds = self._wait(tried, answer)
            if seconds is None:
                return self._read(call, answer, lost)
            time.sleep(seconds)
            tried += 1

    def decide(
        self, task: str, actions: ArrayLike | None = None, *, baseline: Baseline,
        context: Mapping[str, Any] | None = None, offered: Sequence[Any] | None = None,
        baseline_reward: Number | tuple[Number, Number] | None = None, baseline_reward_std: Number = 0.0,
        key: str | None = None,
    ) -> Decision:  # fmt: skip
        """The best certified action, or the baseline and the reason why nothing is certified."""
        given = task, actions, baseline, context, offered, baseline_reward, baseline_reward_std, key
        return self._do(calls.decide(*given))

    def decide_many(
        self, tasks: Sequence[str], actions: Sequence[ArrayLike], *, baselines: Sequence[int],
        baseline_rewards: Sequence[Any] | None = None, baseline_reward_std: ArrayLike = 0.0,
        keys: Sequence[str | None] | None = None,
    ) -> list[Decision]:  # fmt: skip
        """Decisions for many requests, in order."""
        given = tasks, actions, baselines, baseline_rewards, baseline_reward_std, keys
        return self._do(calls.decide_many(*given))

    def reward(self, id: Whole, reward: Number, *, key: str | None = None) -> str:  # noqa: A002
        """Take in the reward of a decision."""
        return self._do(calls.reward(id, reward, key))

    def reward_many(
        self, ids: Sequence[int], rewards: Sequence[Number], *, keys: Sequence[str | None] | None = None
    ) -> list[str]:
        """Take in many rewards."""
        return self._do(calls.reward_many(ids, rewards, keys))

    def retract(self, id: int, why: str) -> str:  # noqa: A002
        """Take a wrong reward back."""
        return self._do(calls.retract(id, why))

    def refit(self, *, wait: bool = True) -> int:
        """Fit everything seen; the version that serves now."""
        return self._do(calls.refit(wait))

    def status(self) -> Status:
        """Where every task stood a moment ago, tasks by name."""
        found = self._do(calls.totals())
        starts = range(0, found["n_tasks"], calls.PAGE)
        return calls.status(found, [self._do(calls.tasks(start)) for start in starts])

    def receipt(self) -> Receipt:
        """What the ledger holds now."""
        return self._do(calls.receipt())

    def audit(self, receipt: Receipt | dict[str, Any] | None = None) -> Audit:
        """Is the ledger what was written, and does each decision follow from its model?"""
        return self._do(calls.audit(receipt))

    def close(self) -> None:
        """Close connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Sender):
    """`Client` for asyncio: every method is awaited.

    Examples:
        >>> import asyncio
        >>> import banister as bn
        >>> async def ask():
        ...     async with bn.AsyncClient("http://127.0.0.1:1", retries=0) as bandit:  # nothing listens there
        ...         return await bandit.decide("store-17", [[1.0, 0.2], [0.4, 0.9]], baseline=1)
        >>> asyncio.run(ask())
        Traceback (most recent call last):
        banister.errors.ServiceError: The service does not answer (...); is it running?
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 10.0, retries: int = 5
    ) -> None:
        super().__init__(url, token, timeout, retries)
        import httpx

        self._http, self._lost = httpx.AsyncClient(**self._options), httpx.TransportError

    async def _do(self, call: Call[T]) -> T:
        tried = 0
        while True:
            answer, lost = None, None
            try:
                answer = await self._http.request(call.method, call.path, **call.content())
            except self._lost as reason:
                lost = reason
            seconds = self._wait(tried, answer)
            if seconds is None:
                return self._read(call, answer, lost)
            await asyncio.sleep(seconds)
            tried += 1

    async def decide(
        self, task: str, actions: ArrayLike | None = None, *, baseline: Baseline,
        context: Mapping[str, Any] | None = None, offered: Sequence[Any] | None = None,
        baseline_reward: Number | tuple[Number, Number] | None = None, baseline_reward_std: Number = 0.0,
        key: str | None = None,
    ) -> Decision:  # fmt: skip
        """The best certified action, or the baseline and the reason why nothing is certified."""
        given = task, actions, baseline, context, offered, baseline_reward, baseline_reward_std, key
        return await self._do(calls.decide(*given))

    async def decide_many(
        self, tasks: Sequence[str], actions: Sequence[ArrayLike], *, baselines: Sequence[int],
        baseline_rewards: Sequence[Any] | None = None, baseline_reward_std: ArrayLike = 0.0,
        keys: Sequence[str | None] | None = None,
    ) -> list[Decision]:  # fmt: skip
        """Decisions for many requests, in order."""
        given = tasks, actions, baselines, baseline_rewards, baseline_reward_std, keys
        return await self._do(calls.decide_many(*given))

    async def reward(self, id: Whole, reward: Number, *, key: str | None = None) -> str:  # noqa: A002
        """Take in the reward of a decision."""
        return await self._do(calls.reward(id, reward, key))

    async def reward_many(
        self, ids: Sequence[int], rewards: Sequence[Number], *, keys: Sequence[str | None] | None = None
    ) -> list[str]:
        """Take in many rewards."""
        return await self._do(calls.reward_many(ids, rewards, keys))

    async def retract(self, id: int, why: str) -> str:  # noqa: A002
        """Take a wrong reward back."""
        return await self._do(calls.retract(id, why))

    async def refit(self, *, wait: bool = True) -> int:
        """Fit everything seen; the version that serves now."""
        return await self._do(calls.refit(wait))

    async def status(self) -> Status:
        """Where every task stood a moment ago, tasks by name."""
        found = await self._do(calls.totals())
        starts = range(0, found["n_tasks"], calls.PAGE)
        return calls.status(found, [await self._do(calls.tasks(start)) for start in starts])

    async def receipt(self) -> Receipt:
        """What the ledger holds now."""
        return await self._do(calls.receipt())

    async def audit(self, receipt: Receipt | dict[str, Any] | None = None) -> Audit:
        """Is the ledger what was written, and does each decision follow from its model?"""
        return await self._do(calls.audit(receipt))

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
