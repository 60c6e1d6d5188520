"""The service: the same answers as the library's, keys, batches, metrics, a graceful stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import banister as bn
from banister.errors import ModelFileError, SettingError
from banister.online import _digest
from banister.online.record import AlarmRecord
from banister.safety import _kernels
from banister.serve import desk
from banister.serve.board import earned, page
from banister.serve.packing import PACKED, pack, unpack
from banister.serve.schema import DecisionRequest, TasksQuery
from banister.serve.service import open_store
from banister.serve.settings import ServeSettings
from banister.serve.tokens import Tokens, new_token
from online_world import World
from serve_world import LINES, TOKENS, as_json, bearing, make_store, serving


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, World]]:
    path = tmp_path_factory.mktemp("serve") / "shop.banister"
    world = make_store(path)
    with serving(path, tokens=LINES, refresh=0.05) as (url, _):
        yield url, path, world


def test_a_service_decides_as_the_library_does(tmp_path: Path) -> None:
    """Two copies of one store, asked the same: over HTTP as rows, packed, and by a call."""
    path, copy = tmp_path / "a.banister", tmp_path / "b.banister"
    world = make_store(path)
    with bn.SafeBandit.load(path) as bandit:
        bandit.save(copy)
    requests = [world.request() for _ in range(20)]
    with bn.SafeBandit.load(copy) as bandit:
        expected = [bandit.decide(**r).to_dict() for r in requests]
    with serving(path) as (url, _), httpx.Client(base_url=url) as client:
        found = []
        for i, request in enumerate(requests):
            sent = packed([request]) if i % 2 else {"json": as_json(request)}
            answer = client.post("/v1/decisions", **sent).raise_for_status()
            found.append(opened(answer) if i % 2 else answer.json())
    assert found == expected
    assert any(d["certified"] for d in found)


def packed(requests: list[dict[str, Any]], *, batch: bool = False) -> dict[str, Any]:
    """Requests whose numbers follow a line of JSON."""
    lines = [{**r, "shape": r["actions"].shape} for r in requests]
    for line in lines:
        del line["actions"]
    line = json.dumps({"requests": lines} if batch else lines[0]).encode()
    headers = {"content-type": PACKED}
    return {"content": pack(line, [r["actions"] for r in requests]), "headers": headers}


def opened(answer: httpx.Response) -> dict[str, Any]:
    """A packed decision, with its features."""
    assert answer.headers["content-type"] == PACKED
    line, numbers = unpack(answer.content)
    return {**json.loads(line), "features": numbers.tolist()}


@pytest.mark.parametrize("alike", [True, False])
def test_a_packed_batch_is_what_rows_of_numbers_are(tmp_path: Path, alike: bool) -> None:
    path, copy = tmp_path / "a.banister", tmp_path / "b.banister"
    world = make_store(path)
    with bn.SafeBandit.load(path) as bandit:
        bandit.save(copy)
    requests = [world.request() for _ in range(9)]
    if not alike:
        requests[4]["actions"] = np.concatenate([requests[4]["actions"], requests[5]["actions"]])
    rows = {"requests": [as_json(r) for r in requests]}
    with serving(path) as (url, _):
        expected = httpx.post(f"{url}/v1/decisions:batch", json=rows).raise_for_status().json()["decisions"]
    with serving(copy) as (url, _):
        answer = httpx.post(f"{url}/v1/decisions:batch", **packed(requests, batch=True)).raise_for_status()
        line, numbers = unpack(answer.content)
    found = json.loads(line)["decisions"]
    assert [
        {**d, "features": x.tolist()} for d, x in zip(found, numbers.reshape(9, -1), strict=True)
    ] == expected


def test_a_packed_batch_needs_no_kernel_that_is_not_there_from_the_start(tmp_path: Path) -> None:
    """A container may have nowhere to keep a new one, and would compile it while a request waits."""
    path = tmp_path / "a.banister"
    world = make_store(path)
    with serving(path) as (url, _):
        before = len(_kernels.judge.signatures), len(_digest._digests.signatures)
        httpx.post(
            f"{url}/v1/decisions:batch", **packed([world.request()] * 2, batch=True)
        ).raise_for_status()
        httpx.post(f"{url}/v1/decisions", **packed([world.request()])).raise_for_status()
        assert (len(_kernels.judge.signatures), len(_digest._digests.signatures)) == before


def test_a_batch_is_what_its_requests_are_one_by_one(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.banister", tmp_path / "b.banister"
    world = make_store(path)
    with bn.SafeBandit.load(path) as bandit:
        bandit.save(copy)
    requests = [as_json(world.request()) for _ in range(12)]
    requests[3]["baseline_reward"] = None
    requests[5]["baseline_reward"] = [0.1, 0.2]
    with serving(path) as (url, _):
        whole = httpx.post(f"{url}/v1/decisions:batch", json={"requests": requests}).json()["decisions"]
    with serving(copy) as (url, _):
        keyed = [{**r, "key": f"k{i}"} for i, r in enumerate(requests)]
        single = httpx.post(f"{url}/v1/decisions:batch", json={"requests": keyed}).json()["decisions"]
        again = httpx.post(f"{url}/v1/decisions:batch", json={"requests": keyed}).json()["decisions"]
    assert whole == single == again
    assert [d["task"] for d in whole] == [r["task"] for r in requests]


def test_a_key_in_header_or_body_makes_a_call_repeatable(shop: tuple[str, Path, World]) -> None:
    url, _, world = shop
    request = as_json(world.request())
    with bearing(url, "admin") as client:
        first = client.post("/v1/decisions", json=request, headers={"Idempotency-Key": "one"}).json()
        again = client.post("/v1/decisions", json={**request, "key": "one"}).json()
        assert first == again
        other = {**request, "task": "shop-other"}
        used = client.post("/v1/decisions", json=other, headers={"Idempotency-Key": "one"})
        assert used.status_code == 422
        assert "came with another request before" in used.json()["detail"]
        both = client.post(
            "/v1/decisions", json={**request, "key": "two"}, headers={"Idempotency-Key": "one"}
        )
        assert both.status_code == 422
        earned = {"id": first["id"], "reward": 0.5}
        for outcome in ("accepted", "accepted"):
            found = client.post("/v1/rewards", json=earned, headers={"Idempotency-Key": "r"})
            assert found.json() == {"id": first["id"], "outcome": outcome}
        assert client.post("/v1/rewards", json=earned).json()["outcome"] == "duplicate"


def test_rewards_in_batches(shop: tuple[str, Path, World]) -> None:
    url, _, world = shop
    with bearing(url, "admin") as client:
        requests = [as_json(world.request()) for _ in range(3)]
        ids = [client.post("/v1/decisions", json=r).json()["id"] for r in requests]
        rewards = [{"id": i, "reward": 0.1} for i in ids]
        found = client.post("/v1/rewards:batch", json={"rewards": [*rewards, rewards[0]]})
        assert found.json() == {"outcomes": ["accepted"] * 3 + ["duplicate"]}
        keyed = [{**r, "key": "x"} for r in rewards]
        assert (
            client.post("/v1/rewards:batch", json={"rewards": keyed}).json()["outcomes"] == ["duplicate"] * 3
        )
        unknown = client.post("/v1/rewards:batch", json={"rewards": [{"id": 10**30, "reward": 1.0}]})
        assert unknown.status_code == 404
        assert unknown.json()["type"] == "urn:banister:unknown-decision"
        taken = client.post("/v1/retractions", json={"id": ids[0], "why": "a till that counted twice"})
        assert taken.json() == {"id": ids[0], "outcome": "retracted"}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A store whose bandit makes features of raw contexts."""
    arms = bn.Arms(["spring", "bundle"], numeric=["age"], categorical=["device"])
    log = {
        "task": ["a", "b"] * 10, "age": list(range(20, 40)), "device": ["ios", "web"] * 10,
        "arm": ["spring", "bundle"] * 10, "reward": [0.0, 1.0] * 10,
    }  # fmt: skip
    path = tmp_path / "raw.banister"
    with bn.SafeBandit(0.1, features=arms, path=path, refits="manual", reward_range=(0, 1), seed=3) as bandit:
        bandit.warm_start(log)
    return path


RAW: dict[str, Any] = {"task": "a", "context": {"age": 41, "device": None}, "baseline": "bundle"}


def test_raw_contexts_are_decided_from(raw: Path) -> None:
    with serving(raw) as (url, _), httpx.Client(base_url=url) as client:
        made = client.post("/v1/decisions", json={**RAW, "offered": ["bundle"]}).json()
        assert (made["arm"], made["action"]) == ("bundle", 0)
        wrong = client.post("/v1/decisions", json={**RAW, "baseline": "summer"})
        assert wrong.status_code == 422
        assert "'summer' is not on offer" in wrong.json()["detail"]
        assert "banister_left_total 0.0" in client.get("/metrics").text


def test_a_batch_of_contexts_and_rows_is_decided_as_one_by_one(raw: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.banister"
    with bn.SafeBandit.load(raw) as bandit:
        bandit.save(copy)
        row = bandit.features.actions({"age": 30, "device": "ios"}).tolist()  # type: ignore[union-attr]
    requests = [{**RAW, "context": {"age": age, "device": "web"}} for age in range(20, 60)]
    mixed = [{"task": "b", "actions": row, "baseline": 0}, {**RAW, "offered": ["bundle"]}, *requests]
    with bn.SafeBandit.load(copy) as bandit:
        expected = [bandit.decide(**r).to_dict() for r in [*requests, *mixed]]
    with serving(raw) as (url, _), httpx.Client(base_url=url) as client:
        parts = [client.post("/v1/decisions:batch", json={"requests": r}) for r in (requests, mixed)]
    found = [d for part in parts for d in part.json()["decisions"]]
    assert found == expected
    assert {d["arm"] for d in found} == {"spring", "bundle", None}


def test_a_context_at_fault_refuses_its_whole_batch_by_its_place(raw: Path) -> None:
    body = {"requests": [RAW, {**RAW, "context": {"age": 41}}]}
    with serving(raw) as (url, _), httpx.Client(base_url=url) as client:
        wrong = client.post("/v1/decisions:batch", json=body)
        assert wrong.status_code == 422
        assert wrong.json()["detail"].startswith("request 1: context lacks 'device'")
        both = client.post("/v1/decisions:batch", json={"requests": [{**RAW, "actions": [[1.0]]}]})
        assert "Give actions= or context=, not both" in both.json()["detail"]
        assert client.get("/v1/receipt").json()["decisions"] == 0


def test_actions_of_a_batch_are_those_of_requests_without_their_own(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.banister", tmp_path / "b.banister"
    world = make_store(path)
    with bn.SafeBandit.load(path) as bandit:
        bandit.save(copy)
    own, other = world.request(), world.request()
    rest = [{"task": f"shop-{i % 5}", "baseline": i % 3} for i in range(20)]
    with bn.SafeBandit.load(copy) as bandit:
        expected = [bandit.decide(**r, actions=own["actions"]).to_dict() for r in rest]
        expected.append(bandit.decide(**other).to_dict())
    body = {"actions": own["actions"].tolist(), "requests": [*rest, as_json(other)]}
    line = {"shape": own["actions"].shape, "requests": rest}
    sent = {"content": pack(json.dumps(line).encode(), [own["actions"]]), "headers": {"content-type": PACKED}}
    with serving(path) as (url, _), httpx.Client(base_url=url) as client:
        found = client.post("/v1/decisions:batch", json=body).json()["decisions"]
        again = client.post("/v1/decisions:batch", **sent).raise_for_status()
        both = client.post("/v1/decisions:batch", json={**body, "shape": [1, 1]})
    assert found == expected
    assert any(d["certified"] for d in found)
    actions = [d["action"] for d in json.loads(unpack(again.content)[0])["decisions"]]
    assert actions == [d["action"] for d in expected[:-1]]
    assert both.status_code == 422


def test_few_bytes_cannot_ask_for_much_memory(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_NUMBERS", 100)
    with serving(raw) as (url, _), httpx.Client(base_url=url) as client:
        for body in (
            {"requests": [RAW] * 50},
            {"actions": [[0.0] * 14] * 5, "requests": [{"task": "a", "baseline": 0}] * 2},
        ):
            refused = client.post("/v1/decisions:batch", json=body)
            assert refused.status_code == 413
            assert "send it in parts" in refused.json()["detail"]
        assert client.get("/v1/receipt").json()["decisions"] == 0


def test_the_status_is_the_ledgers(shop: tuple[str, Path, World]) -> None:
    url, path, _ = shop
    time.sleep(0.1)
    with bearing(url, "read") as client:
        found = client.get("/v1/status").json()
        tasks = client.get("/v1/tasks?limit=1000").json()
    with bn.SafeBandit.open_read_only(path) as bandit:
        own = bandit.status()
        records = list(bandit._engine.store.ledger.decisions())
    for name in ("decisions", "rewards", "pending", "model_version", "drifts", "rank"):
        assert found[name] == getattr(own, name)
    left = sum(r.action != r.baseline for r in records)
    assert found["left"] == pytest.approx(left / len(records))
    assert sum(found["gates"].values()) == found["n_tasks"] == tasks["total"] == len(own.tasks)
    by_hand = sum(t.moved * t.uplift for t in own.tasks if t.uplift is not None) / len(records)
    assert found["earned"]["value"] == pytest.approx(by_hand)
    assert found["earned"]["low"] < by_hand < found["earned"]["high"]
    assert {t["task"]: t["decisions"] for t in tasks["tasks"]} == {t.task: t.decisions for t in own.tasks}


def test_tasks_are_searched_sorted_and_paged(shop: tuple[str, Path, World]) -> None:
    url, path, _ = shop
    with bn.SafeBandit.open_read_only(path) as bandit:
        tasks = bandit.status().tasks
    down = page(tasks, TasksQuery(sort="decisions", order="down", limit=1000))["tasks"]
    assert [t.decisions for t in down] == sorted((t.decisions for t in tasks), reverse=True)
    pages = [page(tasks, TasksQuery(offset=i, limit=5))["tasks"] for i in range(0, len(tasks), 5)]
    assert sorted(t.task for part in pages for t in part) == sorted(t.task for t in tasks)
    assert {t.task for t in page(tasks, TasksQuery(search="SHOP-1"))["tasks"]} >= {"shop-1", "shop-10"}
    assert page(tasks, TasksQuery(gate="nothing"))["total"] == 0
    by_uplift = [t.uplift for t in page(tasks, TasksQuery(sort="uplift", limit=1000))["tasks"]]
    known = [u for u in by_uplift if u is not None]
    assert by_uplift == sorted(known) + [None] * (len(by_uplift) - len(known))
    with bearing(url, "read") as client:
        for query in ("sort=secret", "limit=0", "limit=5000", "offset=-1", "order=sideways", "more=1"):
            assert client.get(f"/v1/tasks?{query}").status_code == 422


def test_a_decision_is_explained_from_features_to_bound(shop: tuple[str, Path, World]) -> None:
    url, path, _ = shop
    with bn.SafeBandit.open_read_only(path) as bandit:
        record = next(r for r in bandit._engine.store.ledger.decisions() if r.moved)
        belief = bandit._engine.model.belief
    with bearing(url, "read") as client:
        found = client.get(f"/v1/decisions/{record.id}").raise_for_status().json()
        first = client.get("/v1/decisions/1").json()
        assert client.get("/v1/decisions/999999").status_code == 404
    assert (found["bound"], found["floor"], found["reason"]) == (record.bound, record.floor, "certified")
    played = float(belief.predict(record.task, record.played[None])[0])
    assert found["played"]["value"] == pytest.approx(played)
    assert found["usual"]["value"] == pytest.approx(
        float(belief.predict(record.task, record.baseline_vector[None])[0])
    )
    assert found["ahead"]["value"] == pytest.approx(found["played"]["value"] - found["usual"]["value"])
    assert sum(f["played"] for f in found["features"]) == pytest.approx(played)
    assert found["bound"] < found["played"]["value"]
    assert (first["played"], first["features"], first["reason"]) == (None, [], "fallback:no-data")


def test_a_tasks_past_is_the_ledgers(shop: tuple[str, Path, World]) -> None:
    url, path, _ = shop
    with bn.SafeBandit.open_read_only(path) as bandit:
        store = bandit._engine.store
        own = [r for r in store.ledger.decisions() if store.labels[r.task] == "shop-3"]
        rewards = {r.id: r.value for r in store.ledger.rewards()}
    with bearing(url, "read") as client:
        found = client.get("/v1/tasks/shop-3").json()
        assert client.get("/v1/tasks/shop-none").status_code == 404
    assert [d["id"] for d in found["decisions"]] == [r.id for r in reversed(own)][:200]
    assert [d["reward"] for d in found["decisions"]] == [rewards.get(d["id"]) for d in found["decisions"]]
    assert found["status"]["decisions"] == len(own)
    assert [e["kind"] for e in found["events"]] == ["refit"]


def test_labels_with_slashes_and_signs_are_found(tmp_path: Path) -> None:
    path = tmp_path / "odd.banister"
    labels = ["a/b", "../up", "50 %", "naïve?x=1#y", "a//b"]
    with bn.SafeBandit(0.1, path=path, refits="manual") as bandit:
        for label in labels:
            bandit.decide(label, np.eye(2), baseline=0)
    with serving(path) as (url, _), httpx.Client(base_url=url) as client:
        from urllib.parse import quote

        for label in labels:
            assert client.get(f"/v1/tasks/{quote(label, safe='')}").json()["task"] == label


def test_refits_audits_and_receipts(shop: tuple[str, Path, World]) -> None:
    url = shop[0]
    with bearing(url, "admin") as client:
        kept = client.get("/v1/receipt").json()
        before = client.get("/v1/status").json()["model_version"]
        assert client.post("/v1/refits", json={}).json()["model_version"] >= before
        audit = client.post("/v1/audits", json={"receipt": kept}).json()
        assert audit["passed"] is True
        assert audit["decisions"] == kept["decisions"]
        forged = {**kept, "hash": "0" * 64}
        assert client.post("/v1/audits", json={"receipt": forged}).json()["passed"] is False
        kinds = [e["kind"] for e in client.get("/v1/happenings").json()["events"]]
        assert kinds.count("refit") >= 2


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    path = tmp_path / "m.banister"
    world = make_store(path)
    with serving(path, refresh=0.01) as (url, _), httpx.Client(base_url=url) as client:
        made = [client.post("/v1/decisions", json=as_json(world.request())).json() for _ in range(10)]
        for d in made[:4]:
            client.post("/v1/rewards", json={"id": d["id"], "reward": 0.2})
        client.post("/v1/rewards", json={"id": made[0]["id"], "reward": 0.2})
        client.post("/v1/refits", json={})
        client.post("/v1/decisions", content=b"{", headers={"content-type": "application/json"})
        time.sleep(1.5)  # the watcher looks once a second
        lines = dict(
            line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#"
        )
        status = client.get("/v1/status").json()
    reasons = {k: float(v) for k, v in lines.items() if k.startswith("banister_decisions_total")}
    assert sum(reasons.values()) == 10
    assert float(lines['banister_rewards_total{outcome="accepted"}']) == 4
    assert float(lines['banister_rewards_total{outcome="duplicate"}']) == 1
    assert float(lines["banister_reward_delay_seconds_count"]) == 4
    assert float(lines["banister_refit_seconds_count"]) == 1
    assert float(lines['banister_refused_requests_total{status="400"}']) == 1
    assert float(lines['banister_gates{gate="open"}']) == status["gates"]["open"]
    assert float(lines["banister_model_version"]) == status["model_version"] == 2
    count = 'banister_request_seconds_count{route="/v1/decisions",status="200"}'
    assert float(lines[count]) == 10


def test_events_tell_of_refits_and_alarms_as_they_happen(tmp_path: Path) -> None:
    path = tmp_path / "e.banister"
    make_store(path)
    with (
        serving(path, refresh=0.05) as (url, server),
        httpx.Client(base_url=url, timeout=30) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        httpx.post(f"{url}/v1/refits", json={}).raise_for_status()
        assert _event(lines, "refit")["version"] == 2
        bandit = server._service.bandit
        with bandit._lock, bandit._engine.call:
            bandit._engine._rung.append(AlarmRecord(1, 5.0, 3, 2, 1, 460, 9.0))
            bandit._engine.store.ledger.add_alarm(bandit._engine._rung[0])
        bandit._engine.count_alarms()
        alarm = _event(lines, "alarm")
        assert (alarm["task"], alarm["time"]) == (bandit._engine.store.labels[3], 5.0)
        assert httpx.get(f"{url}/v1/happenings").json()["events"][-1] == alarm


def _event(lines: Iterator[str], kind: str) -> Any:
    for line in lines:
        if line == f"event: {kind}":
            return json.loads(next(lines).removeprefix("data: "))
    pytest.fail(f"the stream ended without {kind!r}")


def test_a_stop_finishes_what_was_begun_and_ends_streams(tmp_path: Path) -> None:
    path = tmp_path / "stop.banister"
    world = make_store(path)
    answers: list[int] = []
    with serving(path) as (url, server):
        bandit = server._service.bandit
        body = as_json(world.request())

        def ask() -> None:
            answers.append(httpx.post(f"{url}/v1/decisions", json=body, timeout=30).json()["id"])

        with httpx.stream("GET", f"{url}/v1/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            bandit._lock.acquire()  # the decision is under way, and cannot go on
            asking = threading.Thread(target=ask)
            asking.start()
            time.sleep(0.3)
            server.should_exit = True
            time.sleep(0.5)
            bandit._lock.release()
            asking.join(20)
            assert "".join(lines) == ""
    assert answers == [461]
    with bn.SafeBandit.open_read_only(path) as bandit:
        assert bandit.status().decisions == 461


def test_readiness_follows_the_store(tmp_path: Path) -> None:
    path = tmp_path / "r.banister"
    make_store(path)
    with serving(path) as (url, server):
        assert httpx.get(f"{url}/readyz").json() == {"status": "ready"}
        server._service.bandit._engine.closed = True
        answer = httpx.get(f"{url}/readyz")
        assert answer.status_code == 503
        assert "closed" in answer.json()["detail"]
        server._service.bandit._engine.closed = False
        server._service.stopping = True
        assert httpx.get(f"{url}/readyz").status_code == 503
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_settings_come_from_a_file_then_the_environment_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('store = "a.banister"\nport = 1\nrate = 5.0\nburst = 7\n')
    env = {"BANISTER_SERVE_PORT": "2", "BANISTER_SERVE_RATE": "6.5", "OTHER": "x"}
    settings = ServeSettings.of({"port": 3, "store": None}, file=file, env=env)
    assert (settings.store, settings.port, settings.rate, settings.burst) == ("a.banister", 3, 6.5, 7)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "store is missing"),
        ({"store": "a", "port": 70000}, "port=70000"),
        ({"store": "a", "alpha": 1.5}, "alpha=1.5"),
        ({"store": "a", "colour": "red"}, "'colour' is no setting"),
        ({"store": "a", "max_body": 1}, "max_body=1"),
        ({"store": "a", "rate": float("inf")}, "rate=inf"),
        ({"store": "a", "body_timeout": 0}, "body_timeout=0"),
    ],
)
def test_a_setting_that_cannot_be_is_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said.replace("'", ".")):
        ServeSettings.of(values, env={})


def test_a_mistake_is_told_with_the_place_where_it_stands(tmp_path: Path) -> None:
    file, good = tmp_path / "serve.toml", {"store": "a"}
    for line, said in [
        ("prot = 1", r"'prot' in '.*serve.toml' is no setting"),
        ('port = "x"', r"port='x' in '.*serve.toml': input should be a valid integer"),
        ("[serve]\nport = 1", "'serve' in .* is no setting"),
        ("port = ", "is not TOML"),
    ]:
        file.write_text(line)
        with pytest.raises(SettingError, match=said):
            ServeSettings.of(good, file=file, env={})
    for name, value, said in [
        ("PROT", "1", "'prot' from BANISTER_SERVE_PROT is no setting"),
        ("PORT", "eighty", "port='eighty' from BANISTER_SERVE_PORT: input should be a valid integer"),
        ("RATE", "nan", "rate='nan' from BANISTER_SERVE_RATE: input should be a finite number"),
        ("REWARD_RANGE", "0", "reward_range='0' from .*: give the lowest and the highest reward"),
        ("REWARD_RANGE", "0,x", "reward_range='0,x' from .*: give the lowest and the highest reward"),
    ]:
        with pytest.raises(SettingError, match=said):
            ServeSettings.of(good, env={f"BANISTER_SERVE_{name}": value})


def test_an_empty_variable_is_none() -> None:
    settings = ServeSettings.of(
        {"store": "a"}, env={"BANISTER_SERVE_TOKENS_FILE": "", "BANISTER_SERVE_PORT": ""}
    )
    assert (settings.tokens_file, settings.port) == (None, 8080)


@pytest.mark.parametrize("name", ["", "a b"])
def test_the_name_of_a_new_token_is_one_word(name: str) -> None:
    with pytest.raises(SettingError, match=f"name='{name}' is not possible: .* one word"):
        new_token(name, "read")


def test_a_secret_belongs_to_one_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("wall read correct-horse-battery-staple\n")
    assert Tokens.read("shop decide another-horse-battery-staple", file)
    with pytest.raises(SettingError, match="'shop' and 'wall' have the same secret"):
        Tokens.read("shop admin correct-horse-battery-staple", file)


def test_without_tokens_only_this_machine_is_served() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert not ServeSettings(store="a", host=host).read_tokens()
    for host in ("0.0.0.0", "::", "10.0.0.1", "shop.example", ""):
        with pytest.raises(SettingError, match="there are no tokens"):
            ServeSettings(store="a", host=host).read_tokens()
    assert ServeSettings(store="a", host="0.0.0.0", tokens=LINES).read_tokens()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("shop decide", "it has 2 parts"),
        ("shop decide,fly a-secret-that-is-long", "'fly' is no role"),
        ("shop decide short", "has 5 characters"),
        ("shop decide sha256:abc", "64 hexadecimal digits"),
    ],
)
def test_a_token_that_cannot_be_is_refused(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=said):
        Tokens.read(line)
    file = tmp_path / "tokens"
    file.write_text(f"# a comment\n\n{line}\n")
    with pytest.raises(SettingError, match=f"line 3.*{said}"):
        Tokens.read("", file)


def test_a_new_token_opens_what_its_roles_open(tmp_path: Path) -> None:
    secret, line = new_token("shop", "decide,reward")
    assert secret not in line
    file = tmp_path / "tokens"
    file.write_text(line)
    tokens = Tokens.read("", file)
    bearer = tokens.bearer(f"Bearer {secret}".encode())
    assert bearer is not None
    assert [bearer.may(r) for r in ("decide", "reward", "read", "admin")] == [True, True, False, False]
    assert tokens.bearer(secret.encode()) is None
    assert tokens.bearer(f"Basic {secret}".encode()) is None
    assert tokens.bearer(None) is None
    file.write_text("# none\n")
    with pytest.raises(SettingError, match="holds no token"):
        Tokens.read("", file)


def test_a_store_is_started_only_if_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "new.banister"
    with pytest.raises(SettingError, match="start one with --alpha"):
        open_store(ServeSettings(store=str(path)))
    assert list(tmp_path.iterdir()) == []
    open_store(ServeSettings(store=str(path), alpha=0.2)).close()
    with open_store(ServeSettings(store=str(path))) as bandit:
        assert bandit.settings.alpha == 0.2
    with pytest.raises(SettingError, match=r"made with alpha=0\.2"):
        open_store(ServeSettings(store=str(path), alpha=0.3))
    open_store(ServeSettings(store=str(path), alpha=0.2)).close()
    Path(f"{path}.ledger").write_bytes(b"this is no database, whatever it says")
    with pytest.raises((ModelFileError, bn.errors.DataFileError)):
        open_store(ServeSettings(store=str(path), alpha=0.2))


def test_a_store_is_started_with_its_promise(tmp_path: Path) -> None:
    path = str(tmp_path / "new.banister")
    env = {"BANISTER_SERVE_REWARD_RANGE": "0,1", "BANISTER_SERVE_HOLDOUT": "0.2"}
    flags = {"store": path, "alpha": 0.1, "promise": "fleet", "on_harm": "stop"}
    with open_store(ServeSettings.of(flags, env=env)) as bandit:
        s = bandit.settings
        assert (s.promise, s.reward_range, s.holdout, s.on_harm) == ("fleet", (0.0, 1.0), 0.2, "stop")
    open_store(ServeSettings.of(flags, env=env)).close()  # what it was made with may be said again
    for name, value in (("reward_range", (0, 2)), ("promise", "task"), ("holdout", 0.1), ("on_harm", "free")):
        with pytest.raises(SettingError, match=f"was made with {name}=.*; leave {name} out"):
            open_store(ServeSettings.of({"store": path, name: value}, env={}))
    with pytest.raises(SettingError, match="reward_range"):
        ServeSettings.of({"store": path, "reward_range": "0,1,2"}, env={})


def test_the_gain_without_any_uplift_is_unknown(tmp_path: Path) -> None:
    with bn.SafeBandit(0.1, refits="manual") as bandit:
        assert earned(bandit.status()).value is None
        bandit.decide("a", np.eye(2), baseline=0)
        assert earned(bandit.status()).value is None


def test_the_openapi_document_names_every_route_and_answer(shop: tuple[str, Path, World]) -> None:
    document = httpx.get(f"{shop[0]}/openapi.json").json()
    assert set(document["components"]["schemas"]["Decision"]["properties"]) == set(bn.Decision._fields)
    assert {"/v1/decisions", "/v1/decisions:batch", "/v1/rewards", "/v1/status", "/metrics"} <= set(
        document["paths"]
    )
    body = document["paths"]["/v1/decisions"]["post"]["requestBody"]["content"]["application/json"]
    DecisionRequest.model_validate_json(json.dumps(body["example"]))
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(document["components"]["schemas"])


def test_tokens_are_in_nobodys_answer(shop: tuple[str, Path, World]) -> None:
    with bearing(shop[0], "read") as client:
        pages = [client.get(p).text for p in ("/", "/v1/status", "/metrics", "/openapi.json", "/v1/receipt")]
    assert not any(secret in text for secret in TOKENS.values() for text in pages)
