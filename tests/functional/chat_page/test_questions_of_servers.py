"""How a person answers on the page what a tool's server wants to know."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import ROOT, Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

PROGRAM = str(ROOT / "tests/unit/tools_app/mcp/programs/asking_server.py")
ASKED = "await until(() => all('.question').length === 1);"
RESULT = (
    "await until(() => all('.call .result').length); return all('.call .result')[0].textContent"
)
FORM = """
    const { formOf } = await import('/form.js');
    const form = formOf(schema);
    $('messages').append(...form.fields);
    const named = (name) => document.querySelector(`[data-name=${name}]`);
"""


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with a shop that asks people."""
    server = start_once()
    shops = {
        era: {"command": sys.executable, "args": [PROGRAM, *more], "trusted": True}
        for era, more in (("old", ["--old"]), ("new", []))
    }
    (server.data_dir / "mcp.json").write_text(json.dumps({"mcpServers": shops}))
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        offered: set[str] = set()
        while not {"old__order", "new__order"} <= offered:
            # A listing waits two seconds for programs that start.
            offered = client.get("/api/v1/tools").json()["tools"].keys()
    return server


async def asking(page: Page, tool: str, **arguments: str) -> None:
    """Open a page on which a call of a tool asks."""
    settings = {"tools": [tool], "execution_policy": "never_confirm"}
    session_id = await page.new_session(tool_settings=settings)
    await page.open(f"/#/{session_id}")
    call = {"tool_call": [{"name": tool, "args": arguments}]}
    script = block(call, {"text_message": {"text": "Done."}}, per_request=True)
    await page.do(f"await say(text); {ASKED}", text=script)


@pytest.mark.parametrize("era", ["old", "new"])
async def test_a_form_is_filled_in(page: Page, tmp_path: Path, era: str) -> None:
    orders = tmp_path / "orders"
    await asking(page, f"{era}__order", item="tea", path=str(orders))

    shown = await page.do("return all('.question')[0].innerText")
    assert "Which size?" in shown
    assert "This looks like a secret: password" in shown
    await page.do(
        "all('.question select')[0].selectedIndex = 2;"
        " all('.question [type=number]')[0].value = '0'; await decide('Send');"
        " const told = () => all('.question .failed').map((each) => each.textContent).join();"
        " await until(() => /count/.test(told()))"
    )
    await page.do("all('.question [type=number]')[0].value = '3'; await decide('Send')")

    assert await page.do(RESULT) == "ordered 3 tea"
    assert await asyncio.to_thread(orders.read_text) == "tea large 3 \n"


async def test_an_address_is_a_link_that_the_person_opens(page: Page, tmp_path: Path) -> None:
    await asking(page, "old__pay", path=str(tmp_path / "paid"))

    link = await page.do(
        "const link = all('.question a')[0]; return [link.href, link.textContent, link.rel]"
    )
    assert link == ["https://shop.example/pay?order=1"] * 2 + ["noopener noreferrer"]
    await page.do("await decide('Continue')")

    assert await page.do(RESULT) == "paid"


async def test_what_is_left_empty_is_not_sent(page: Page) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
            "count": {"type": "integer", "default": 2},
            "gift": {"type": "boolean", "default": True},
            "many": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"]},
        },
    }

    content = await page.do(f"{FORM} return form.content()", schema=schema)

    assert content == {"count": 2, "gift": True, "many": ["b"]}


async def test_words_of_a_server_are_text_alone(page: Page) -> None:
    asked = """
        const { questionOf } = await import('/approval.js');
        const words = '<img src=x onerror="window.broken=1">';
        const property = { type: 'string', title: words, description: words };
        const schema = { properties: { [words]: property } };
        const asked = { tool_name: 't', arguments: {}, server: words, message: words };
        const form = { ...asked, kind: 'input', schema };
        const address = { ...asked, kind: 'url', url: 'javascript:alert(1)' };
        for (const each of [form, address]) $('messages').append(questionOf(each, async () => {}));
        return [all('.question img').length, all('.question a').length];
    """
    assert await page.do(asked) == [0, 0]
