"""The client: the methods of `SafeBandit` against a service, and calls that are made again."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import banister as bn
from banister.errors import InputError, ServiceError, ShapeError, UnknownDecisionError
from banister.serve.client import AsyncClient, Client
from online_world import World, same
from serve_world import LINES, TOKENS, make_store, serving


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, World]]:
    path = tmp_path_factory.mktemp("client") / "shop.banister"
    world = make_store(path)
    with serving(path, refresh=0.001) as (url, _):
        yield url, path, world


def test_a_client_is_as_good_as_the_bandit(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.banister", tmp_path / "b.banister"
    world = make_store(path)
    with bn.SafeBandit.load(path) as bandit:
        bandit.save(copy)
    requests = [world.request() for _ in range(12)]
    requests[2]["baseline_reward"] = None
    requests[3]["baseline_reward"] = (0.0, 0.1)
    many = {
        "tasks": [r["task"] for r in requests],
        "actions": [r["actions"] for r in requests],
        "baselines": [r["baseline"] for r in requests],
    }
    with (
        serving(path, refresh=0.001) as (url, _),
        bn.Client(url) as client,
        bn.SafeBandit.load(copy) as bandit,
    ):
        for one, other in [(client.decide(**r), bandit.decide(**r)) for r in requests]:
            assert same(one, other)
            assert client.reward(one.id, 0.25) == bandit.reward(other.id, 0.25) == "accepted"
            assert client.reward(one.id, 0.25) == bandit.reward(other.id, 0.25) == "duplicate"
        assert all(map(same, client.decide_many(**many), bandit.decide_many(**many)))
        ids = list(range(480, 485))
        assert client.reward_many(ids, [0.1] * 5) == bandit.reward_many(ids, [0.1] * 5)
        assert client.retract(480, "wrong till") == bandit.retract(480, "wrong till")
        assert client.refit() == bandit.refit() == 2
        own, theirs = bandit.status(), client.status()
        assert {t.task: (t.decisions, t.gate) for t in theirs.tasks} == {
            t.task: (t.decisions, t.gate) for t in own.tasks
        }
        assert (theirs.decisions, theirs.left, theirs.rank) == (own.decisions, own.left, own.rank)
        assert client.receipt().decisions == bandit.receipt().decisions
        audit = client.audit(client.receipt())
        assert audit.passed
        assert audit.versions == bandit.audit().versions


# A log, a copy, an export or a trial of rewards belongs to who has the store.
ONLY_OF_THE_STORE = {"dry_run", "export", "load", "open_read_only", "save", "version", "warm_start"}


def arguments(kind: type, name: str) -> list[tuple[Any, ...]]:
    """Names of a method's arguments, how they may be given, what they are by default, and their types."""
    given = inspect.signature(getattr(kind, name)).parameters.values()
    return [(p.name, p.kind, p.default, p.annotation) for p in given]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_both_clients_have_the_bandits_methods_and_arguments(kind: type) -> None:
    methods, own = ({n for n in dir(k) if not n.startswith("_")} for k in (bn.SafeBandit, kind))
    assert own == methods - ONLY_OF_THE_STORE
    for name in own - {"decide_many"}:
        assert arguments(kind, name) == arguments(bn.SafeBandit, name), name
    # many requests may also be a log, whose column of tasks has a name: for who has the store
    *given, task = arguments(bn.SafeBandit, "decide_many")
    assert task[0] == "task"
    assert [a[:2] for a in arguments(kind, "decide_many")] == [a[:2] for a in given]


def test_the_async_client_does_the_same(shop: tuple[str, Path, World]) -> None:
    url, _, world = shop

    async def life() -> None:
        async with bn.AsyncClient(url) as client:
            made = await asyncio.gather(*(client.decide(**world.request()) for _ in range(20)))
            assert len({d.id for d in made}) == 20
            assert await client.reward(made[0].id, 0.5) == "accepted"
            r = world.request()
            many = await client.decide_many([r["task"]], [r["actions"]], baselines=[0])
            assert await client.reward_many([many[0].id], [0.5]) == ["accepted"]
            assert await client.retract(made[0].id, "because") == "retracted"
            assert (await client.status()).decisions == (await client.receipt()).decisions
            assert await client.refit() >= 2
            assert (await client.audit()).passed
            with pytest.raises(UnknownDecisionError):
                await client.reward(10**9, 1.0)

    asyncio.run(life())


def test_errors_are_the_librarys_own(shop: tuple[str, Path, World]) -> None:
    with bn.Client(shop[0]) as client:
        with pytest.raises(ShapeError, match="works with 8"):
            client.decide("a", np.eye(3), baseline=0)
        with pytest.raises(InputError, match="names no action"):
            client.decide("a", np.ones((2, 8)), baseline=7)
        with pytest.raises(UnknownDecisionError):
            client.reward(10**9, 1.0)
        with pytest.raises(InputError, match="2 ids and 1 rewards"):
            client.reward_many([1, 2], [1.0])
        with pytest.raises(InputError, match="There are 2 tasks"):
            client.decide_many(["a", "b"], [np.ones((2, 8))], baselines=[0, 0])
        made = client.decide("new", np.ones((2, 8)), baseline=lambda _: np.int64(1), key="mine")
        assert (made.action, math.isnan(made.lower_bound)) == (1, True)
        assert same(client.decide("new", np.ones((2, 8)), baseline=1, key="mine"), made)


def test_a_token_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "t.banister"
    make_store(path, n=20)
    with serving(path, tokens=LINES) as (url, _):
        with bn.Client(url, token=TOKENS["read"]) as client:
            assert client.receipt().decisions == 80
            with pytest.raises(ServiceError, match="this needs 'admin'") as refused:
                client.refit()
            assert refused.value.status == 403
        with bn.Client(url) as client, pytest.raises(ServiceError) as refused:
            client.receipt()
        assert refused.value.status == 401


class Flaky(httpx.BaseTransport):
    """Loses answers after they were made, and says 503 before, in turn."""

    def __init__(self, failures: list[str]) -> None:
        self._inner, self.failures, self.sent = httpx.HTTPTransport(), failures, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "busy":
            return httpx.Response(503, headers={"retry-after": "0"}, request=request)
        answer = self._inner.handle_request(request)
        if failure == "lost":
            answer.read()
            raise httpx.ReadError("the line went dead", request=request)
        return answer


def flaky(url: str, failures: list[str], retries: int = 5) -> tuple[Client, Flaky]:
    client, transport = bn.Client(url, retries=retries), Flaky(failures)
    client._http = httpx.Client(base_url=url, transport=transport)
    return client, transport


def test_a_call_whose_answer_was_lost_is_made_once(shop: tuple[str, Path, World]) -> None:
    url, _, world = shop
    client, line = flaky(url, ["lost", "busy", "lost"])
    before = client.receipt()
    line.failures = ["lost", "busy", "lost"]
    made = client.decide(**world.request())
    assert line.sent == 4 + 4  # three failures and the answer, for the receipt and for the decision
    after = client.receipt()
    assert (after.decisions, after.decisions - before.decisions) == (made.id, 1)
    line.failures = ["lost"]
    assert client.reward(made.id, 0.3) == "accepted"
    line.failures = ["lost"]
    requests = [world.request() for _ in range(3)]
    many: dict[str, Any] = {
        "tasks": [r["task"] for r in requests],
        "actions": [r["actions"] for r in requests],
        "baselines": [r["baseline"] for r in requests],
    }
    ids = [d.id for d in client.decide_many(**many)]
    assert ids == [made.id + 1, made.id + 2, made.id + 3]
    line.failures = ["lost"]
    assert client.reward_many(ids, [0.1, 0.2, 0.3]) == ["accepted"] * 3
    assert client.receipt().decisions == made.id + 3


def test_batches_carry_their_callers_keys(shop: tuple[str, Path, World]) -> None:
    url, _, world = shop
    requests = [world.request() for _ in range(3)]
    many: dict[str, Any] = {name + "s": [r[name] for r in requests] for name in ("task", "baseline")}
    many["actions"] = [r["actions"] for r in requests]
    with bn.Client(url) as client:
        first = client.decide_many(**many, keys=["a", None, "c"])
        again = client.decide_many(**many, keys=["a", None, "c"])
        assert [d.id for d in again] == [first[0].id, first[2].id + 1, first[2].id]
        before = client.receipt()
        with pytest.raises(InputError, match="came with another request"):
            client.decide_many(**{**many, "tasks": ["new", "newer", "newest"]}, keys=["x", "y", "c"])
        with pytest.raises(UnknownDecisionError):
            client.reward_many([first[0].id, 10**9], [0.5, 0.5], keys=["r", "s"])
        assert client.receipt() == before  # all or none
        for _ in range(2):
            assert client.reward_many([first[0].id], [0.5], keys=["r"]) == ["accepted"]
        for call in (client.decide_many, client.reward_many):
            given = many if call == client.decide_many else {"ids": [1, 2, 3], "rewards": [0.1] * 3}
            with pytest.raises(InputError, match="3 entries and 1 keys"):
                call(**given, keys=["a"])


def test_a_service_that_never_answers_is_told(shop: tuple[str, Path, World]) -> None:
    client, line = flaky(shop[0], ["lost"] * 9, retries=2)
    with pytest.raises(ServiceError, match="does not answer") as lost:
        client.receipt()
    assert (lost.value.status, line.sent) == (0, 3)
    client, line = flaky(shop[0], ["busy"] * 9, retries=1)
    with pytest.raises(ServiceError) as busy:
        client.receipt()
    assert (busy.value.status, line.sent) == (503, 2)
    with (
        bn.Client("http://127.0.0.1:1", retries=0) as nobody,
        pytest.raises(ServiceError, match="is it running"),
    ):
        nobody.receipt()
