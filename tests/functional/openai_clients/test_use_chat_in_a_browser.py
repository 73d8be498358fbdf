"""React's ``useChat`` in a real browser, on a page that another origin serves: the example."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.functional.browser import Tab, needs_browser, opened_tab
from tests.functional.conftest import MODEL, ROOT, block
from tests.functional.openai_clients.conftest import CLIENTS
from tests.functional.openai_clients.test_other_clients import ADD

pytestmark = [pytest.mark.interop, needs_browser]

EXAMPLE = ROOT / "examples" / "react-usechat"
WORDS = [f"{' ' if number else ''}word{number}" for number in range(40)]
SLOW = block(WORDS, words_per_second=40)
FOREVER = block(["One ", "two ", "three"], stall_after=2, stall_seconds=600)
SUM = block({"tool_call": [{"name": "add", "args": {"a": 1, "b": 2}}]}, "Three.", per_request=True)
PRELUDE = """
const until = async (what) => {
  const end = Date.now() + 60000;
  for (;;) {
    const value = what();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never: ${what}; ${document.body?.innerText}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const status = () => document.querySelector("[role=log]")?.dataset.status;
const said = () => [...document.querySelectorAll(".assistant .text")].map((each) => each.innerText);
const button = (label) =>
  [...document.querySelectorAll("button")].find((each) => each.textContent === label);
// Only then a page that was reloaded shows what it keeps.
const resumed = () =>
  performance.getEntriesByType("resource").some(({ name }) => name.endsWith("/stream"));
const press = async (label) => (await until(() => button(label))).click();
const say = async (text) => {
  await until(() => status() === "ready");
  const input = document.querySelector("input");
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  set.call(input, text);
  input.dispatchEvent(new Event("input", { bubbles: true }));
  await press("Send");
};
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


LAST_ANSWER = "await until(() => status() === 'ready' && said().at(-1)); return said().at(-1)"


@pytest.fixture
def page_url(
    client_program: Callable[[str], str], environment: dict[str, str], tmp_path: Path
) -> Iterator[str]:
    """Build the example as its users do, and serve it."""
    client_program("node")
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    build = json.loads((EXAMPLE / "package.json").read_text())["scripts"]["build"].split()
    build[0] = str(CLIENTS / "node_modules" / ".bin" / build[0])
    path = f"{CLIENTS / 'node' / 'bin'}{os.pathsep}{environment['PATH']}"
    subprocess.run(build, cwd=tmp_path, env=environment | {"PATH": path}, check=True, timeout=60)
    served = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{served.server_port}"
    finally:
        served.shutdown()
        served.server_close()


@pytest.fixture
def server(start: Any, page_url: str) -> Any:
    server = start(MOCHI_CORS_ORIGINS=page_url)
    tools = server.data_dir / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "sums.py").write_text(ADD)
    return server


@pytest.fixture
async def tab(server: Any, tmp_path: Path) -> AsyncIterator[Tab]:
    async with opened_tab(tmp_path) as tab:
        yield tab


async def test_react_sends_reloads_approves_stops_and_outlives_its_server(
    tab: Tab, server: Any, start: Any, page_url: str
) -> None:
    async def open_chat(chat_id: str) -> None:
        # From another page: else going to an address that differs by its fragment loads nothing.
        await tab.call("Page.navigate", url="about:blank")
        query = f"server={server.url}&model={MODEL}"
        await tab.call("Page.navigate", url=f"{page_url}/index.html?{query}#{chat_id}")

    async def do(code: str, **values: Any) -> Any:
        given = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        return await tab.evaluate(f"(async () => {{ {PRELUDE}{given}{code} }})()")

    await open_chat("a-chat-of-react")
    await do("await say(slow); await until(() => said()[0]?.includes('word3'))", slow=SLOW)
    await open_chat("a-chat-of-react")
    reloaded = "await until(() => status() === 'ready' && said()[0]?.endsWith(last)); return said()"
    assert await do(reloaded, last=WORDS[-1]) == ["".join(WORDS)]

    chat = await asyncio.to_thread(server.chat)
    session_id = await asyncio.to_thread(
        chat.new_session, tool_settings={"tools": ["add"], "execution_policy": "always_confirm"}
    )
    await open_chat(session_id)
    await do("await say(sum); await until(() => button('Approve'))", sum=SUM)
    await open_chat(session_id)
    await do("await until(() => resumed() && status() === 'ready'); await press('Approve')")
    assert await do(LAST_ANSWER) == "Three."
    begun = (  # the answer before may have the same text
        "await until(() => status() === 'ready'); const before = said().length; await say(forever);"
        "await until(() => said().length > before && said().at(-1) === 'One two')"
    )

    await do(begun, forever=FOREVER)
    await do("await press('Stop'); await until(() => status() === 'ready')")
    *_, stopped = await asyncio.to_thread(chat.messages, session_id)
    assert (stopped["cancelled"], stopped["content"]) == (True, "One two\n\n[cancelled]")

    await do(begun, forever=FOREVER)
    await asyncio.to_thread(server.kill)
    await do("await until(() => status() === 'error')")
    port = server.url.rpartition(":")[2]
    await asyncio.to_thread(start, "--port", port, MOCHI_CORS_ORIGINS=page_url)
    await open_chat(session_id)
    assert await do(LAST_ANSWER) == "One two"
    await do("await say(back); await until(() => said().at(-1) === 'Back.')", back=block("Back."))
    assert tab.seen("Runtime.exceptionThrown") == []


def test_the_example_has_the_versions_that_are_tested() -> None:
    pinned = json.loads((Path(__file__).parent / "package.json").read_text())["dependencies"]
    package = json.loads((EXAMPLE / "package.json").read_text())
    wanted = package["dependencies"] | package["devDependencies"]
    assert wanted.items() <= pinned.items()
