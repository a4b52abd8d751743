"""Headless Chromium for tests of pages: it opens a file, evaluates expressions and takes pictures.

Chromium is spoken to by its DevTools protocol, over the WebSocket client of tornado.  Nothing is
downloaded; tests are skipped where no Chromium is installed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
START_S = 60.0
"""The most seconds until Chromium listens, on a busy machine."""
ANSWER_S = 120.0
"""The most seconds until it answers."""


def chromium() -> str:
    """The path of Chromium; skips the test where there is none."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no headless Chromium is installed ({', '.join(NAMES)})")


def axe_source() -> str:
    """The script of axe-core, from the file that DSHAP_AXE names; skips the test without it."""
    path = os.environ.get("DSHAP_AXE", "")
    if not path:
        pytest.skip("axe-core is not at hand: set DSHAP_AXE to the path of its axe.min.js")
    return Path(path).read_text(encoding="utf-8")


class Page:
    """One page of a running Chromium."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: Any) -> None:
        self.loop = loop
        self.socket = socket
        self.n_sent = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol; its result."""
        self.n_sent += 1
        number = self.n_sent
        self.loop.run_until_complete(
            self._write({"id": number, "method": method, "params": params})
        )
        while True:
            content = json.loads(self.loop.run_until_complete(self._read()))
            if content.get("id") == number:
                assert "error" not in content, (method, content["error"])
                return content["result"]
            self.events.append(content)

    async def _write(self, content: dict[str, Any]) -> None:
        await self.socket.write_message(json.dumps(content))

    async def _read(self) -> Any:
        return await asyncio.wait_for(self.socket.read_message(), ANSWER_S)

    def open(self, path: Path) -> None:
        """Open a file and wait until it is loaded."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(each["method"] == "Page.loadEventFired" for each in self.events):
            self.call("Runtime.evaluate", expression="0")
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        options = {"returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, such as "ArrowRight"."""
        codes = {"ArrowRight": 39, "ArrowLeft": 37, "Tab": 9, " ": 32}
        kind = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown", **kind)
        self.call("Input.dispatchKeyEvent", type="keyUp", **kind)

    def wait_for(self, expression: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never true: {expression}"
            time.sleep(0.05)

    def requests(self) -> list[str]:
        """The addresses that the page has asked for, data of its own aside."""
        self.call("Runtime.evaluate", expression="0")
        sent = [each for each in self.events if each["method"] == "Network.requestWillBeSent"]
        urls = [each["params"]["request"]["url"] for each in sent]
        return [url for url in urls if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the policy of the page has stopped."""
        self.call("Runtime.evaluate", expression="0")
        found = []
        for each in self.events:
            if each["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(each["params"]["exceptionDetails"]))
            if each["method"] == "Log.entryAdded" and each["params"]["entry"]["level"] == "error":
                found.append(each["params"]["entry"]["text"])
        return found

    def resize(self, width: int, height: int) -> None:
        """Give the page the size of a screen."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def picture(self, path: Path, selector: str = "") -> Path:
        """Write a PNG of the page, or of one element."""
        options: dict[str, Any] = {"captureBeyondViewport": True}
        if selector:
            box = (
                f"(() => {{ const r = document.querySelector({json.dumps(selector)})"
                ".getBoundingClientRect(); return [r.x + scrollX, r.y + scrollY, r.width, r.height]"
                "; })()"
            )
            x, y, width, height = self.value(box)
            options["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        taken = self.call("Page.captureScreenshot", **options)
        path.write_bytes(base64.b64decode(taken["data"]))
        return path


@contextmanager
def browser() -> Iterator[Page]:
    """A page of a new Chromium, which ends with the block."""
    websocket = pytest.importorskip("tornado.websocket", reason="tornado is not installed")
    program = chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = [
            "--headless=new",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--remote-debugging-port=0",
            "--remote-allow-origins=*",
            f"--user-data-dir={folder}",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        process = subprocess.Popen(
            [program, *options, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        loop = asyncio.new_event_loop()
        try:
            url = _address(Path(folder) / "DevToolsActivePort", loop)
            socket = loop.run_until_complete(_connected(websocket, url))
            yield Page(loop, socket)
            loop.run_until_complete(_closed(socket))
        finally:
            process.terminate()
            process.wait(30)
            loop.close()


async def _connected(websocket: Any, url: str) -> Any:
    return await websocket.websocket_connect(url, max_message_size=1 << 30)


async def _closed(socket: Any) -> None:
    socket.close()


def _address(file: Path, loop: asyncio.AbstractEventLoop) -> str:
    """The WebSocket of the first page, once Chromium has written its port."""
    from tornado.httpclient import AsyncHTTPClient

    async def listed(port: str) -> list[dict[str, Any]]:
        answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")
        return json.loads(answer.body)

    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if file.exists() and file.read_text().count("\n"):
            pages = loop.run_until_complete(listed(file.read_text().splitlines()[0]))
            for each in pages:
                if each["type"] == "page":
                    return str(each["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise TimeoutError("Chromium does not listen")
