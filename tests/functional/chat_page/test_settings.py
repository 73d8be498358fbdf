"""The settings of a conversation, before it begins and later."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

OPEN = "$('settings').click(); await until(() => all('dialog.settings').length === 1);"
SAVED = "press('Save'); await until(() => !all('dialog.settings').length);"


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with a system prompt."""
    server = start_once()
    server.chat().http.post(
        "/system-prompts", json={"filename": "pirate.md", "content": "You are a pirate."}
    ).raise_for_status()
    return server


async def test_a_new_conversation_begins_with_its_settings(page: Page) -> None:
    await page.do(
        f"{OPEN} $('prompt-file').value = 'pirate.md';"
        " $('prompt-file').dispatchEvent(new Event('change'));"
        f" await until(() => $('prompt').value); $('option-temperature').value = '0.3'; {SAVED}"
        " await say(text); await idle()",
        text=block("Arr."),
    )
    session_id = (await page.do("return location.hash"))[2:]
    session = await page.api(f"sessions/{session_id}")
    assert session["messages"][0]["content"] == "You are a pirate."
    assert session["options"] == {"temperature": 0.3}

    await page.do(
        f"{OPEN} $('prompt').value = 'You are a sailor.';"
        f" $('option-temperature').value = ''; {SAVED}"
    )

    session = await page.api(f"sessions/{session_id}")
    assert session["messages"][0]["content"] == "You are a sailor."
    assert not session.get("options")


async def test_what_the_server_refuses_is_said_in_its_words(page: Page) -> None:
    await page.do("await say('Hello'); await idle()")
    refused = await page.do(
        f"{OPEN} $('option-seed').value = '1.5';"
        " all('dialog.settings form')[0].noValidate = true; press('Save');"
        " return until(() => all('dialog.settings .failed')[0].textContent)"
    )
    assert "`seed` is a whole number" in refused
    await page.do(
        "press('Cancel', all('dialog.settings')[0]);"
        " await until(() => !all('dialog.settings').length)"
    )
