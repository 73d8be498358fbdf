"""Turns that go on after a stop of the server, as the page shows them."""

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

LIVE = """
    const { LiveTurn, drawMessages } = await import('/message_view.js');
    const log = $('thread');
    log.replaceChildren();
    const lines = [];
    const live = new LiveTurn(log, (line) => lines.push(line), async () => {});
    const on = (event, data) => live.handle({ event, data });
    const texts = () =>
      [...log.querySelectorAll('article.assistant .text')].map((each) => each.innerText.trim());
    const begin = () => {
      on('turn_started', { model: 'm', message_id: 'one' });
      on('content_delta', { content: 'Half a' });
    };
    const resumed = (keeps, message_id, discarded) =>
      on('turn_resumed', { turn_id: 't', attempt: 1, keeps, message_id, discarded });
"""


async def test_a_text_that_is_kept_goes_on_where_it_stopped(page: Page) -> None:
    shown = f"""{LIVE}
        begin();
        resumed('text', 'one');
        const told = lines.at(-1);
        on('content_delta', {{ content: ' sentence.' }});
        on('done', {{}});
        return [texts(), told, lines.at(-1)];
    """
    texts, told, after = await page.do(shown)
    assert texts == ["Half a sentence."]
    assert told == "The server was started again; the answer goes on."
    assert after == ""


async def test_a_text_that_is_discarded_makes_room_for_the_new_one(page: Page) -> None:
    shown = f"""{LIVE}
        begin();
        live.draw();
        resumed('results', 'two', ['one']);
        on('content_delta', {{ content: 'A whole sentence.' }});
        on('done', {{}});
        return texts();
    """
    assert await page.do(shown) == ["A whole sentence."]
    assert page.crashes == []


async def test_a_question_is_shown_once_and_one_about_a_begun_call_says_so(page: Page) -> None:
    shown = f"""{LIVE}
        const call = {{ tool_name: 'clean', tool_call_id: 'c', arguments: {{}} }};
        const asks = (id, more) =>
          on('tool_call_confirmation_required', {{ ...call, confirmation_id: id, ...more }});
        begin();
        on('tool_call', call);
        asks('first');
        resumed('results', 'two');
        asks('first');
        const once = all('.question').length;
        await decide('Approve');
        await until(() => !all('.question').length);
        resumed('results', 'three');
        asks('second', {{ reason: 'may_have_run' }});
        const [question] = all('.question');
        const boxes = question.querySelectorAll('.check').length;
        const seen = [question.innerText, boxes, all('.call').length];
        await decide("Don't run again");
        await until(() => !all('.question').length);
        on('tool_result', {{ ...call, success: false, error_message: 'interrupted' }});
        on('tool_continuation_start', {{ message_id: 'four' }});
        on('content_delta', {{ content: 'Well.' }});
        on('done', {{}});
        return [once, ...seen, texts()];
    """
    once, asked, remembered, cards, texts = await page.do(shown)
    assert (once, remembered, cards) == (1, 0, 1)
    assert asked.startswith("May clean run again?")
    assert "may have done its work" in asked
    assert texts == ["Half a", "Well."]
    assert page.crashes == []


async def test_a_message_that_the_model_reads_before_its_next_step_stands_between(
    page: Page,
) -> None:
    shown = f"""{LIVE}
        begin();
        on('message_taken', {{ message_id: 'said', content: 'Shorter!', user_message_index: 2 }});
        on('tool_continuation_start', {{ message_id: 'two' }});
        on('content_delta', {{ content: 'Short.' }});
        on('done', {{}});
        const [, article] = log.children;
        const saved = {{ role: 'user', message_id: 'said', content: 'Shorter!' }};
        const [same] = drawMessages([saved], () => []);
        const names = [...log.children].map((each) => each.innerText.split('\\n')[0]);
        return [names, same === article];
    """
    assert await page.do(shown) == [["m", "You", "m"], True]


async def test_an_answer_goes_on_in_sight_after_the_server_was_killed(
    page: Page, server: Server, start_once: StartServer
) -> None:
    session_id = await page.new_session(on_crash="continue")
    await page.open(f"/#/{session_id}")
    words = [f"word{number} " for number in range(240)]  # 12 s: killed long before
    await page.do(
        "await say(text); await until(() => answers().at(-1)?.includes('word3'))",
        text=block({"text_message": {"text": words}}, words_per_second=20),
    )
    await page.do(
        "window.alerts = []; new MutationObserver(() => alerts.push($('alert').innerText))"
        ".observe($('alert'), { childList: true })"
    )
    await page.do("$('message').value = 'Next'; $('composer').requestSubmit()")
    await page.do("await until(() => all('#inbox .waiting + button').length)")

    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(start_once, "--port", str(urlsplit(server.url).port))

    await page.do("await until(() => answers().length === 2 && $('stop').hidden)")
    answers = await page.do("return answers()")
    assert answers[0].startswith("word0 word1 word2 word3")
    assert await page.do("return $('messages').innerText.includes('broke off')") is False
    assert answers[1].endswith("Next")
    assert [line for line in await page.do("return alerts") if line] == []
    assert await page.do("return all('article.user').length") == 2
