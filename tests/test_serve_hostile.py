"""Callers that must be refused: each is answered with a problem document, logged, and changes nothing."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from banister.serve.packing import PACKED
from serve_world import LINES, TOKENS, make_store, serving

GOOD = {"task": "shop-1", "actions": [[0.0] * 8, [1.0] * 8], "baseline": 0, "baseline_reward": 0.1}
LESSER = ("decide", "reward", "read")
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("hostile") / "shop.banister"
    make_store(path)
    with serving(path, tokens=LINES, max_body=20_000, max_batch=5, body_timeout=1.0) as (address, _):
        yield address


def receipt(url: str) -> Any:
    return httpx.get(f"{url}/v1/receipt", headers=bearer("read")).raise_for_status().json()


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def refused(url: str, caplog: pytest.LogCaptureFixture, send: Any) -> httpx.Response:
    """The answer, after a look that nothing changed and that the refusal is in the log."""
    before = receipt(url)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="banister.serve"):
        answer: httpx.Response = send()
    assert receipt(url) == before
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == answer.status_code
    assert any(problem["request"] in record.getMessage() for record in caplog.records)
    assert not any(secret in record.getMessage() for record in caplog.records for secret in TOKENS.values())
    return answer


ROUTES = {
    ("POST", "/v1/decisions"): "decide",
    ("POST", "/v1/decisions:batch"): "decide",
    ("POST", "/v1/rewards"): "reward",
    ("POST", "/v1/rewards:batch"): "reward",
    ("POST", "/v1/retractions"): "admin",
    ("POST", "/v1/refits"): "admin",
    ("POST", "/v1/audits"): "admin",
    ("GET", "/v1/status"): "read",
    ("GET", "/v1/tasks"): "read",
    ("GET", "/v1/tasks/shop-1"): "read",
    ("GET", "/v1/decisions/1"): "read",
    ("GET", "/v1/receipt"): "read",
    ("GET", "/v1/happenings"): "read",
    ("GET", "/v1/trail"): "read",
    ("GET", "/v1/events"): "read",
    ("GET", "/metrics"): "read",
}
BODIES: dict[str, Any] = {
    "/v1/decisions": GOOD,
    "/v1/decisions:batch": {"requests": [GOOD]},
    "/v1/rewards": {"id": 1, "reward": 1.0},
    "/v1/rewards:batch": {"rewards": [{"id": 1, "reward": 1.0}]},
    "/v1/retractions": {"id": 1, "why": "because"},
    "/v1/refits": {},
    "/v1/audits": {},
}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_token(url: str, caplog: pytest.LogCaptureFixture, method: str, path: str) -> None:
    answer = refused(url, caplog, lambda: httpx.request(method, url + path, json=BODIES.get(path)))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        (*route, role)
        for route, needed in ROUTES.items()
        for role in ("decide", "reward", "read")
        if role != needed
    ],
)
def test_a_token_of_another_role(
    url: str, caplog: pytest.LogCaptureFixture, method: str, path: str, role: str
) -> None:
    send = lambda: httpx.request(method, url + path, json=BODIES.get(path), headers=bearer(role))  # noqa: E731
    assert refused(url, caplog, send).status_code == 403


@pytest.mark.parametrize(
    "header",
    [
        "", "Bearer", "Bearer wrong", f"Basic {TOKENS['admin']}", TOKENS["admin"],
        f"Bearer {TOKENS['admin']}x", f"Bearer {TOKENS['admin'][:-1]}", f"Bearer {TOKENS['admin'].upper()}",
        f"Bearer  {TOKENS['admin']} {TOKENS['admin']}", "Bearer " + "a" * 10_000, "Bearer \xff\xfe",
    ],
)  # fmt: skip
def test_a_token_that_is_none(url: str, caplog: pytest.LogCaptureFixture, header: str) -> None:
    raw = [(b"authorization", header.encode("latin-1"))]
    assert refused(url, caplog, lambda: httpx.get(f"{url}/v1/status", headers=raw)).status_code == 401


MALFORMED: list[tuple[str, bytes | Any, int]] = [
    ("/v1/decisions", b"", 400),
    ("/v1/decisions", b"{", 400),
    ("/v1/decisions", b"\x00\xff\xfe", 400),
    ("/v1/decisions", b"[" * 15_000, 400),
    ("/v1/decisions", b'{"task": "\\ud800", "baseline": 0}', 400),
    ("/v1/decisions", json.dumps(GOOD).encode("utf-16"), 400),
    ("/v1/decisions", b"null", 422),
    ("/v1/decisions", b"[]", 422),
    ("/v1/decisions", {}, 422),
    ("/v1/decisions", {**GOOD, "task": 5}, 422),
    ("/v1/decisions", {**GOOD, "task": ""}, 422),
    ("/v1/decisions", {**GOOD, "task": "a\0b"}, 422),
    ("/v1/decisions", {**GOOD, "actions": "x"}, 422),
    ("/v1/decisions", {**GOOD, "actions": []}, 422),
    ("/v1/decisions", {**GOOD, "actions": [[]]}, 422),
    ("/v1/decisions", {**GOOD, "actions": [[1.0], [1.0, 2.0]]}, 422),
    ("/v1/decisions", {**GOOD, "actions": [["1"] * 8]}, 422),
    ("/v1/decisions", {**GOOD, "actions": [[1.0] * 7]}, 422),
    ("/v1/decisions", {**GOOD, "actions": [[None] * 8]}, 422),
    ("/v1/decisions", {**GOOD, "shape": [2, 8]}, 422),
    ("/v1/decisions", {"task": "shop-1", "shape": [2, 8], "baseline": 0}, 422),
    ("/v1/decisions", json.dumps({**GOOD, "baseline_reward": float("nan")}).encode(), 422),
    ("/v1/decisions", b'{"task": "a", "actions": [[1e999]], "baseline": 0}', 422),
    ("/v1/decisions", {**GOOD, "baseline": -1}, 422),
    ("/v1/decisions", {**GOOD, "baseline": 2}, 422),
    ("/v1/decisions", {**GOOD, "baseline": 10**30}, 422),
    ("/v1/decisions", {**GOOD, "baseline": 0.5}, 422),
    ("/v1/decisions", {**GOOD, "baseline": True}, 422),
    ("/v1/decisions", {**GOOD, "baseline": "shop"}, 422),
    ("/v1/decisions", {**GOOD, "baseline_reward": [2.0, 1.0]}, 422),
    ("/v1/decisions", {**GOOD, "baseline_reward": [1.0, 2.0, 3.0]}, 422),
    ("/v1/decisions", {**GOOD, "baseline_reward_std": -1.0}, 422),
    ("/v1/decisions", {**GOOD, "key": ""}, 422),
    ("/v1/decisions", {**GOOD, "key": "k" * 300}, 422),
    ("/v1/decisions", {**GOOD, "context": {"age": 1}}, 422),
    ("/v1/decisions", {**GOOD, "__class__": "os.system"}, 422),
    ("/v1/decisions:batch", {"requests": [GOOD] * 6}, 413),
    ("/v1/decisions:batch", {"requests": [GOOD, {**GOOD, "baseline": 9}]}, 422),
    ("/v1/decisions:batch", {"requests": [GOOD, {**GOOD, "baseline": "x"}]}, 422),
    ("/v1/decisions:batch", {"requests": "all"}, 422),
    ("/v1/rewards", {"id": "1", "reward": 1.0}, 422),
    ("/v1/rewards", {"id": 0, "reward": 1.0}, 404),
    ("/v1/rewards", {"id": -1, "reward": 1.0}, 404),
    ("/v1/rewards", {"id": 10**6, "reward": 1.0}, 404),
    ("/v1/rewards", {"id": 1 << 64, "reward": 1.0}, 404),
    ("/v1/rewards", b'{"id": 1, "reward": Infinity}', 422),
    ("/v1/rewards", {"id": 1, "reward": None}, 422),
    ("/v1/rewards:batch", {"rewards": [{"id": 461, "reward": 1.0}, {"id": 10**9, "reward": 1.0}]}, 404),
    ("/v1/rewards:batch", {"rewards": [{"id": 1, "reward": 1.0}] * 6}, 413),
    ("/v1/retractions", {"id": 1, "why": "  "}, 422),
    ("/v1/retractions", {"id": 10**9, "why": "because"}, 404),
    ("/v1/refits", {"wait": "yes"}, 422),
    ("/v1/audits", {"receipt": {"hash": "x"}}, 422),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status"), MALFORMED)
def test_a_body_that_cannot_be_used(
    url: str, caplog: pytest.LogCaptureFixture, path: str, body: bytes | Any, status: int
) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    send = lambda: httpx.post(url + path, content=data, headers={**JSON, **bearer("admin")})  # noqa: E731
    assert refused(url, caplog, send).status_code == status


SHAPED = b'{"task": "shop-1", "shape": [2, 8], "baseline": 0}'
ZEROS = b"\n" + b"\0" * 128
PACKED_WRONGLY: list[tuple[str, bytes, int]] = [
    ("/v1/decisions", b"", 422),
    ("/v1/decisions", SHAPED, 422),
    ("/v1/decisions", SHAPED + b"\n", 422),
    ("/v1/decisions", SHAPED + ZEROS[:-8], 422),
    ("/v1/decisions", SHAPED + ZEROS[:-1], 422),
    ("/v1/decisions", SHAPED + ZEROS + b"\0" * 8, 422),
    ("/v1/decisions", SHAPED + b"\n" + b"\xff" * 128, 422),
    ("/v1/decisions", SHAPED.replace(b"[2, 8]", b"[-2, -8]") + ZEROS, 422),
    ("/v1/decisions", SHAPED.replace(b"[2, 8]", b"[0, 8]") + b"\n", 422),
    ("/v1/decisions", SHAPED.replace(b"[2, 8]", b"[4, 4]") + ZEROS, 422),
    ("/v1/decisions", SHAPED.replace(b"[2, 8]", b"[1099511627776, 1099511627776]") + ZEROS, 422),
    ("/v1/decisions", SHAPED.replace(b"[2, 8]", b"[2.0, 8.0]") + ZEROS, 422),
    ("/v1/decisions", SHAPED.replace(b"{", b'{"actions": [[0.0]], ') + ZEROS, 422),
    ("/v1/decisions", b"{" + ZEROS, 400),
    ("/v1/decisions", b"\n" + ZEROS[1:], 400),
    ("/v1/decisions:batch", b'{"requests": [' + SHAPED + b"," + SHAPED + b"]}" + ZEROS, 422),
    ("/v1/decisions:batch", b'{"requests": []}' + ZEROS, 422),
    ("/v1/rewards", b'{"id": 1, "reward": 1.0}\n', 415),
]


@pytest.mark.parametrize(("path", "body", "status"), PACKED_WRONGLY)
def test_numbers_that_do_not_follow_as_they_should(
    url: str, caplog: pytest.LogCaptureFixture, path: str, body: bytes, status: int
) -> None:
    headers = {"content-type": PACKED, **bearer("admin")}
    send = lambda: httpx.post(url + path, content=body, headers=headers)  # noqa: E731
    assert refused(url, caplog, send).status_code == status


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "application/jsonx"])
def test_another_kind_of_body(url: str, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    headers = {**bearer("admin"), "content-type": kind}
    send = lambda: httpx.post(f"{url}/v1/decisions", content=json.dumps(GOOD), headers=headers)  # noqa: E731
    assert refused(url, caplog, send).status_code == 415


def test_a_body_that_is_too_large(url: str, caplog: pytest.LogCaptureFixture) -> None:
    headers = {**JSON, **bearer("admin")}
    whole = lambda: httpx.post(f"{url}/v1/decisions", content=b" " * 20_001, headers=headers)  # noqa: E731
    assert refused(url, caplog, whole).status_code == 413

    def parts() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 1000

    chunked = lambda: httpx.post(f"{url}/v1/decisions", content=parts(), headers=headers)  # noqa: E731
    assert refused(url, caplog, chunked).status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/../settings.py", 404),
        ("GET", "/static/../settings.py", 404),
        ("GET", "/static/%2e%2e/settings.py", 404),
        ("GET", "/static/..%2fsettings.py", 404),
        ("GET", "/static//etc/passwd", 404),
        ("GET", "/static/app.js%00.html", 404),
        ("GET", "/static/", 404),
        ("GET", "//v1/status", 404),
        ("GET", "/v1/status/", 404),
        ("GET", "/V1/STATUS", 404),
        ("GET", "/v1/tasks/%00", 404),
        ("GET", "/v1/tasks/%ff%fe", 404),
        ("GET", "/v1/tasks/../../../etc/passwd", 404),
        ("GET", "/v1/decisions/1;DROP TABLE decisions", 404),
        ("GET", "/v1/decisions/0", 404),
        ("GET", "/v1/decisions/-1", 404),
        ("GET", "/v1/decisions/1.0", 404),
        ("GET", "/v1/decisions/" + "9" * 19, 404),
        ("GET", "/v1/decisions/" + "9" * 5000, 404),
        ("GET", "/v1/decisions/%D9%A3", 404),
        ("GET", "/docs", 404),
        ("GET", "/v1/decisions", 405),
        ("PUT", "/v1/decisions", 405),
        ("DELETE", "/v1/decisions/1", 405),
        ("POST", "/v1/status", 405),
        ("TRACE", "/v1/status", 405),
        ("POST", "/", 405),
    ],
)
def test_path_tricks(url: str, caplog: pytest.LogCaptureFixture, method: str, path: str, status: int) -> None:
    """Sent as they stand: a client library would tidy them first."""
    head = f"{method} {path.replace(' ', '%20')} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    head += f"authorization: Bearer {TOKENS['admin']}\r\ncontent-length: 0\r\n\r\n"
    answer = refused(url, caplog, lambda: spoken(url, head.encode()))
    assert answer.status_code == status


def test_a_line_break_in_a_label_makes_no_second_line_in_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    send = lambda: httpx.get(f"{url}/v1/nothing%0Aforged%20line", headers=bearer("read"))  # noqa: E731
    refused(url, caplog, send)
    assert not any("\n" in record.getMessage() for record in caplog.records)


def connected(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=15)


def spoken(url: str, data: bytes) -> httpx.Response:
    """The answer to these very bytes."""
    with connected(url) as line:
        line.sendall(data)
        heard = b""
        while part := line.recv(65536):
            heard += part
    head, _, body = heard.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = [tuple(text.split(": ", 1)) for text in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)  # type: ignore[arg-type]


def closed_within(line: socket.socket, seconds: float) -> bool:
    line.settimeout(seconds)
    try:
        while line.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("said", [b"", b"GET /v1/sta", b"POST /v1/decisions HTTP/1.1\r\nhost: x\r\nx-a: "])
def test_a_head_that_never_ends_is_cut_off(url: str, said: bytes) -> None:
    with connected(url) as line:
        line.sendall(said)
        assert closed_within(line, 8)


def test_a_head_that_trickles_is_cut_off(url: str) -> None:
    with connected(url) as line:
        line.sendall(b"GET /v1/status HTTP/1.1\r\n")
        began = time.monotonic()
        with suppress(OSError):  # the server has hung up
            while time.monotonic() - began < 8:
                line.sendall(b"x-a: 1\r\n")
                time.sleep(0.1)
        assert time.monotonic() - began < 8


def test_a_body_that_trickles_is_cut_off(url: str, caplog: pytest.LogCaptureFixture) -> None:
    head = (
        b"POST /v1/decisions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 500\r\n"
    )
    head += f"authorization: Bearer {TOKENS['admin']}\r\n\r\n{{".encode()
    assert refused(url, caplog, lambda: spoken(url, head)).status_code == 408


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/refits HTTP/1.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/refits HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(url: str, said: bytes) -> None:
    before = receipt(url)
    assert spoken(url, said).status_code == 400
    assert receipt(url) == before


def test_a_client_that_leaves_in_the_middle_changes_nothing(url: str) -> None:
    before = receipt(url)
    with connected(url) as line:
        head = f"POST /v1/decisions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKENS['admin']}\r\n"
        line.sendall(f"{head}content-type: application/json\r\ncontent-length: 500\r\n\r\n{{".encode())
    time.sleep(0.2)
    assert receipt(url) == before


def test_silent_connections_do_not_keep_others_waiting(url: str) -> None:
    lines = [connected(url) for _ in range(50)]
    try:
        assert httpx.get(f"{url}/healthz", timeout=5).status_code == 200
    finally:
        for line in lines:
            line.close()


def test_too_many_requests_are_told_when_to_come_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rate.banister"
    make_store(path, n=20)
    with serving(path, tokens=LINES, rate=0.5, burst=3) as (url, _):
        answers = [httpx.get(f"{url}/v1/receipt", headers=bearer("read")) for _ in range(5)]
        assert [a.status_code for a in answers] == [200, 200, 200, 429, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 2
        assert httpx.get(f"{url}/v1/receipt", headers=bearer("admin")).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80"}, 421),
        ({"host": "localhost.evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example:8080"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_without_tokens_a_page_of_another_site_reaches_nothing(
    open_url: str, headers: dict[str, str], status: int
) -> None:
    before = httpx.get(f"{open_url}/v1/receipt").json()
    assert httpx.post(f"{open_url}/v1/decisions", json=GOOD, headers=headers).status_code == status
    assert httpx.get(f"{open_url}/v1/receipt").json() == before


@pytest.fixture(scope="module")
def open_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("open") / "shop.banister"
    make_store(path, n=20)
    with serving(path) as (address, _):
        yield address


def test_without_tokens_its_own_page_reaches_it(open_url: str) -> None:
    port = open_url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", "[::1]"):
        headers = {"host": f"{host}:{port}", "origin": f"http://{host}:{port}"}
        assert httpx.get(f"{open_url}/v1/status", headers=headers).status_code == 200


def test_a_fault_of_the_server_tells_nothing_of_its_inside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fault.banister"
    make_store(path, n=20)
    with serving(path) as (url, server):
        monkeypatch.setattr(server._service.bandit, "decide", lambda **_: 1 / 0)
        answer = httpx.post(f"{url}/v1/decisions", json=GOOD)
    assert answer.status_code == 500
    assert "division" not in answer.text
    assert answer.json()["request"] in caplog.text
    assert "ZeroDivisionError" in caplog.text
