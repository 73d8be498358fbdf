"""The chat page while its server is away."""

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]


async def test_an_answer_that_a_killed_server_broke_off_can_be_had_again(
    page: Page, server: Server, start_once: StartServer
) -> None:
    words = [f"word{number} " for number in range(50)]  # 10 s: killed long before
    answer = {"text_message": {"text": words}}
    await page.do("await say(text)", text=block(answer, words_per_second=20))
    await page.do("await until(() => answers().at(-1)?.includes('word3'))")

    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(start_once, "--port", str(urlsplit(server.url).port))

    await page.do("await until(() => $('alert').textContent.includes('Try again'))")
    (broken,) = await page.do("await idle(); return answers()")
    assert broken.startswith("word0 word1 word2 word3")
    await page.do("press('Try again', $('alert')); await until(() => !$('stop').hidden)")
    assert await page.do("await idle(); return answers()") == ["".join(words).strip()]
    assert await page.do("return all('article.user').length") == 1


async def test_a_message_that_a_lost_server_never_got_goes_back_into_the_field(
    page: Page,
) -> None:
    await page.do("await say('Hello'); await idle()")
    lost = """
        const { fetch } = window;
        window.fetch = () => Promise.reject(new TypeError('lost'));
        $('message').value = 'Are you there?';
        $('composer').requestSubmit();
        const said = () => $('alert').textContent.includes("can't be reached");
        await until(() => $('message').value && said());
        window.fetch = fetch;
        return $('message').value;
    """
    assert await page.do(lost) == "Are you there?"
