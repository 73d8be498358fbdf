"""More tabs than a browser has connections to a server."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.functional.browser import needs_browser, tab_of
from tests.functional.chat_page.conftest import LISTED, Page
from tests.functional.conftest import Server, block

pytestmark = [pytest.mark.interop, needs_browser]

SESSION = """
    await fetch('/api/v1/sessions', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ model: 'qwen3:14b', title }),
    });
"""


async def test_eight_tabs_work_and_hear_of_what_happened_while_they_were_hidden(
    server: Server, browser: Path
) -> None:
    async with AsyncExitStack() as tabs:
        pages = []
        for _ in range(8):
            tab = await tabs.enter_async_context(tab_of(browser, own_window=False))
            pages.append(Page(tab, server.url))
            await pages[-1].open()
        await pages[0].do("await until(() => document.hidden)")
        last = pages[-1]
        assert await last.do(
            "await say(text); await idle(); return answers()", text=block("Hi.")
        ) == ["Hi."]
        await last.do(SESSION, title="Meanwhile")

        await pages[0].tab.call("Page.bringToFront")

        await pages[0].do(f"await until(() => {LISTED}.includes('Meanwhile'))")
        await pages[0].do(SESSION, title="Afterwards")
        await pages[0].do(f"await until(() => {LISTED}.includes('Afterwards'))")
        assert [page.crashes for page in pages] == [[]] * 8


async def test_an_answer_goes_on_where_a_hidden_tab_let_go_of_it(
    server: Server, browser: Path
) -> None:
    words = [f"word{number} " for number in range(120)]
    script = block({"text_message": {"text": words}}, words_per_second=20)
    async with tab_of(browser, own_window=False) as tab:
        page = Page(tab, server.url)
        await page.open()
        await page.do("await say(text)", text=script)
        await page.do("await until(() => answers().at(-1)?.includes('word3'))")
        async with tab_of(browser, own_window=False):
            await page.do("await until(() => document.hidden)")
            assert await page.do("return !$('stop').hidden"), "it ended before it could be left"
        await page.tab.call("Page.bringToFront")

        assert await page.do("await idle(); return answers()") == ["".join(words).strip()]


async def test_a_server_that_does_not_answer_is_said_after_ten_seconds(page: Page) -> None:
    await page.do(
        """
        window.streams = new AbortController();
        window.kept = []; // else they are closed as garbage
        for (let count = 0; count < 5; count++) {
          kept.push(await fetch('/api/v1/events', { signal: streams.signal }));
        }
        """
    )
    await page.do("$('search').value = 'x'; $('search').dispatchEvent(new Event('input'))")
    await page.do("await until(() => !$('silence').hidden)")
    await page.do("streams.abort(); await until(() => $('silence').hidden)")
