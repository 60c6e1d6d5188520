"""The Dockerfile's own steps without a Docker engine: in a fresh folder, as an unprivileged user.

    python scripts/container_check.py [--python /usr/bin/python3.11]

Each instruction is read from the Dockerfile; its absolute paths are moved below the fresh folder. Steps that
need a container (FROM, useradd, VOLUME) are left out. Then everything but /data is made read-only, the
entry point is started, asked for a decision, and stopped. Run as root it becomes the user `nobody`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOBODY = 65534
PLACES = ("/opt/banister", "/data", "/run/secrets")
SECRET = "a-secret-of-the-container-check"


def steps(text: str) -> list[tuple[str, str]]:
    """Instructions and what follows them."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


class Container:
    """A fresh folder that stands for the image's file system."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        self.env = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "PATH", "SSL_"))}
        self.env |= {"HOME": "/nonexistent", "TMPDIR": str(self.made("tmp"))}
        self.source, self.data = self.made("src"), self.made("data")
        self.made("opt")
        self.made("run/secrets")

    def made(self, name: str) -> Path:
        """A folder of the unprivileged user."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        return path

    def moved(self, text: str) -> str:
        """Absolute paths of the image, below the folder."""
        for place in PLACES:
            text = text.replace(place, f"{self.folder}{place}")
        return text

    def copy(self, names: str) -> None:
        """COPY from the project."""
        *sources, target = names.split()
        for source in sources:
            here, there = ROOT / source, self.source / (source if target == "./" else target)
            if here.is_dir():
                shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(here, there)

    def run(self, command: str) -> None:
        """RUN as the unprivileged user."""
        print("RUN", command, flush=True)
        words = [self.python if w == "python3" else w for w in shlex.split(self.moved(command))]
        subprocess.run(words, cwd=self.source, env=self.env, check=True, **self.user)

    def build(self) -> list[str]:
        """Do every step; the entry point."""
        entry: list[str] = []
        for name, rest in steps((ROOT / "Dockerfile").read_text()):
            if name == "COPY" and not rest.startswith("--from"):
                self.copy(rest)
                if os.getuid() == 0:
                    subprocess.run(["chown", "-R", str(NOBODY), self.source], check=True)
            elif name == "RUN" and "useradd" not in rest:
                self.run(rest)
            elif name == "ENV":
                key, _, value = rest.partition("=")
                self.env[key] = self.moved(value)
            elif name == "ENTRYPOINT":
                entry = [self.moved(word) for word in json.loads(rest)]
        return entry

    def seal(self) -> set[Path]:
        """Nothing but /data can be written from now on; what there is."""
        subprocess.run(["chmod", "-R", "a-w", self.folder / "opt", self.source], check=True)
        return set((self.folder / "opt").rglob("*"))


def asked(url: str, body: object = None) -> dict[str, object]:
    """One request."""
    headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


def wait_for(url: str, process: subprocess.Popen[bytes]) -> float:
    """Seconds until the service is ready."""
    began = time.monotonic()
    while time.monotonic() - began < 120:
        assert process.poll() is None, "the entry point ended"
        try:
            asked(f"{url}/readyz")
        except OSError:
            time.sleep(0.1)
        else:
            return time.monotonic() - began
    raise AssertionError("the service did not begin")


def check(container: Container, entry: list[str]) -> None:
    """Start, decide, reward, stop; nothing outside /data may change."""
    before = container.seal()
    (container.folder / "run/secrets/tokens").write_text(f"check admin {SECRET}\n")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [*entry, "--alpha", "0.1", "--port", str(port)]
    process = subprocess.Popen(command, cwd=container.data, env=container.env, **container.user)
    try:
        url = f"http://127.0.0.1:{port}"
        print(f"ready after {wait_for(url, process):.1f} s")
        made = asked(f"{url}/v1/decisions", {"task": "a", "actions": [[1.0, 0.0], [0.0, 1.0]], "baseline": 1})
        assert made["action"] == 1, made
        assert asked(f"{url}/v1/rewards", {"id": made["id"], "reward": 0.5})["outcome"] == "accepted"
        process.send_signal(signal.SIGTERM)
        process.wait(40)
    finally:
        process.kill()
    assert set((container.folder / "opt").rglob("*")) == before, "something was written outside /data"
    print("kept in /data:", *sorted(path.name for path in container.data.iterdir()))


def main() -> None:
    """Build, check, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="python3", help="what the image calls python3")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="banister-container-") as name:
        os.chmod(name, 0o755)
        container = Container(Path(name), given.python)
        check(container, container.build())
    print("the Dockerfile's steps work as an unprivileged user")


if __name__ == "__main__":
    main()
