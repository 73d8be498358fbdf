"""The chat page does what it offers."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import block

pytestmark = [pytest.mark.interop, needs_browser]


def slowly(words: list[str]) -> str:
    """Return a message whose answer takes its time."""
    return block({"text_message": {"text": words}}, words_per_second=20)


async def test_an_answer_is_streamed_and_there_after_a_reload(page: Page) -> None:
    await page.do("await say(text)", text=block("The capital ", "is *Paris*."))
    assert await page.do("await idle(); return answers()") == ["The capital is Paris."]
    address = await page.do("return location.hash")

    await page.open(f"/{address}")

    assert await page.do("return answers()") == ["The capital is Paris."]
    assert page.crashes == []


async def test_reasoning_is_shown_apart_from_the_answer(page: Page) -> None:
    await page.do(
        "$('think').value = 'true'; await say(text)",
        text=block({"text_message": {"text": "Seven.", "reasoning": "Three and four."}}),
    )
    shown = "await idle(); return [all('.thinking .plain').map((e) => e.textContent), answers()]"
    assert await page.do(shown) == [["Three and four."], ["Seven."]]


async def test_a_page_that_is_reloaded_in_mid_answer_follows_it_and_says_nothing_twice(
    page: Page,
) -> None:
    words = [f"word{number} " for number in range(20)]
    await page.do("await say(text)", text=slowly(words))
    await page.do("await until(() => answers().at(-1)?.includes('word3'))")
    address = await page.do("return location.hash")

    await page.open(f"/{address}")

    await page.do("await until(() => answers().at(-1)?.includes('word0'))")
    assert await page.do("await idle(); return answers()") == ["".join(words).strip()]
    assert await page.do("return all('article.user').length") == 1


async def test_stop_stops_and_keeps_what_there_was(page: Page) -> None:
    words = [f"word{number} " for number in range(500)]
    await page.do("await say(text)", text=slowly(words))
    await page.do("await until(() => answers().at(-1)?.includes('word1')); $('stop').click()")
    (answer,) = await page.do("await idle(); return answers()")
    assert answer.startswith("word0 word1")
    assert "cancelled" not in answer
    note = "return all('article.assistant .note').map((each) => each.textContent)"
    assert await page.do(note) == ["You stopped this answer. Try again"]


async def test_an_answer_is_made_again_and_the_old_one_can_be_chosen(page: Page) -> None:
    first, second, chosen = await page.do(
        """
        const answer = async () => {
          const [id] = location.hash.match(/[0-9a-f]{10}/);
          const { messages } = await (await fetch(`/api/v1/sessions/${id}/messages`)).json();
          return messages.at(-1).message_id;
        };
        await say('Hello');
        await idle();
        const first = await answer();
        press('Regenerate');
        await until(() => all('button').some((each) => each.textContent === 'Other answers (1)'));
        await idle();
        const second = await answer();
        press('Other answers (1)');
        await until(() => $('panel').open);
        press('Use this answer', $('panel'));
        while (await answer() === second) await new Promise((resolve) => setTimeout(resolve, 20));
        return [first, second, await answer()];
        """
    )
    assert first == chosen != second
    assert await page.do("return all('#messages article').length") == 2


async def test_a_message_is_edited_and_answered_anew(page: Page) -> None:
    await page.do("await say('scratch')")
    edit = """
        await idle();
        press('Edit');
        await until(() => $('ask').open);
        $('ask-value').value = text;
        press('OK', $('ask'));
        await until(() => answers()[0] === 'Better.');
    """
    await page.do(edit, text=block("Better."))
    assert await page.do("await idle(); return all('article.user').length") == 1


async def test_a_fork_is_another_conversation(page: Page) -> None:
    await page.do("await say('Hello')")
    first = await page.do("await idle(); return location.hash")
    second = await page.do(
        "choose('Fork'); await until(() => location.hash !== first && answers().length);"
        " return location.hash",
        first=first,
    )
    assert first != second


async def test_files_are_attached_and_shown(page: Page) -> None:
    shown = """
        $('model').value = 'scripted-vision:latest';
        const canvas = new OffscreenCanvas(12, 9);
        canvas.getContext('2d').fillRect(0, 0, 12, 9);
        const transfer = new DataTransfer();
        const drawn = await canvas.convertToBlob();
        transfer.items.add(new File([drawn], 'square.png', { type: 'image/png' }));
        $('files').files = transfer.files;
        $('files').dispatchEvent(new Event('change'));
        await until(() => all('#attached img').length === 1);
        await say('What is this?');
        await idle();
        await until(() => all('article.user img').some((each) => each.naturalWidth === 12));
        return answers()[0];
    """
    assert "image/png" in await page.do(shown)
    assert page.crashes == []


async def test_the_context_shows_what_would_be_sent(page: Page) -> None:
    await page.do("await say('Hello')")
    shown = """
        await idle();
        choose('Context');
        await until(() => $('panel').open);
        return all('#panel tbody tr').map((row) => row.cells[1].textContent);
    """
    assert await page.do(shown) == ["user", "assistant"]


async def test_a_message_that_is_refused_goes_back_into_the_field(page: Page) -> None:
    refused = """
        await say('Hello');
        await idle();
        const long = 'too long '.repeat(200_000);
        $('message').value = long;
        $('composer').requestSubmit();
        await until(() => $('alert').textContent);
        return $('message').value === long;
    """
    assert await page.do(refused)


@pytest.mark.parametrize("width", [1200, 390])
async def test_it_fits_its_window_and_can_be_used_by_keyboard(page: Page, width: int) -> None:
    await page.tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=800,
        deviceScaleFactor=1,
        mobile=False,
    )
    await page.do("await say('Hello'); await idle()")
    assert await page.do("return document.documentElement.scrollWidth") <= width
    await page.do("document.activeElement.blur(); document.body.focus()")
    tab_key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    for kind in ("rawKeyDown", "keyUp"):
        await page.tab.call("Input.dispatchKeyEvent", type=kind, **tab_key)
    assert await page.do("return document.activeElement.matches('button, input, a')")


async def test_conversations_are_found_by_what_was_said_in_them(page: Page) -> None:
    await page.do("await say(text); await idle()", text=block("The *Kingfisher* dives."))
    found = """
        $('search').value = 'kingfish*';
        $('search').dispatchEvent(new Event('input'));
        await until(() => all('#sessions mark').some((each) => each.textContent === 'Kingfisher'));
        const before = location.hash;
        press('New conversation');
        await until(() => location.hash !== before);
        all('#sessions a')[0].click();
        await until(() => answers().length);
        return answers()[0];
    """
    assert await page.do(found) == "The Kingfisher dives."


async def test_a_text_that_is_void_is_replaced_on_the_page(page: Page) -> None:
    words = [f"word{number} " for number in range(40)]
    asked = block({"text_message": {"text": words}}, words_per_second=10, ignores_format=True)
    await page.do("await say(text)", text=block("Hello."))
    await page.do("await idle()")
    address = await page.do("return location.hash")
    body = {"message": asked, "detached": True, "response_format": {"type": "json_object"}}
    await page.do(
        "const id = hash.match(/[0-9a-f]{10}/)[0];"
        " await fetch(`/api/v1/chat/${id}/stream`, {method: 'POST', body: JSON.stringify(body),"
        " headers: {'content-type': 'application/json'}})",
        hash=address,
        body=body,
    )
    await page.open(f"/{address}")

    assert await page.do(
        "await until(() => answers().at(-1).startsWith('{')); await idle(); return answers()"
    ) == ["Hello.", "{}"]
    assert page.crashes == []
