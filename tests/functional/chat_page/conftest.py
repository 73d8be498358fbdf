"""The chat page in a real browser, with a server of its own."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.browser import Tab, running_browser, tab_of
from tests.functional.conftest import Server

PRELUDE = """
const $ = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];
const until = async (what) => {
  const end = Date.now() + 30000;
  for (;;) {
    const value = what();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never: ${what}; ${$("messages").innerText}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const ready = () => until(() => document.body?.dataset.ready);
const idle = () => until(() => $("stop").hidden);
const press = (label, within = document) =>
  [...within.querySelectorAll("button")].find((each) => each.textContent === label).click();
// A question takes no answer at first; with one it disables its buttons, or goes.
const decide = (label) =>
  until(() => {
    const each = all(".question button").find((each) => each.textContent === label);
    each?.click();
    return !each || each.disabled;
  });
const choose = (label) => {
  $("actions").click();
  press(label, $("menu"));
};
const say = async (text) => {
  await ready();
  await idle();
  const said = all("#messages article.user").length;
  $("message").value = text;
  $("composer").requestSubmit();
  await until(() => all("#messages article.user").length > said || $("alert").textContent);
};
const api = async (path, body, method = body ? "POST" : "GET") => {
  const headers = { "Content-Type": "application/json" };
  const options = { method, headers, body: body && JSON.stringify(body) };
  const made = await fetch(`/api/v1/${path}`, options);
  if (!made.ok) throw new Error(await made.text());
  return method === "DELETE" ? null : made.json();
};
const answers = () => all("#messages article.assistant .text").map((each) => each.innerText.trim());
"""

MARKDOWN = """
const { MarkdownText } = await import("/markdown.js");
const markdown = (text) => {
  const drawn = new MarkdownText(document.createDocumentFragment());
  drawn.finish(text);
  return drawn.element;
};
"""
"""Defines `markdown(text)`, which returns a fragment with the elements of a text."""

LISTED = "all('#sessions .name').map((each) => each.textContent)"


class Page:
    """The chat page in a tab."""

    def __init__(self, tab: Tab, url: str) -> None:
        self.tab = tab
        self.url = url

    async def open(self, path: str = "/") -> None:
        # From another page: else going to an address that differs by its fragment loads nothing.
        await self.tab.call("Page.navigate", url="about:blank")
        await self.tab.call("Page.navigate", url=self.url + path)
        await self.do("await ready()")

    async def do(self, code: str, **values: Any) -> Any:
        """Run code in the page, with values by their names; return what it returns."""
        given = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        return await self.tab.evaluate(f"(async () => {{ {PRELUDE}{given}{code} }})()")

    async def api(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Ask the server from the page; a POST with a body, unless told otherwise."""
        return await self.do(
            "return api(path, body ?? undefined, method ?? undefined)",
            path=path,
            body=body,
            method=method,
        )

    async def new_session(self, **body: Any) -> str:
        made = await self.api("sessions", {"model": "qwen3:14b", **body})
        return str(made["session_id"])

    async def press(self, key: str, code: int, modifiers: int = 0) -> None:
        """Press a key, as a keyboard does."""
        for kind in ("keyDown", "keyUp"):
            await self.tab.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    @property
    def crashes(self) -> list[Any]:
        """What the page threw, and what its policy kept from running."""
        thrown = self.tab.seen("Runtime.exceptionThrown")
        logged = [each["entry"] for each in self.tab.seen("Log.entryAdded")]
        return thrown + [each for each in logged if each["source"] in {"security", "javascript"}]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the profile of a browser that runs."""
    with running_browser(tmp_path_factory.mktemp("browser")) as profile:
        yield profile


@pytest.fixture
async def page(server: Server, browser: Path) -> AsyncIterator[Page]:
    """Return the page in a new tab."""
    async with tab_of(browser) as tab:
        page = Page(tab, server.url)
        await page.open()
        yield page
