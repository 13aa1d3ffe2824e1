"""Chromium without a window, controlled through a pipe.

The protocol is Chromium's own, JSON messages that end with a zero byte, and needs no port.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import pytest

from waiting import PATIENCE_S, wait_until

PROGRAM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(PROGRAM is None, reason="chromium isn't installed")
DRAWN = "document.querySelectorAll('.drawing:not([data-state=drawn])').length === 0"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_OPTIONS = ("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe")
_FIRST_FREE = 10


class Chromium:
    """A browser, as a context."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        # The browser reads from descriptor 3 and writes to 4.
        theirs_in, self._out = _pipe()
        self._in, theirs_out = _pipe()
        command = [PROGRAM, *FLAGS, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        connect = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", connect, "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)  # Chromium ends when its input is closed.
        try:
            self._process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def open(
        self,
        address: str,
        width: int = 1280,
        height: int = 1000,
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        """Opens a page and waits until its document is complete."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        page = Page(self, self.call("Target.attachToTarget", attach)["sessionId"], target)
        self._pages[page.session] = page
        for domain in ("Runtime", "Log", "Network", "Page"):
            page.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        page.call("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.call("Emulation.setEmulatedMedia", {"features": [feature]})
        page.call("Page.navigate", {"url": address})
        page.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
        return page

    def call(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> Any:
        """Calls a method of the protocol and waits for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            page = self._pages.get(answer.get("sessionId", ""))
            if page is not None:
                page.note(answer)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "chromium doesn't answer"
            part = os.read(self._in, 1 << 20)
            assert part, "chromium has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@dataclass
class Page:
    """A page, its console and its requests."""

    browser: Chromium
    session: str
    target: str
    #: The console's messages, and the browser's errors.
    console: list[str] = field(default_factory=list)
    #: The address of every request, its own first.
    requests: list[str] = field(default_factory=list)

    def note(self, event: dict[str, Any]) -> None:
        """Remembers an event."""
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                self.console += [str(each.get("value")) for each in params["args"]]
            case "Runtime.exceptionThrown":
                self.console.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.console.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """Calls a method of the protocol for this page."""
        return self.browser.call(method, params, self.session)

    def see(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        arguments = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", arguments)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Waits until an expression holds."""
        wait_until(lambda: self.see(expression), expression)

    def point_at(self, selector: str, until: str) -> None:
        """Moves the pointer over the middle of an element until an expression holds.

        A figure that is redrawn under a resting pointer doesn't notice it.
        """

        def pointed() -> Any:
            self._mouse("mouseMoved", 1, 1)
            self._mouse("mouseMoved", *self._middle(selector))
            return self.see(until)

        wait_until(pointed, f"{until} at {selector}")

    def click(self, selector: str) -> None:
        """Clicks on the middle of an element."""
        x, y = self._middle(selector)
        self._mouse("mousePressed", x, y, button="left", clickCount=1)
        self._mouse("mouseReleased", x, y, button="left", clickCount=1)

    def press_enter(self) -> None:
        """Presses Enter."""
        named = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", **named})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", **named})

    def close(self) -> None:
        """Closes the page."""
        self.browser.call("Target.closeTarget", {"targetId": self.target})

    def _middle(self, selector: str) -> tuple[float, float]:
        # Style sheets that arrive later move what they style.
        self.wait_for("document.readyState === 'complete'")
        place = self.see(
            f"(() => {{ const it = document.querySelector({json.dumps(selector)});"
            "it.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const box = it.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        return place[0], place[1]

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are none of the numbers that the browser uses."""
    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
