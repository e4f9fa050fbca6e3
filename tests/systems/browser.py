"""A headless Chromium, driven through its debugging pipe; nothing else is needed for that."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS = 30


def chromium() -> str:
    """Return the path of the browser."""
    found = [path for path in map(shutil.which, NAMES) if path]
    assert found, "these tests need Chromium: apt install chromium"
    return found[0]


class Page:
    """A page in the browser."""

    def __init__(self, to: int, answers: int) -> None:
        self._to = to
        self._answers = os.fdopen(answers, "rb", buffering=0)
        self._number = 0
        self._found: dict[int, dict[str, Any]] = {}
        self._arrived = threading.Condition()
        # What the page wrote to its console, and its exceptions; requests by address.
        self.console: list[str] = []
        self.requests: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol on the page."""
        return self._call(method, session=self._session, **parameters)

    def open(self, url: str) -> None:
        """Open an address."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.evaluate(f"Boolean({expression})"):
                return
            time.sleep(0.05)
        body = self.evaluate("document.body?.innerText")
        raise AssertionError(f"never true: {expression}\n{self.console}\n{body}")

    def text(self) -> str:
        """Return the text that the page shows."""
        return str(self.evaluate("document.body.innerText"))

    def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **(more if kind == "keyDown" else {}),
            )

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        """Set the size of the window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )

    def prefer(self, scheme: str) -> None:
        """Prefer ``light`` or ``dark`` pages."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        """Save what the whole page looks like."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, *, session: str | None = None, **parameters: Any) -> Any:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        with self._arrived:
            assert self._arrived.wait_for(lambda: number in self._found, PATIENCE_SECONDS), method
            answer = self._found.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _listen(self) -> None:
        rest = b""
        while True:
            read = self._answers.read(1 << 16)
            if not read:
                return
            *messages, rest = (rest + read).split(b"\0")
            for text in messages:
                self._take(json.loads(text))

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            with self._arrived:
                self._found[message["id"]] = message
                self._arrived.notify_all()
            return
        facts = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled":
                self.console.append(" ".join(str(each.get("value")) for each in facts["args"]))
            case "Runtime.exceptionThrown":
                details = facts["exceptionDetails"]
                self.console.append(str(details.get("exception", details).get("description")))
            case "Log.entryAdded":
                self.console.append(facts["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(facts["request"]["url"])


def _moved(number: int) -> int:
    """Give an open file a number of 10 or more."""
    moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(number)
    return moved


@contextmanager
def open_browser() -> Iterator[Page]:
    """Start a browser with an empty page; it ends with the context."""
    to_read, to_write = os.pipe()
    answers_read, answers_write = os.pipe()
    with TemporaryDirectory(prefix="tidegate-chromium-", ignore_cleanup_errors=True) as profile:
        command = [
            chromium(),
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        # The browser reads commands from 3 and writes answers to 4. These may be in use here, so
        # our ends get numbers that are out of the way.
        to_read, answers_write = _moved(to_read), _moved(answers_write)

        def connect() -> None:
            os.dup2(to_read, 3)
            os.dup2(answers_write, 4)

        process = subprocess.Popen(
            command,
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(answers_write)
        try:
            yield Page(to_write, answers_read)
        finally:
            process.terminate()
            process.wait(timeout=30)
            os.close(to_write)
