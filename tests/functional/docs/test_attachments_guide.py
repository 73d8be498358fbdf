"""The page in docs/attachments.md takes files by input, paste and drop, in a real browser."""

import asyncio
import hashlib
import re
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.functional.browser import Tab, needs_browser, opened_tab
from tests.functional.conftest import ROOT, Server
from tests.unit.sessions_app.attachments.images import png

pytestmark = [pytest.mark.interop, needs_browser]

BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", re.DOTALL)
API, SEEING = "http://localhost:8000", "qwen3-vl:8b"
IMAGES = [png(size, size) for size in (11, 12, 13)]

DO = """
(async () => {
  const form = document.querySelector("form");
  const { message, files, attached, answer } = form.elements;
  const holding = (bytes, name) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
    return transfer;
  };
  const until = async (condition) => {
    while (!condition()) {
      if (answer.value !== "") throw new Error(answer.value); // what went wrong is shown there
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const shown = (count) => until(() => attached.querySelectorAll("img").length === count
    && [...attached.querySelectorAll("img")].every((image) => image.naturalWidth > 0));
  const [chosen, pasted, dropped] = IMAGES;
  files.files = holding(chosen, "chosen.png").files;
  files.dispatchEvent(new Event("change"));
  await shown(1);
  const clipboardData = holding(pasted, "pasted.png");
  message.dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true }));
  await shown(2);
  const dataTransfer = holding(dropped, "dropped.png");
  form.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
  await shown(3);
  message.value = "What are these?";
  form.requestSubmit();
  await until(() => answer.value !== "");
  return answer.value;
})()
"""


@pytest.fixture
def page(server: Server, tmp_path: Path) -> Iterator[str]:
    """Serve the guide's page from another origin; return its address."""
    ((name, code),) = BLOCK.findall((ROOT / "docs/attachments.md").read_text())
    code = code.replace(API, server.url).replace(SEEING, "scripted-vision:latest")
    (tmp_path / name).write_text(code)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{pages.server_port}/{name}"
        pages.shutdown()


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with opened_tab(tmp_path) as tab:
        yield tab


async def test_files_are_taken_from_the_input_the_clipboard_and_the_mouse(
    server: Server, page: str, tab: Tab
) -> None:
    await tab.call("Page.navigate", url=page)
    async with asyncio.timeout(60):
        while not await tab.evaluate("document.querySelector('form')?.onsubmit != null"):
            await asyncio.sleep(0.02)
        answer = await tab.evaluate(DO.replace("IMAGES", str([list(each) for each in IMAGES])))
    assert tab.seen("Runtime.exceptionThrown") == []
    files = (server.data_dir / "chat_sessions").glob("*.json")
    (session_id,) = [path.stem for path in await asyncio.to_thread(sorted, files)]
    file = await asyncio.to_thread(server.session_file, session_id)
    messages = file["messages"]
    assert [(each["id"], each["name"]) for each in messages[0]["attachments"]] == [
        (f"sha256:{hashlib.sha256(image).hexdigest()}", f"{how}.png")
        for image, how in zip(IMAGES, ("chosen", "pasted", "dropped"), strict=True)
    ]
    assert messages[1]["content"] == answer
