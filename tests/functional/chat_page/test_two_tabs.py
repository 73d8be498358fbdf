"""Two tabs of the chat page, through the stream of changes alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.functional.browser import needs_browser, tab_of
from tests.functional.chat_page.conftest import LISTED, Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with two workers: the tabs need not meet."""
    return start_once("--workers", "2")


@pytest.fixture
async def other(server: Server, browser: Path) -> AsyncIterator[Page]:
    """Return the page in another tab."""
    async with tab_of(browser) as tab:
        page = Page(tab, server.url)
        await page.open()
        yield page


async def test_a_conversation_of_one_tab_is_in_the_list_of_the_other(
    page: Page, other: Page
) -> None:
    await page.do("await say(text)", text=f"Of tides {block('They come.')}")
    await other.do(f"await until(() => {LISTED}.some((each) => each.startsWith('Of tides')))")
    await page.do(
        "await idle(); choose('Rename'); await until(() => $('ask').open);"
        " $('ask-value').value = 'Tides'; press('OK', $('ask'))"
    )
    await other.do(f"await until(() => {LISTED}.includes('Tides'))")
    await page.do(
        "await until(() => $('title').textContent === 'Tides'); choose('Delete');"
        " await until(() => $('ask').open); press('OK', $('ask'))"
    )
    await other.do(f"await until(() => !{LISTED}.includes('Tides'))")
    assert page.crashes == other.crashes == []


async def test_an_answer_is_streamed_to_both_tabs(page: Page, other: Page) -> None:
    await page.do("await say('Hello'); await idle()")
    await other.open(f"/{await page.do('return location.hash')}")
    words = [f"word{number} " for number in range(40)]  # 8 s: time for both to see the beginning
    script = block({"text_message": {"text": words}}, words_per_second=20)
    streamed = "await until(() => !$('stop').hidden && answers().at(-1)?.includes('word3'))"

    async with asyncio.TaskGroup() as tabs:  # the other looks from the beginning
        tabs.create_task(other.do(streamed))
        tabs.create_task(page.do("await say(text)", text=script))

    shown = "await idle(); return answers().at(-1)"
    assert await other.do(shown) == await page.do(shown) == "".join(words).strip()
    users = "return all('#messages article.user').length"
    assert await other.do(users) == await page.do(users) == 2
