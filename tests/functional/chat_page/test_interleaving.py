"""What happens on the page while something else is going on is not mixed up with it."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import block

pytestmark = [pytest.mark.interop, needs_browser]

INTERCEPT = """
    const { fetch } = window;
    const intercept = (answer) => {
      window.fetch = async (url, options = {}) =>
        (await answer(String(url), options)) || fetch(url, options);
    };
    const refused = (status, code) => new Response(
      JSON.stringify({ error: { code, message: code, details: { retryable: status === 503 } } }),
      { status },
    );
    const begins = (url, { method }) => method === 'POST' && url.endsWith('/stream');
    const write = (text) => {
      $('message').value = text;
      $('message').dispatchEvent(new Event('input'));
    };
    const send = (text) => {
      write(text);
      $('composer').requestSubmit();
    };
"""
SLOWLY = block(
    {"text_message": {"text": [f"word{number} " for number in range(40)]}}, words_per_second=20
)


async def test_a_token_is_asked_for_once_and_after_what_is_being_asked(page: Page) -> None:
    await page.do("await say('Hello'); await idle()")
    asked = """
        const { call } = await import('/client.js');
        press('Edit');
        await until(() => $('ask').open);
        intercept((url, { headers }) =>
          headers?.Authorization === 'Bearer secret' ? null : refused(401, 'UNAUTHENTICATED'));
        const both = Promise.all([call('models'), call('models')]);
        await new Promise((resolve) => setTimeout(resolve)); // both are refused by now
        const first = [$('ask-title').textContent, $('ask-value').value];
        press('Cancel', $('ask'));
        await until(() => $('ask').open && $('ask-title').textContent.includes('token'));
        $('ask-value').value = 'secret';
        press('OK', $('ask'));
        await both;
        return [...first, $('ask').open];
    """
    shown = await page.do(f"{INTERCEPT} {asked}")
    assert shown == ["Edit the message", "Hello", False]
    assert len(await page.do("return answers()")) == 1


async def test_a_refused_message_is_kept_although_the_same_was_said_before(page: Page) -> None:
    await page.do("await say('continue'); await idle()")
    kept = """
        intercept((url, options) => begins(url, options) && refused(503, 'OVERLOADED'));
        send('continue');
        await until(() => $('alert').textContent.includes('OVERLOADED'));
        return [$('message').value, all('article.user').length];
    """
    assert await page.do(f"{INTERCEPT} {kept}") == ["continue", 1]


async def test_a_refused_edit_is_kept_and_tried_again(page: Page) -> None:
    await page.do("await say('Hello'); await idle()")
    edited = """
        let refusals = 0;
        intercept((url, options) =>
          begins(url, options) && !refusals++ && refused(503, 'OVERLOADED'));
        press('Edit');
        await until(() => $('ask').open);
        $('ask-value').value = text;
        press('OK', $('ask'));
        await until(() => $('alert').textContent.includes('OVERLOADED'));
        press('Edit');
        await until(() => $('ask').open);
        const kept = $('ask-value').value === text;
        press('Cancel', $('ask'));
        await until(() => !$('ask').open);
        press('Try again', $('alert'));
        await until(() => answers()[0] === 'Better.');
        await idle();
        return [kept, all('article.user').length];
    """
    assert await page.do(f"{INTERCEPT} {edited}", text=block("Better.")) == [True, 1]


async def test_a_lost_stream_is_followed_again_and_begins_no_turn(page: Page) -> None:
    lost = """
        let turns = 0;
        let isLost = false;
        intercept(async (url, options) => {
          if (isLost) return refused(500, 'AWAY');
          if (!begins(url, options)) return null;
          turns++;
          const reader = (await fetch(url, options)).body.getReader();
          const pull = async (stream) => {
            const { value } = await reader.read();
            isLost = answers().some((each) => each.includes('word1'));
            if (isLost) stream.close();
            else stream.enqueue(value);
          };
          return new Response(new ReadableStream({ pull }));
        });
        send(text);
        await until(() => $('alert').textContent.includes('AWAY'));
        isLost = false;
        press('Try again', $('alert'));
        await until(() => answers().at(-1)?.includes('word39'));
        await idle();
        return [turns, answers().length];
    """
    assert await page.do(f"{INTERCEPT} {lost}", text=SLOWLY) == [1, 1]


async def test_a_first_message_does_not_follow_into_another_conversation(page: Page) -> None:
    other = await page.new_session(title="Other")
    before = (await page.api("sessions"))["total"]
    left = """
        let release;
        const gate = new Promise((resolve) => (release = resolve));
        intercept(async (url, { method }) => {
          if (method === 'POST' && url.endsWith('/sessions')) await gate;
        });
        send('To nobody');
        location.hash = `#/${other}`;
        await until(() => $('title').textContent === 'Other');
        release();
        const draft = 'draft of a new conversation';
        await until(() => localStorage.getItem(draft)?.includes('To nobody'));
        return [$('message').value, all('article').length, $('alert').textContent];
    """
    assert await page.do(f"{INTERCEPT} {left}", other=other) == ["", 0, ""]
    assert (await page.api("sessions"))["total"] == before
    await page.do("location.hash = ''; await until(() => $('message').value === 'To nobody')")


async def test_nothing_can_be_sent_before_the_conversation_is_there(page: Page) -> None:
    one, other = [await page.new_session(title=title) for title in ("One", "Other")]
    await page.open(f"/#/{one}")
    early = """
        let release;
        const gate = new Promise((resolve) => (release = resolve));
        intercept(async (url) => {
          if (url.includes('view=page')) await gate;
        });
        const state = () => ['send', 'settings', 'model'].map((id) => $(id).disabled)
          .concat($('actions').hidden, $('title').textContent === 'One');
        const before = state();
        location.hash = `#/${other}`;
        await until(() => $('send').disabled);
        const meanwhile = state();
        send('Too early');
        release();
        await until(() => !$('send').disabled);
        return [meanwhile, state(), $('message').value];
    """
    assert await page.do(f"{INTERCEPT} {early}", other=other) == [
        [True, True, True, True, False],
        [False, False, False, False, False],
        "Too early",
    ]


async def test_while_an_answer_is_written_none_is_begun(page: Page) -> None:
    await page.do("await say('Hello'); await idle(); await say(text)", text=SLOWLY)
    refused = """
        await until(() => answers().at(-1)?.includes('word1'));
        const visibility = new Set(all('.edits').map((each) => getComputedStyle(each).visibility));
        press('Regenerate');
        await until(() => $('alert').textContent.includes('Stop the answer first.'));
        await idle();
        return [[...visibility], all('#messages article').length];
    """
    assert await page.do(refused) == [["hidden"], 4]
    shown = "return getComputedStyle(all('.edits')[0]).visibility"
    assert await page.do(shown) == "visible"


async def test_a_stream_draws_no_turn_but_its_own(page: Page) -> None:
    await page.do("await say('Hello'); await idle()")
    events = "".join(
        f"id: {index}\nevent: {name}\ndata: {data}\n\n"
        for index, (name, data) in enumerate(
            [
                ("turn_started", '{"turn_id": "a", "model": "m", "message_id": "1"}'),
                ("content_delta", '{"turn_id": "a", "content": "One"}'),
                ("turn_started", '{"turn_id": "b", "model": "m", "message_id": "2"}'),
                ("content_delta", '{"turn_id": "b", "content": "Two"}'),
            ]
        )
    )
    drawn = """
        intercept((url, options) => {
          if (!begins(url, options)) return null;
          const start = (stream) => stream.enqueue(new TextEncoder().encode(events));
          return new Response(new ReadableStream({ start }));
        });
        send('Again');
        await until(() => !$('stop').hidden);
        await idle();
        return answers().length;
    """
    assert await page.do(f"{INTERCEPT} {drawn}", events=events) == 1


async def test_a_conversation_that_could_not_be_shown_can_be_tried_again(page: Page) -> None:
    session_id = await page.new_session(title="One")
    tried = """
        let isAway = true;
        intercept((url) => isAway && url.includes('view=page') && refused(500, 'AWAY'));
        location.hash = `#/${session_id}`;
        await until(() => $('alert').textContent.includes('AWAY'));
        const wasDisabled = $('send').disabled;
        isAway = false;
        press('Try again', $('alert'));
        await until(() => $('title').textContent === 'One' && !$('send').disabled);
        return [wasDisabled, $('alert').textContent];
    """
    assert await page.do(f"{INTERCEPT} {tried}", session_id=session_id) == [True, ""]
