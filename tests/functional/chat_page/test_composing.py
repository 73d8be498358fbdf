"""What is written and not sent, and what is refused, is not lost."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page

pytestmark = [pytest.mark.interop, needs_browser]

WRITE = """
    const write = (text) => {
      $('message').value = text;
      $('message').dispatchEvent(new Event('input'));
    };
    const go = async (hash) => {
      location.hash = hash;
      await until(() => $('title').textContent !== 'New conversation' || !hash);
    };
"""


async def test_drafts_belong_to_their_conversation_and_survive_a_reload(page: Page) -> None:
    one, other = [await page.new_session(title=title) for title in ("One", "Other")]
    written = "await until(() => $('message').value === text)"
    await page.do(f"{WRITE} write('Of nothing'); await go('#/{one}'); write('Of one')")
    await page.do(f"location.hash = '#/{other}'; await until(() => $('message').value === '')")
    await page.open()
    await page.do(written, text="Of nothing")
    await page.open(f"/#/{one}")
    await page.do(written, text="Of one")
    await page.do(
        "choose('Delete'); await until(() => $('ask').open); press('OK', $('ask'));"
        " await until(() => !location.hash)"
    )
    drafts = await page.do(
        "return Object.keys(localStorage).filter((each) => each.includes('draft'))"
    )
    assert drafts == ["draft of a new conversation"]


async def test_a_first_message_that_is_refused_leaves_no_conversation(page: Page) -> None:
    before = (await page.api("sessions"))["total"]
    kept = await page.do(
        """
        const long = 'too long '.repeat(200_000);
        $('message').value = long;
        $('composer').requestSubmit();
        await until(() => $('alert').textContent && $('message').value === long);
        return [location.hash, $('title').textContent];
        """
    )
    assert kept == ["", "New conversation"]
    assert (await page.api("sessions"))["total"] == before


async def test_a_new_chat_has_the_last_model_that_was_chosen(page: Page) -> None:
    await page.do(
        "$('model').value = 'scripted-vision:latest'; $('model').dispatchEvent(new Event('change'))"
    )
    await page.open()
    assert await page.do("return $('model').value") == "scripted-vision:latest"


async def test_an_attached_image_is_previewed_and_can_be_removed(page: Page) -> None:
    await page.do(
        """
        const canvas = new OffscreenCanvas(12, 9);
        canvas.getContext('2d').fillRect(0, 0, 12, 9);
        const transfer = new DataTransfer();
        const drawn = await canvas.convertToBlob();
        transfer.items.add(new File([drawn], 'square.png', { type: 'image/png' }));
        document.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, cancelable: true }));
        await until(() => all('#attached img').some((each) => each.naturalWidth === 12));
        all('#attached .cross')[0].click();
        await until(() => !all('#attached li').length);
        """
    )
    assert page.crashes == []


async def test_escape_stops_and_shortcuts_lead_to_the_field_and_a_new_chat(page: Page) -> None:
    await page.do("await say('<|instruction_start|>{\"words_per_second\": 5}<|instruction_end|>')")
    await page.do("await until(() => !$('stop').hidden)")
    await page.press("Escape", 27)
    await page.do("await idle(); $('search').focus()")
    await page.press("Escape", 27, modifiers=8)
    await page.do("await until(() => document.activeElement === $('message'))")
    await page.press("O", 79, modifiers=10)
    await page.do("await until(() => $('title').textContent === 'New conversation')")
