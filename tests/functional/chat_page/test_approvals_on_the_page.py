"""How a person approves a call on the page."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.chat_page.test_scrolling import TOOL
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

CALL = {"tool_call": [{"name": "echo", "args": {"text": "Hear, hear."}}]}
RESULTS = "return all('.call .result').map((each) => each.textContent)"
QUESTIONS = """
    const { questionOf } = await import('/approval.js');
    window.decided ??= [];
    const ask = (tool) => {
      const made = questionOf({ tool_name: tool, arguments: {} }, async () => decided.push(tool));
      $('messages').append(made);
      return made;
    };
"""
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
    await asked.do("all('.question .check input')[0].click(); await decide('Approve')")
    assert (await asked.do("await idle(); return answers()"))[-1] == "Done."
    assert await asked.do(RESULTS) == ["Hear, hear."] * 2


async def test_a_call_runs_with_the_arguments_that_a_person_has_changed(asked: Page) -> None:
    changed = """
        const field = all('.question textarea')[0];
        field.value = 'no JSON';
        await until(() => {
          press('Approve');
          return all('.question .failed').some((each) => each.textContent);
        });
        field.value = '{"text": "Silence."}';
        press('Approve');
        await until(() => all('.call .result').length);
        return all('.call .result')[0].textContent;
    """
    assert await asked.do(changed) == "Silence."


async def test_the_focus_goes_on_to_the_message_field(asked: Page) -> None:
    await asked.do(
        "all('.question button')[1].focus(); await decide('Deny');"
        " await until(() => document.activeElement === $('message'))"
    )
    await asked.do(f"{ASKED} await decide('Deny'); await idle()")
    assert await asked.do("return document.activeElement === $('message')")


async def test_a_click_for_what_was_there_before_a_question_approves_nothing(page: Page) -> None:
    shown = f"""{QUESTIONS}
        const early = new MouseEvent('click');
        const questions = [ask('first'), ask('second')];
        const approve = (index) => questions[index].querySelector('.main');
        approve(0).dispatchEvent(early);
        const before = [...decided];
        await decide('Approve');
        const second = new MouseEvent('click'); // of a double click: the next question has moved
        await until(() => !questions[0].isConnected);
        approve(1).dispatchEvent(second);
        return [before, decided, approve(1).disabled];
    """
    assert await page.do(shown) == [[], ["first"], False]


async def test_no_key_that_approved_a_call_approves_the_next(page: Page) -> None:
    focused = f"""{QUESTIONS}
        const questions = [ask('first'), ask('second')];
        questions[0].querySelector('.main').focus();
        await decide('Approve');
        await until(() => !questions[0].isConnected);
        return document.activeElement === questions[1];
    """
    assert await page.do(focused)
    await page.press("Enter", 13)
    assert await page.do("return decided") == ["first"]


async def test_an_enter_that_is_held_presses_no_button_of_a_question(page: Page) -> None:
    held = f"""{QUESTIONS}
        const button = ask('first').querySelector('.main');
        const pressed = (key, repeat) =>
          button.dispatchEvent(new KeyboardEvent('keydown', {{ key, repeat, cancelable: true }}));
        return [pressed('Enter', true), pressed('Enter', false), pressed('ArrowDown', true)];
    """
    assert await page.do(held) == [False, True, True]
