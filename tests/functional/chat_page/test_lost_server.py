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


BEHIND_A_PROXY = """
    const { ApiError, changes, chat, follow } = await import('/client.js');
    const { fetch: realFetch, setTimeout: realTimeout } = window;
    window.setTimeout = (act, wait) => realTimeout(act, wait === 45_000 ? 100 : wait);
    const page = () => new Response('<h1>Bad Gateway</h1>', { status: 502 });
    const refusal = (code, status) => {
      const error = { code, message: code, details: { retryable: true } };
      return Response.json({ error }, { status });
    };
    const silent = (id, event) => {
      const bytes = new TextEncoder().encode(`id: ${id}\\nevent: ${event}\\ndata: {}\\n\\n`);
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue(bytes) }));
    };
    const requests = [];
    const answering = (path, ...answers) =>
      (window.fetch = async (url, options) => {
        if (!String(url).includes(path)) return realFetch(url, options);
        requests.push(new URL(url).search);
        return answers[requests.length - 1]();
      });
    const seen = [];
"""


async def test_a_turn_is_followed_through_a_silent_connection_and_a_restart(page: Page) -> None:
    followed = f"""{BEHIND_A_PROXY}
        const restart = () => refusal('SHUTTING_DOWN', 503);
        const [first, last] = [() => silent('t:1', 'content_delta'), () => silent('t:2', 'done')];
        answering('/chat/', first, page, restart, last);
        for await (const {{ id }} of follow('a', 't:0')) seen.push(id);
        return [seen, requests];
    """
    after = [f"?after=t%3A{number}" for number in (0, 1, 1, 1)]
    assert await page.do(followed) == [["t:1", "t:2"], after]


async def test_the_list_is_followed_through_a_silent_connection_and_a_page_of_a_proxy(
    page: Page,
) -> None:
    followed = f"""{BEHIND_A_PROXY}
        answering('/events', page, () => silent('1', 'reset'), () => silent('2', 'reset'));
        for await (const {{ id }} of changes()) if (seen.push(id) === 2) break;
        return seen;
    """
    assert await page.do(followed) == ["1", "2"]


async def test_a_message_that_the_server_refuses_is_not_sent_again(page: Page) -> None:
    refused = f"""{BEHIND_A_PROXY}
        answering('/chat/', page, () => refusal('SESSION_BUSY', 409));
        try {{
          for await (const {{ id }} of chat('a', {{}})) seen.push(id);
        }} catch (error) {{
          return [error instanceof ApiError, error.code, requests.length];
        }}
    """
    assert await page.do(refused) == [True, "SESSION_BUSY", 2]
