"""How a person approves a call on the page."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.chat_page.test_scrolling import TOOL
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

CALL = {"tool_call": [{"name": "echo", "args": {"text": "Hear, hear."}}]}
RESULTS = "return all('.call .result').map((each) => each.textContent)"
ASKED = "await until(() => all('.question').length === 1);"


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with a tool."""
    server = start_once()
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "repeating.py").write_text(TOOL)
    return server


@pytest.fixture
async def asked(page: Page) -> Page:
    """Return a page that asks whether a tool may run, twice in succession."""
    session_id = await page.new_session(tool_settings={"tools": ["echo"]})
    await page.open(f"/#/{session_id}")
    script = block(CALL, CALL, {"text_message": {"text": "Done."}}, per_request=True)
    await page.do(f"await say(text); {ASKED}", text=script)
    return page


async def test_an_approval_can_be_for_all_calls_of_the_conversation(asked: Page) -> None:
    await asked.do("all('.question .check input')[0].click(); press('Approve')")
    assert (await asked.do("await idle(); return answers()"))[-1] == "Done."
    assert await asked.do(RESULTS) == ["Hear, hear."] * 2


async def test_a_call_runs_with_the_arguments_that_a_person_has_changed(asked: Page) -> None:
    changed = """
        const field = all('.question textarea')[0];
        field.value = 'no JSON';
        press('Approve');
        await until(() => all('.question .failed').some((each) => each.textContent));
        field.value = '{"text": "Silence."}';
        press('Approve');
        await until(() => all('.call .result').length);
        return all('.call .result')[0].textContent;
    """
    assert await asked.do(changed) == "Silence."


async def test_the_focus_goes_on_to_the_message_field(asked: Page) -> None:
    await asked.do(
        "all('.question button')[1].focus(); document.activeElement.click();"
        " await until(() => document.activeElement === $('message'))"
    )
    await asked.do(f"{ASKED} press('Deny'); await idle()")
    assert await asked.do("return document.activeElement === $('message')")
