"""A real Chromium, driven over a pipe with its own protocol: no driver and no other library is needed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_PATIENCE = 60.0  # seconds for anything a page is waited for; a busy machine is slow


class Tab:
    """One tab: go somewhere, evaluate, press keys, look."""

    def __init__(self, out: int, into: int) -> None:
        self._out, self._in, self._last, self._rest = out, os.fdopen(into, "rb"), 0, b""
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = session["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    _session: str | None = None
    _loaded = False

    def call(self, method: str, **params: Any) -> Any:
        """One command; what comes in between is noted."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            assert select.select([self._in], [], [], _PATIENCE)[0], "Chromium says nothing"
            part = os.read(self._in.fileno(), 1 << 16)
            assert part, "Chromium has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: Any) -> None:
        """Exceptions, and what the browser itself complains of, such as a blocked script."""
        params = message.get("params", {})
        self._loaded |= message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", {}).get("description")))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + _PATIENCE
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < until, f"never true: {script}"
            time.sleep(0.05)

    def go(self, url: str) -> None:
        """Open an address, until it has loaded."""
        self._loaded = False
        to_another_page = "loaderId" in self.call("Page.navigate", url=url)
        while to_another_page and not self._loaded:
            self._next()

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """The size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def scheme(self, name: str) -> None:
        """What the system prefers: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key: str, text: str = "") -> None:
        """One key."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        more = {"windowsVirtualKeyCode": codes.get(key, 0)}
        text = "\r" if key == "Enter" else text
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, **more)

    def type(self, text: str) -> None:
        """Text, key by key."""
        for letter in text:
            self.press(letter, letter)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """What is seen, as a PNG."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """A tab of a new Chromium; skipped where there is none, unless one is required."""
    if CHROMIUM is None:
        if os.environ.get("BANISTER_REQUIRE_BROWSER"):
            pytest.fail(
                "BANISTER_REQUIRE_BROWSER is set, but there is no Chromium; apt-get install chromium."
            )
        pytest.skip("no Chromium is installed; apt-get install chromium to drive the page.")
    (hear, out), (back, tell) = os.pipe(), os.pipe()
    hear, tell = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (hear, tell))

    def ends() -> None:
        os.dup2(hear, 3)
        os.dup2(tell, 4)

    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
               f"--user-data-dir={folder / 'profile'}"]  # fmt: skip
    process = subprocess.Popen(command, close_fds=False, preexec_fn=ends, stderr=subprocess.DEVNULL)
    try:
        yield Tab(out, back)
    finally:
        process.kill()
        process.wait()
        for end in (hear, tell, out):
            os.close(end)
