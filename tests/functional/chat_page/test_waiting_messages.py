"""Messages that are sent while an answer is written: they wait, and nothing of them is lost."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.functional.browser import needs_browser, tab_of
from tests.functional.chat_page.conftest import Page
from tests.functional.chat_page.test_scrolling import TOOL
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

ENTER = ("Enter", 13)
CALL = {"tool_call": [{"name": "echo", "args": {"text": "Hear, hear."}}]}
ASKS = block(CALL, {"text_message": {"text": "Done."}}, per_request=True)
HELPERS = """
    const write = (text) => {
      $('message').value = text;
      $('message').dispatchEvent(new Event('input'));
    };
    const waiting = () => all('#inbox .waiting').map((each) => each.textContent);
    const queue = async (text) => {
      const before = waiting().length;
      write(text);
      $('composer').requestSubmit();
      await until(() => waiting().length > before && !all('#inbox .pending').length);
    };
    const act = (index, label) => {
      all('#inbox li')[index].querySelector('.dots').click();
      press(label, $('menu'));
    };
    const shows = (...texts) => until(() => String(waiting()) === String(texts));
    const users = () => all('#messages article.user .text').map((each) => each.textContent);
    const answered = (count) => until(() => answers().length >= count && $('stop').hidden);
"""


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with two workers, which tabs need not share, and a tool."""
    server = start_once("--workers", "2")
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "repeating.py").write_text(TOOL)
    return server


@pytest.fixture
async def asked(page: Page) -> Page:
    """Return a page whose answer takes as long as nobody approves its call."""
    session_id = await page.new_session(tool_settings={"tools": ["echo"]})
    await page.open(f"/#/{session_id}")
    await page.do("await say(text); await until(() => all('.question').length)", text=ASKS)
    return page


@pytest.fixture
async def other(asked: Page, browser: Path) -> AsyncIterator[Page]:
    """Return the same conversation in another tab."""
    async with tab_of(browser) as tab:
        page = Page(tab, asked.url)
        await page.open(f"/{await asked.do('return location.hash')}")
        yield page


async def test_messages_wait_for_the_answer_and_are_answered_in_their_order(asked: Page) -> None:
    seen = await asked.do(
        f"{HELPERS} await queue(one); await queue(two);"
        " const seen = [waiting().length, $('message').value, users().length];"
        " await decide('Approve'); await answered(4); return [seen, users().slice(1)]",
        one=block("One."),
        two=block("Two."),
    )
    assert seen == [[2, "", 1], [block("One."), block("Two.")]]
    gone = "await until(() => $('inbox').hidden); return answers().slice(1)"
    assert await asked.do(gone) == ["Done.", "One.", "Two."]
    assert asked.crashes == []


async def test_two_that_are_sent_at_once_keep_their_order(asked: Page) -> None:
    both = f"""{HELPERS}
        for (const text of ['first', 'second', 'third']) {{
          write(text);
          $('composer').requestSubmit();
        }}
        const early = await until(() => waiting().length === 3 && waiting());
        await until(() => !all('#inbox .pending').length);
        return [early, waiting()];
    """
    order = ["first", "second", "third"]
    assert await asked.do(both) == [order, order]


async def test_what_waits_survives_a_reload_and_is_the_same_in_two_tabs(
    asked: Page, other: Page
) -> None:
    await asked.do(f"{HELPERS} await queue('one'); await queue('two'); await queue('three')")
    await other.do(f"{HELPERS} await shows('one', 'two', 'three'); act(1, 'Move up')")
    await asked.do(f"{HELPERS} await shows('two', 'one', 'three'); act(2, 'Delete')")
    await other.do(
        f"{HELPERS} await shows('two', 'one'); act(0, 'Edit'); await until(() => $('ask').open);"
        " $('ask-value').value = 'too'; press('OK', $('ask'))"
    )
    await asked.do(f"{HELPERS} await shows('too', 'one')")
    await asked.open(f"/{await asked.do('return location.hash')}")
    await asked.do(f"{HELPERS} await shows('too', 'one')")
    listed = "all('#sessions [aria-current] small').map((each) => each.textContent)"
    await asked.do(f"await until(() => {listed}.some((each) => each.startsWith('2 waiting')))")
    assert asked.crashes == other.crashes == []


async def test_an_edit_that_comes_too_late_is_said_kindly_and_kept(asked: Page) -> None:
    late = f"""{HELPERS}
        await queue('Hello');
        act(0, 'Edit');
        await until(() => $('ask').open);
        const path = `chat/${{location.hash.slice(2)}}`;
        const {{ confirmations: [open] }} = await api(`${{path}}/confirmations`);
        const body = {{ confirmation_id: open.confirmation_id, approved: true }};
        await api(`${{path}}/confirm-tool`, body);
        await until(() => users().includes('Hello'));
        $('ask-value').value = 'Good morning';
        press('OK', $('ask'));
        const told = await until(() => $('alert').innerText);
        return [told, $('message').value];
    """
    told, written = await asked.do(late)
    assert "That message is being answered already." in told
    assert written == "Good morning"


async def test_an_edit_of_a_message_that_was_deleted_is_said_and_kept(asked: Page) -> None:
    late = f"""{HELPERS}
        await queue('Hello');
        act(0, 'Edit');
        await until(() => $('ask').open);
        await api(`chat/${{location.hash.slice(2)}}/inbox`, undefined, 'DELETE');
        await until(() => $('inbox').hidden);
        $('ask-value').value = 'Good morning';
        press('OK', $('ask'));
        const told = await until(() => $('alert').innerText);
        return [told, $('message').value];
    """
    told, written = await asked.do(late)
    assert "That message was deleted. What you wrote is in the message field." in told
    assert written == "Good morning"


async def test_an_edit_that_leaves_nothing_changes_nothing(asked: Page) -> None:
    blank = f"""{HELPERS}
        await queue('Hello');
        act(0, 'Edit');
        await until(() => $('ask').open);
        $('ask-value').value = ' ';
        press('OK', $('ask'));
        const told = await until(() => $('alert').innerText);
        return [told, waiting(), $('message').value];
    """
    told, waiting, written = await asked.do(blank)
    assert "An empty message would say nothing: delete it instead." in told
    assert (waiting, written) == (["Hello"], "")


async def test_only_what_can_be_done_is_offered(asked: Page) -> None:
    offered = f"""{HELPERS}
        const offers = (index) => {{
          all('#inbox li')[index].querySelector('.dots').click();
          const labels = [...$('menu').children].map((each) => each.textContent);
          $('menu').hidePopover();
          return labels;
        }};
        await queue('one');
        await queue('two');
        await queue('three');
        const running = offers(2);
        act(0, 'Let the model read it now');
        await until(() => $('inbox').innerText.includes('before the next step'));
        const below = offers(1);
        $('stop').click();
        await until(() => $('inbox').innerText.includes('You stopped an answer'));
        await idle();
        return [running, below, offers(2)];
    """
    rest = ["Edit", "Delete"]
    running, below, idle = await asked.do(offered)
    assert running == ["Let the model read it now", "Edit", "Move up", "Delete"]
    assert below == ["Let the model read it now", *rest]
    assert idle == ["Edit", "Move up", "Delete"]


async def test_screen_readers_hear_what_changed_and_which_message_a_button_is_of(
    asked: Page,
) -> None:
    heard = f"""{HELPERS}
        await queue('one');
        const [text] = $('inbox').querySelector('.waiting').childNodes;
        await queue('two');
        const isKept = text.isConnected;
        const described = all('#inbox button').map((each) =>
          document.getElementById(each.getAttribute('aria-describedby'))?.textContent);
        const live = $('inbox').matches('[aria-live]');
        const two = $('waiting').textContent;
        act(0, 'Delete');
        await until(() => waiting().length === 1);
        return [live, isKept, described, two, $('waiting').textContent];
    """
    described = ["one", "one", "two", "two"]
    assert await asked.do(heard) == [False, True, described, "2 waiting", "1 waiting"]


async def test_a_message_that_is_sent_now_withdraws_the_question(asked: Page) -> None:
    now = f"""{HELPERS}
        await queue('later');
        await queue(text);
        all('#inbox li')[1].querySelector('button').click();
        await until(() => answers().includes('Now.'));
        await until(() => users().includes('later') && $('stop').hidden && $('inbox').hidden);
        return [all('.question').length, users().slice(1)];
    """
    text = block("Now.")
    assert await asked.do(now, text=text) == [0, [text, "later"]]
    assert asked.crashes == []


async def test_what_waits_is_paused_by_stop_and_resumed(asked: Page) -> None:
    paused = f"""{HELPERS}
        await queue(text);
        $('stop').click();
        await until(() => $('inbox').innerText.includes('You stopped an answer'));
        await idle();
        const before = [users().length, waiting().length];
        press('Resume', $('inbox'));
        await until(() => answers().includes('Resumed.') && $('inbox').hidden);
        return before;
    """
    assert await asked.do(paused, text=block("Resumed.")) == [1, 1]


async def test_what_waits_is_paused_by_a_failure(asked: Page) -> None:
    paused = f"""{HELPERS}
        await queue(fails);
        await queue(text);
        await decide('Approve');
        await until(() => $('inbox').innerText.includes('An answer failed'));
        await idle();
        const before = waiting().length;
        press('Resume', $('inbox'));
        await until(() => answers().includes('At last.'));
        return before;
    """
    fails = block(status=401)
    assert await asked.do(paused, fails=fails, text=block("At last.")) == 1


async def test_enter_twice_has_the_model_read_it_before_its_next_step(asked: Page) -> None:
    await asked.do(f"{HELPERS} write('Shorter!'); $('message').focus()")
    await asked.press(*ENTER)
    await asked.press(*ENTER)
    await asked.do("await until(() => $('inbox').innerText.includes('before the next step'))")
    await asked.do(f"{HELPERS} await decide('Approve'); await answered(2)")
    session_id = (await asked.do("return location.hash"))[2:]
    messages = (await asked.api(f"sessions/{session_id}"))["messages"]
    roles = [message["role"] for message in messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    shown = "return all('#messages article').map((each) => each.className.split(' ')[0])"
    assert await asked.do(shown) == ["user", "assistant", "user", "assistant"]
    assert asked.crashes == []


async def test_an_enter_that_is_held_or_alone_changes_nothing(asked: Page) -> None:
    held = f"""{HELPERS}
        await queue('one');
        const field = $('message');
        const pressed = {{ key: 'Enter', repeat: true, cancelable: true }};
        field.dispatchEvent(new KeyboardEvent('keydown', pressed));
        await new Promise((resolve) => setTimeout(resolve));
        return [waiting(), users().length];
    """
    assert await asked.do(held) == [["one"], 1]


async def test_an_image_alone_waits_and_is_answered(asked: Page) -> None:
    image = f"""{HELPERS}
        const model = 'scripted-vision:latest';
        await api(`sessions/${{location.hash.slice(2)}}`, {{ model }}, 'PATCH');
        const canvas = new OffscreenCanvas(12, 9);
        canvas.getContext('2d').fillRect(0, 0, 12, 9);
        const transfer = new DataTransfer();
        const drawn = await canvas.convertToBlob();
        transfer.items.add(new File([drawn], 'square.png', {{ type: 'image/png' }}));
        const dropped = {{ dataTransfer: transfer, cancelable: true }};
        document.dispatchEvent(new DragEvent('drop', dropped));
        await until(() => all('#attached img').length && !$('send').disabled);
        $('send').click();
        await shows('[square.png]');
        await decide('Approve');
        await until(() => all('article.user').length === 2 && $('inbox').hidden);
        return until(() => all('article.user .files img').length);
    """
    assert await asked.do(image) == 1


async def test_a_message_that_may_not_wait_goes_back_into_the_field(asked: Page) -> None:
    full = f"""{HELPERS}
        const {{ fetch }} = window;
        const error = {{ code: 'INBOX_FULL', message: 'Too many wait.', details: {{}} }};
        window.fetch = async (url, options = {{}}) =>
          options.method === 'POST' && String(url).endsWith('/stream')
            ? Response.json({{ error }}, {{ status: 409 }})
            : fetch(url, options);
        write('One more');
        $('composer').requestSubmit();
        await until(() => $('alert').innerText.includes('Too many wait.'));
        return [$('message').value, waiting(), users().length];
    """
    assert await asked.do(full) == ["One more", [], 1]


async def test_a_message_that_another_tab_was_faster_than_waits(page: Page) -> None:
    session_id = await page.new_session(tool_settings={"tools": ["echo"]})
    await page.open(f"/#/{session_id}")
    faster = f"""{HELPERS}
        const {{ fetch }} = window;
        let release;
        const gate = new Promise((resolve) => (release = resolve));
        window.fetch = async (url, options) => {{
          if (String(url).includes('view=page')) await gate; // so that this tab has not heard of it
          return fetch(url, options);
        }};
        const begun = {{ method: 'POST', headers: {{ 'Content-Type': 'application/json' }} }};
        const body = JSON.stringify({{ message: script, detached: true }});
        fetch(`/api/v1/chat/${{id}}/stream`, {{ ...begun, body }});
        for (;;) if ((await api(`chat/${{id}}/confirmations`)).confirmations.length) break;
        write(text);
        $('composer').requestSubmit();
        await shows(text);
        release();
        await until(() => all('.question').length);
        await decide('Approve');
        await until(() => answers().includes('Second.') && users().length === 2);
        return users();
    """
    text = block("Second.")
    assert await page.do(faster, id=session_id, script=ASKS, text=text) == [ASKS, text]
    assert page.crashes == []


async def test_a_page_that_was_read_as_a_turn_began_shows_its_question(asked: Page) -> None:
    early = f"""{HELPERS}
        const {{ fetch }} = window;
        let pages = 0;
        window.fetch = async (url, options) => {{
          const answer = await fetch(url, options);
          if (!String(url).includes('view=page') || pages++) return answer;
          return Response.json({{ ...(await answer.json()), messages: [] }});
        }};
        const open = location.hash;
        location.hash = '';
        await until(() => !all('article').length);
        location.hash = open;
        await until(() => all('.question').length && users().length);
        return all('#messages article').map((each) => each.className.split(' ')[0]);
    """
    assert await asked.do(early) == ["user", "assistant"]


async def test_what_waits_can_be_touched_on_a_phone(asked: Page) -> None:
    await asked.tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=844,
        deviceScaleFactor=1,
        mobile=True,
    )
    await asked.tab.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    await asked.open(f"/{await asked.do('return location.hash')}")
    sizes = f"""{HELPERS}
        await queue('A message that is longer than the line of a phone. '.repeat(5));
        const small = all('#inbox button, #send, #stop').filter((each) =>
          each.checkVisibility() && Math.min(each.offsetWidth, each.offsetHeight) < 44);
        return [small.map((each) => each.outerHTML), document.documentElement.scrollWidth <= 390];
    """
    assert await asked.do(sizes) == [[], True]
