"""The service in numbers: beside a bare FastAPI endpoint that echoes, in batches, under load, and killed.

    python benchmarks/serve.py [--seconds 10] [--load 600] [--kills 20] [--postgres URL] [--out serve.json]

Client and servers are processes of this machine, on loopback. Echo and service take turns, a second each, so
that a busy machine slows both alike; `cpu_us` is the server's own time a decision. The echo endpoint is what
the framework's own tutorial shows: a JSON body in, the same out. Each request has 20 actions of 100 features;
connections are kept alive.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import banister as bn
from banister.errors import ServiceError
from banister.serve.packing import PACKED, pack, unpack

DIM, ACTIONS, TASKS, CONNECTIONS = 100, 20, 20, 4
LINES = 3  # connections that send batches: while one is decided, the next is read
BAR = 10_000  # decisions a second in batches
ONE, BATCH = "/v1/decisions", "/v1/decisions:batch"
ECHO = """
from fastapi import FastAPI
import sys, uvicorn
app = FastAPI()
@app.post("/echo")
async def echo(body: dict) -> dict:
    return body
uvicorn.run(app, port=int(sys.argv[1]), http="httptools", loop="uvloop", access_log=False, log_level="error")
"""


class World:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        basis = np.linalg.qr(self.rng.standard_normal((DIM, 2)))[0]
        self.theta = (basis @ self.rng.standard_normal((2, TASKS))).T

    def logs(self, rows: int) -> dict[str, Any]:
        task = np.repeat(np.arange(TASKS), rows)
        X = self.rng.standard_normal((len(task), DIM))
        y = np.einsum("nd,nd->n", X, self.theta[task]) + 0.1 * self.rng.standard_normal(len(task))
        return {"task": [f"task-{t}" for t in task], "reward": y, "x": X}

    def request(self) -> dict[str, Any]:
        t, A = int(self.rng.integers(TASKS)), self.rng.standard_normal((ACTIONS, DIM))
        mean = A @ self.theta[t]
        k = int(np.argsort(mean)[-5])
        return {"task": f"task-{t}", "actions": A, "baseline": k, "baseline_reward": float(mean[k])}

    def one(self, path: str, *, packed: bool) -> bytes:
        """A request for one decision, as it is sent."""
        return post(path, *told_apart(self.request(), packed))

    def many(self, n: int, *, packed: bool) -> bytes:
        """A request for a batch."""
        parts = [told_apart(self.request(), packed) for _ in range(n)]
        return post(BATCH, {"requests": [p[0] for p in parts]}, *(p[1] for p in parts if packed))

    def alike(self, n: int) -> bytes:
        """A request for a batch whose requests have the same actions."""
        A = self.request()["actions"]
        mean = A @ self.theta.T
        asked = [(int(self.rng.integers(TASKS)), int(self.rng.integers(ACTIONS))) for _ in range(n)]
        rows = [{"task": f"task-{t}", "baseline": k, "baseline_reward": float(mean[k, t])} for t, k in asked]
        return post(BATCH, {"actions": A.tolist(), "requests": rows})


def told_apart(request: dict[str, Any], packed: bool) -> tuple[Any, ...]:
    """A request's JSON, and its numbers if they are to follow it."""
    A, rest = request["actions"], {k: v for k, v in request.items() if k != "actions"}
    return ({**rest, "shape": A.shape}, A) if packed else ({**rest, "actions": A.tolist()},)


def make_store(world: World, path: str | Path) -> None:
    with bn.SafeBandit(0.1, path=path, refits="manual", seed=1) as bandit:
        bandit.warm_start(world.logs(150), features="x")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def started(command: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 600  # a store that a long load has filled is read through first
    while time.monotonic() < until:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    raise RuntimeError("the server did not begin")


def serve(path: str | Path, port: int) -> subprocess.Popen[bytes]:
    main = "from banister.cli import main; main()"
    return started([sys.executable, "-c", main, "serve", str(path), "--port", str(port)], port)


class Line:
    """A connection that sends bytes and reads one answer."""

    def __init__(self, port: int) -> None:
        self._s = socket.create_connection(("127.0.0.1", port))
        self._s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, data: bytes) -> bytes:
        self._s.sendall(data)
        heard = self._s.recv(1 << 18)
        head, _, body = heard.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        parts, have = [body], len(body)
        while have < length:
            parts.append(self._s.recv(1 << 18))
            have += len(parts[-1])
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(b"".join([head, *parts])[:500].decode())
        return b"".join(parts)


def post(path: str, body: Any, *numbers: Any) -> bytes:
    line = json.dumps(body).encode()
    data, kind = (pack(line, numbers), PACKED) if numbers else (line, "application/json")
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def pressed(port: int, requests: list[bytes], seconds: float, connections: int = CONNECTIONS) -> list[float]:
    """Latencies of as many requests as get through."""
    found: list[list[float]] = [[] for _ in range(connections)]
    until = time.perf_counter() + seconds

    def one(mine: list[float], start: int) -> None:
        line, i = Line(port), start
        while (begin := time.perf_counter()) < until:
            line.ask(requests[i % len(requests)])
            mine.append(time.perf_counter() - begin)
            i += 1

    threads = [threading.Thread(target=one, args=(mine, 7 * i)) for i, mine in enumerate(found)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [latency for mine in found for latency in mine]


def told(latencies: list[float], seconds: float, each: int = 1) -> dict[str, float]:
    p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
    rate = each * len(latencies) / seconds
    return {"per_second": round(rate, 1), "p50_ms": round(p50, 3), "p99_ms": round(p99, 3)}


def single(world: World, port: int, seconds: float) -> dict[str, Any]:
    """Echo, service with rows of numbers, service with packed numbers: a second each, in turn."""
    other = free_port()
    echo = started([sys.executable, "-c", ECHO, str(other)], other)
    ways = {
        "echo": (other, [world.one("/echo", packed=False) for _ in range(64)]),
        "decisions": (port, [world.one(ONE, packed=False) for _ in range(64)]),
        "decisions, packed": (port, [world.one(ONE, packed=True) for _ in range(64)]),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    try:
        for _ in range(round(seconds)):
            for name, (where, requests) in ways.items():
                found[name] += pressed(where, requests, 1.0)
    finally:
        echo.terminate()
    out: dict[str, Any] = {name: told(latencies, round(seconds)) for name, latencies in found.items()}
    for name in ("decisions", "decisions, packed"):
        out[name]["rate_to_echo"] = round(out[name]["per_second"] / out["echo"]["per_second"], 2)
        out[name]["p99_to_echo"] = round(out[name]["p99_ms"] / out["echo"]["p99_ms"], 2)
    return out


def batches(world: World, port: int, process: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """Batches in three forms: rows of numbers as text, packed, and one list of actions for all as text."""
    return {
        "batches of 100": batch(port, process, [world.many(100, packed=False) for _ in range(4)], seconds),
        "packed": batch(port, process, [world.many(100, packed=True) for _ in range(4)], seconds),
        "common actions": batch(port, process, [world.alike(100) for _ in range(4)], seconds),
    }


def batch(
    port: int, process: subprocess.Popen[bytes], bodies: list[bytes], seconds: float
) -> dict[str, float]:
    begin = cpu(process)
    latencies = pressed(port, bodies, seconds, LINES)
    spent = (cpu(process) - begin) / len(latencies) / 100
    return {**told(latencies, seconds, 100), "cpu_us": round(spent * 1e6, 1), "bytes": len(bodies[0]) // 100}


def contexts(folder: Path, seconds: float, **options: Any) -> dict[str, float]:
    """Batches of raw contexts, as an application with named arms sends them."""
    rng, n, names = np.random.default_rng(0), 4000, ["spring", "bundle", "loyalty", "free", "none"]
    log: dict[str, Any] = {
        "task": [f"task-{i % TASKS}" for i in range(n)], "age": rng.integers(18, 80, n).tolist(),
        "basket": rng.random(n).tolist(), "hour": rng.integers(0, 24, n).tolist(),
        "device": rng.choice(["ios", "android", "web"], n).tolist(),
        "country": rng.choice(list("abcdef"), n).tolist(), "arm": rng.choice(names, n).tolist(),
    }  # fmt: skip
    log["reward"] = [0.3 * (arm == "bundle") + 0.2 * rng.random() for arm in log["arm"]]
    arms = bn.Arms(names, numeric=["age", "basket", "hour"], categorical=["device", "country"])
    path, port = folder / f"raw{len(options)}.banister", free_port()
    with bn.SafeBandit(0.1, features=arms, path=path, refits="manual", seed=1, **options) as bandit:
        bandit.warm_start(log)
    rows = [{c: log[c][i] for c in ("age", "basket", "hour", "device", "country")} for i in range(400)]
    sent = [{"task": log["task"][i], "context": row, "baseline": "spring"} for i, row in enumerate(rows)]
    process = serve(path, port)
    try:
        bodies = [post(BATCH, {"requests": sent[i : i + 100]}) for i in range(0, 400, 100)]
        return batch(port, process, bodies, seconds)
    finally:
        process.terminate()
        process.wait()


def cpu(process: subprocess.Popen[bytes]) -> float:
    """Seconds of CPU that a process has used."""
    parts = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: subprocess.Popen[bytes]) -> float:
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def load(
    world: World, port: int, process: subprocess.Popen[bytes], seconds: float, rate: float
) -> dict[str, Any]:
    """Packed batches at a steady rate, each followed by its rewards, and a refit every minute.

    Rewards are those of the world that the store was made from, so that gates stay open. The client shares
    the machine: it reads ids and features from an answer and nothing else.
    """
    bodies = [world.many(100, packed=True) for _ in range(16)]
    theta = [world.theta[[int(t) for t in re.findall(rb'"task-(\d+)"', body)]] for body in bodies]
    times: dict[str, list[float]] = {"decisions": [], "rewards": []}
    errors: list[str] = []
    begin, refits, grown = time.perf_counter(), [], [memory(process)]

    def timed(line: Line, kind: str, data: bytes) -> bytes:
        start = time.perf_counter()
        answer = line.ask(data)
        times[kind].append(time.perf_counter() - start)
        return answer

    def one(start: int) -> None:
        line, i = Line(port), start
        while (due := begin + i * 100 / rate) < begin + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                made = timed(line, "decisions", bodies[i % len(bodies)])
                timed(line, "rewards", rewards_for(made, theta[i % len(bodies)]))
            except Exception as reason:
                errors.append(repr(reason))
                line = Line(port)
            i += LINES

    threads = [threading.Thread(target=one, args=(i,)) for i in range(LINES)]
    for thread in threads:
        thread.start()
    while time.perf_counter() < begin + seconds - 15:
        time.sleep(min(60.0, seconds / 4))
        start = time.perf_counter()
        Line(port).ask(post("/v1/refits", {}))  # a new connection: the server closes idle ones
        refits.append(time.perf_counter() - start)
        grown.append(memory(process))
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    return {
        "seconds": round(took, 1), "asked_per_second": rate,
        "errors": len(errors), "first_errors": errors[:3],
        "decisions": worst(times["decisions"], took), "rewards": worst(times["rewards"], took),
        "refit_seconds": [round(r, 1) for r in refits], "memory_mb": [round(m) for m in grown],
    }  # fmt: skip


def rewards_for(made: bytes, theta: Any) -> bytes:
    """A request with the rewards of decisions, from the packed answer that made them."""
    line, features = unpack(made)
    earned = np.einsum("nd,nd->n", features.reshape(theta.shape), theta)
    earned += 0.1 * np.random.default_rng().standard_normal(len(earned))
    ids = re.findall(rb'"id":(\d+)', line)
    rows = b",".join(b'{"id":%b,"reward":%.6f}' % row for row in zip(ids, earned.tolist(), strict=True))
    head = b"POST /v1/rewards:batch HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    body = b'{"rewards":[' + rows + b"]}"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def worst(latencies: list[float], seconds: float) -> dict[str, Any]:
    over = sum(latency > 0.25 for latency in latencies)
    return {**told(latencies, seconds, 100), "worst_ms": round(max(latencies) * 1e3, 1), "over_250_ms": over}


class Caller:
    """One client under load: it makes each call again, at the next server, until it is answered."""

    def __init__(self, name: str, ports: list[int], over: threading.Event) -> None:
        self._name, self._over = name, over
        self._clients = [bn.Client(f"http://127.0.0.1:{p}", retries=0, timeout=30) for p in ports]
        self._turn = 0
        self.seen: list[tuple[str, int]] = []
        self.rewarded: dict[int, float] = {}
        self.faults: list[str] = []

    def run(self) -> None:
        rng = np.random.default_rng(hash(self._name) % 2**32)
        for i in range(10**9):
            if self._over.is_set():
                return
            key, A = f"{self._name}:{i}", rng.standard_normal((ACTIONS, DIM))
            made = self._answered("decide", f"task-{i % TASKS}", A, baseline=0, key=key)
            self.seen.append((key, made.id))
            if self._answered("reward", made.id, float(i), key=key) != "accepted":
                self.faults.append(f"reward of {made.id} was not accepted")
            self.rewarded[made.id] = float(i)

    def _answered(self, method: str, *values: Any, **named: Any) -> Any:
        while True:
            client = self._clients[self._turn % len(self._clients)]
            try:
                return getattr(client, method)(*values, **named)
            except ServiceError as reason:
                if reason.status not in (0, 503):
                    self.faults.append(str(reason))
                self._turn += 1
                time.sleep(0.05)


def killed(store: str, ports: list[int], kills: int) -> dict[str, Any]:
    """Clients with keys, servers one of which is killed again and again: is anything lost, or done twice?"""
    over = threading.Event()
    processes = [serve(store, port) for port in ports]
    callers = [
        Caller(f"c{i}", ports[i % len(ports) :] + ports[: i % len(ports)], over) for i in range(CONNECTIONS)
    ]
    threads = [threading.Thread(target=caller.run) for caller in callers]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        before = done(callers)
        while done(callers) < before + 50:  # under load: not before the clients are back
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.5))
        i = random.randrange(len(ports))
        processes[i].send_signal(signal.SIGKILL)
        processes[i].wait()
        processes[i] = serve(store, ports[i])
    over.set()
    for thread in threads:
        thread.join()
    for process in processes:
        process.terminate()
        process.wait()
    return {"kills": kills, "processes": len(ports), **compared(store, callers)}


def done(callers: list[Caller]) -> int:
    return sum(len(caller.seen) for caller in callers)


def compared(store: str, callers: list[Caller]) -> dict[str, Any]:
    """What clients were told, and what the ledger holds."""
    with bn.SafeBandit.open_read_only(store) as bandit:
        records = [(r.key, r.id) for r in bandit._engine.store.ledger.decisions() if r.key is not None]
        rewards = {r.id: r.value for r in bandit._engine.store.ledger.rewards()}
        audit = bandit.audit()
    by_key = dict(records)
    seen = [pair for caller in callers for pair in caller.seen]
    rewarded = [pair for caller in callers for pair in caller.rewarded.items()]
    return {
        "acknowledged": len(seen), "lost": sum(by_key.get(key) != number for key, number in seen),
        "made_twice": len(records) - len(by_key),
        "rewards": len(rewarded), "lost_rewards": sum(rewards.get(n) != value for n, value in rewarded),
        "unanswered": len(set(by_key) - {key for key, _ in seen}),
        "faults": [fault for caller in callers for fault in caller.faults][:5], "audit": audit.passed,
    }  # fmt: skip


def killed_in_postgres(world: World, url: str, kills: int) -> dict[str, Any]:
    """Three processes over one store in PostgreSQL, which is removed afterwards."""
    import psycopg

    name = f"bench_{os.getpid()}"
    store = f"{url}{'&' if '?' in url else '?'}store={name}"
    try:
        make_store(world, store)
        return killed(store, [free_port() for _ in range(3)], kills)
    finally:
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def again(
    process: subprocess.Popen[bytes], path: Path, port: int, found: dict[str, Any]
) -> subprocess.Popen[bytes]:
    """Kill the server and start it again: how long does it take to read what it had written?"""
    process.kill()
    process.wait()
    begin = time.perf_counter()
    process = serve(path, port)
    found["opened_again_in_seconds"] = round(time.perf_counter() - begin, 1)
    found["ledger_gb"] = round(sum(f.stat().st_size for f in path.parent.glob(f"{path.name}*")) / 1e9, 2)
    return process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--load", type=float, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--postgres", help="URL of a database: kill one of three processes over it too")
    parser.add_argument("--postgres-kills", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    world = World()
    with tempfile.TemporaryDirectory() as folder:
        path, port = Path(folder) / "shop.banister", free_port()
        make_store(world, path)
        process = serve(path, port)
        found: dict[str, Any] = {"single": single(world, port, given.seconds)}
        print(json.dumps(found["single"], indent=1))
        found["batches"] = batches(world, port, process, given.seconds)
        print(json.dumps(found["batches"], indent=1))
        for name, options in (("contexts", {}), ("contexts, drawn", {"reward_range": (0, 1)})):
            found[name] = contexts(Path(folder), given.seconds, **options)
            print(json.dumps({name: found[name]}, indent=1))
        if given.load:
            found["load"] = load(world, port, process, given.load, 0.7 * BAR)
            process = again(process, path, port, found["load"])
            print(json.dumps(found["load"], indent=1))
        process.terminate()
        process.wait()
        if given.kills:
            fresh = Path(folder) / "killed.banister"
            make_store(world, fresh)
            found["killed"] = killed(str(fresh), [port], given.kills)
            print(json.dumps(found["killed"], indent=1))
    if given.postgres:
        found["killed in PostgreSQL"] = killed_in_postgres(world, given.postgres, given.postgres_kills)
        print(json.dumps(found["killed in PostgreSQL"], indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
