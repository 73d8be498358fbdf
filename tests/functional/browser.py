"""A real browser, driven over the DevTools protocol."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="no Chromium on this machine"
)

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--window-size=1200,1400",
    "--remote-debugging-port=0",
)


class Tab:
    """One page of the browser: commands out, events in."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._last_id = 0
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last_id += 1
        await self._connection.send(
            json.dumps({"id": self._last_id, "method": method, "params": params})
        )
        while True:
            message = json.loads(await self._connection.recv())
            if message.get("id") == self._last_id:
                assert "error" not in message, message
                return dict(message["result"])
            self.events.append(message)

    async def evaluate(self, expression: str) -> Any:
        result = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]


@contextmanager
def running_browser(folder: Path) -> Iterator[Path]:
    """Start a browser whose profile is in a folder; yield the profile, for :func:`tab_of`."""
    assert CHROMIUM is not None, "CI has to install Chromium"
    profile = folder / "profile"
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield profile
    finally:
        process.terminate()
        process.wait(timeout=20)


@asynccontextmanager
async def opened_tab(folder: Path) -> AsyncIterator[Tab]:
    """Start a browser of its own for one page, as :func:`running_browser` and :func:`tab_of`."""
    browser = running_browser(folder)
    profile = await asyncio.to_thread(browser.__enter__)
    try:
        async with tab_of(profile) as tab:
            yield tab
    finally:
        await asyncio.to_thread(browser.__exit__, None, None, None)


@asynccontextmanager
async def tab_of(profile: Path, *, own_window: bool = True) -> AsyncIterator[Tab]:
    """Open a page in a running browser; its network, console and log are watched.

    Of tabs in one window all but the last are hidden: their timers are slow, and nothing is drawn.
    """
    port_file = profile / "DevToolsActivePort"
    async with asyncio.timeout(30):
        while not (await asyncio.to_thread(_text_of, port_file)).count("\n"):
            await asyncio.sleep(0.05)
    port, path = (await asyncio.to_thread(_text_of, port_file)).split("\n")[:2]
    async with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as whole:
        made = await Tab(whole).call("Target.createTarget", url="about:blank", newWindow=own_window)
        target = made["targetId"]
        page_url = f"ws://127.0.0.1:{port}/devtools/page/{target}"
        # A full queue of events would keep the browser's answer to our closing from being read.
        async with connect(page_url, max_size=None, max_queue=None, proxy=None) as connection:
            page = Tab(connection)
            for domain in ("Network", "Runtime", "Log", "Page"):
                await page.call(f"{domain}.enable")
            yield page
        await Tab(whole).call("Target.closeTarget", targetId=target)


def _text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""
