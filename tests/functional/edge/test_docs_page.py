"""The docs page in a real browser, driven over the DevTools protocol."""

import asyncio
import base64
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import ClientConnection, connect

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(
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
        return result["result"].get("value")

    def seen(self, method: str) -> list[dict[str, Any]]:
        return [event["params"] for event in self.events if event["method"] == method]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Path]:
    """Start a browser; return its profile directory."""
    assert CHROMIUM is not None, "CI has to install Chromium"
    profile = tmp_path / "profile"
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield profile
    process.terminate()
    process.wait(timeout=20)


@pytest.fixture
async def tab(browser: Path) -> AsyncIterator[Tab]:
    """Return a new page with its network, console and log watched."""
    port_file = browser / "DevToolsActivePort"
    async with asyncio.timeout(30):
        while not (await asyncio.to_thread(_text_of, port_file)).count("\n"):
            await asyncio.sleep(0.05)
    port, path = (await asyncio.to_thread(_text_of, port_file)).split("\n")[:2]
    async with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as whole:
        target = (await Tab(whole).call("Target.createTarget", url="about:blank"))["targetId"]
        page_url = f"ws://127.0.0.1:{port}/devtools/page/{target}"
        async with connect(page_url, max_size=None, proxy=None) as connection:
            page = Tab(connection)
            for domain in ("Network", "Runtime", "Log", "Page"):
                await page.call(f"{domain}.enable")
            yield page


def _text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


UNTIL_DRAWN = """
new Promise(resolve => {
  const look = () => document.querySelectorAll('.opblock').length
    ? resolve(document.querySelectorAll('.opblock').length) : setTimeout(look, 50);
  look();
})
"""


async def test_the_docs_page_draws_every_route_and_asks_nobody_else(
    edge_server: Any, tab: Tab, tmp_path: Path
) -> None:
    await tab.call("Page.navigate", url=f"{edge_server.url}/api/v1/docs")
    async with asyncio.timeout(60):
        drawn = await tab.evaluate(UNTIL_DRAWN)
        declared = await tab.evaluate(
            "fetch('/api/v1/openapi.json').then(r => r.json())"
            ".then(s => Object.values(s.paths).flatMap(Object.keys).length)"
        )
        shown = await tab.evaluate("document.body.innerText")
        # Opening a route shows its example and lets it be tried.
        await tab.evaluate("document.querySelector('#operations-server-health button').click()")
        tried = await tab.evaluate(TRY_HEALTH)
        picture = await tab.call("Page.captureScreenshot")
    await asyncio.to_thread((tmp_path / "docs.png").write_bytes, base64.b64decode(picture["data"]))
    assert drawn == declared > 10
    assert "mochi-server" in shown
    assert '"status": "ok"' in tried
    requested = [event["request"]["url"] for event in tab.seen("Network.requestWillBeSent")]
    own = urlsplit(edge_server.url).netloc
    assert {urlsplit(url).netloc for url in requested if not url.startswith("data:")} == {own}
    assert tab.seen("Network.loadingFailed") == []
    assert tab.seen("Runtime.exceptionThrown") == []
    assert [e for e in tab.seen("Runtime.consoleAPICalled") if e["type"] == "error"] == []
    assert [e["entry"]["text"] for e in tab.seen("Log.entryAdded")] == []


TRY_HEALTH = """
new Promise(resolve => {
  const giveUp = Date.now() + 30000;
  const look = () => {
    const route = document.querySelector('#operations-server-health');  // React may renew it
    const execute = route.querySelector('.execute');
    const answer = route.querySelector('.live-responses-table');
    if (answer && answer.innerText.includes('"status"')) return resolve(answer.innerText);
    if (Date.now() > giveUp) return resolve('stuck at: ' + route.innerText);
    // Swagger UI can't execute a route before it has resolved the route's schema.
    const resolved = route.innerText.includes('"ollama_connected": true');
    if (execute && resolved && !execute.dataset.done) {
      execute.dataset.done = 1;
      execute.click();
    }
    setTimeout(look, 50);
  };
  look();
})
"""
