"""The docs page in a real browser."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.functional.browser import Tab, needs_browser, opened_tab

pytestmark = [pytest.mark.interop, needs_browser]


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with opened_tab(tmp_path) as tab:
        yield tab


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


async def test_an_opened_operation_shows_its_errors_in_a_line_each(
    edge_server: Any, tab: Tab
) -> None:
    await tab.call("Page.navigate", url=f"{edge_server.url}/api/v1/docs")
    async with asyncio.timeout(60):
        await tab.evaluate(UNTIL_DRAWN)
        await tab.evaluate("document.querySelector('#operations-chat-chat button').click()")
        height, shown = await tab.evaluate(ERRORS_OF_CHAT)
    assert "SESSION_BUSY" in shown
    assert "retryable" not in shown
    assert height < 1500


ERRORS_OF_CHAT = """
new Promise(resolve => {
  const look = () => {
    const rows = [...document.querySelectorAll('#operations-chat-chat tr.response')]
      .filter(row => row.dataset.code >= '4');
    if (!rows.length) return setTimeout(look, 50);
    const height = rows.reduce((sum, row) => sum + row.offsetHeight, 0);
    resolve([height, rows.map(row => row.innerText).join()]);
  };
  look();
})
"""
