"""The list of conversations: what it shows, and what its menus do."""

import json

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import LISTED, Page
from tests.functional.conftest import Server, block

pytestmark = [pytest.mark.interop, needs_browser]

OPEN_MENU = """
    const nameOf = (each) => each.querySelector('.name').textContent;
    const entry = (title) => all('.entry').find((each) => nameOf(each) === title);
    const menuOf = async (title) => {
      (await until(() => entry(title))).querySelector('.dots').click();
      return $('menu');
    };
"""


async def test_a_pinned_conversation_stays_in_the_list_however_old_it_is(page: Page) -> None:
    session_id = await page.new_session(title="Ancient")
    await page.api(f"sessions/{session_id}", {"pinned": True}, "PATCH")
    for _ in range(51):
        await page.new_session()
    await page.open()
    await page.do(f"await until(() => {LISTED}[0] === 'Ancient')")
    assert await page.do("return all('#sessions h2')[0].textContent") == "Pinned"


async def test_the_first_turn_is_headed_by_what_was_asked(page: Page) -> None:
    words = [f"word{number} " for number in range(100)]
    script = block({"text_message": {"text": words}}, words_per_second=20)
    await page.do(
        "await say(text); await until(() => !$('stop').hidden)", text=f"Of whales {script}"
    )
    assert (await page.do("return $('title').textContent")).startswith("Of whales")
    await page.do("await until(() => all('.entry small.running').length === 1)")
    assert await page.do("return all('.entry .name')[0].textContent") != "Empty conversation"
    await page.do("$('stop').click(); await idle()")


async def test_a_search_opens_at_the_message_and_marks_it(page: Page) -> None:
    session_id = await page.new_session(title="Birds")
    await page.api(f"chat/{session_id}", {"message": block("The Goldcrest weighs five grams.")})
    for _ in range(6):
        await page.api(f"chat/{session_id}", {"message": block("\n\n".join(["More."] * 30))})
    await page.do(
        """
        $('search').value = 'goldcrest weighs grams';
        $('search').dispatchEvent(new Event('input'));
        (await until(() => all('#sessions mark')[0]?.closest('a'))).click();
        const hit = await until(() => all('article.hit')[0]);
        const { top, bottom } = hit.getBoundingClientRect();
        if (bottom < 0 || top > innerHeight) throw new Error('it is out of sight');
        if (document.activeElement !== hit) throw new Error('it has no focus');
        """
    )


async def test_a_search_goes_on_while_the_index_is_built_and_has_more_pages(page: Page) -> None:
    found = """
        const { fetch: realFetch } = window;
        const session = { title: 'Terns', model: 'm', updated_at: new Date().toISOString() };
        const result = (number) => ({
          session_id: '0123456789', message_id: String(number), role: 'user', pieces: [], session,
        });
        const many = Array.from({ length: 50 }, (_, number) => result(number));
        const pages = {
          none: { results: [], index: 'building', next_cursor: 'a b' },
          'a b': { results: many, index: 'building', next_cursor: 'c' },
          c: { results: [result(50)], index: 'ready', next_cursor: null },
        };
        window.fetch = async (url, options) => {
          const { pathname, searchParams } = new URL(url);
          if (!pathname.endsWith('/search')) return realFetch(url, options);
          return Response.json(pages[searchParams.get('cursor') ?? 'none']);
        };
        $('search').value = 'tern';
        $('search').dispatchEvent(new Event('input'));
        const count = () => all('#sessions .name').length;
        await until(() => count() === 50 && !$('more').hidden);
        $('more').click();
        await until(() => count() === 51 && $('more').hidden);
    """
    await page.do(found)


async def test_a_menu_is_used_by_keyboard_and_changes_do_not_take_the_focus(page: Page) -> None:
    await page.new_session(title="By keyboard")
    await page.do(
        f"{OPEN_MENU} (await until(() => entry('By keyboard'))).querySelector('.dots').focus()"
    )
    await page.press("Enter", 13)
    await page.do("await until(() => document.activeElement.textContent === 'Rename')")
    await page.press("ArrowDown", 40)
    assert await page.do("return document.activeElement.textContent") == "Pin"
    await page.press("Enter", 13)
    focused = "document.activeElement.getAttribute('aria-label')"
    await page.do(f"await until(() => {LISTED}[0] === 'By keyboard')")
    await page.do(f"await until(() => {focused} === 'Actions for By keyboard')")
    await page.new_session(title="Another")
    await page.do(f"await until(() => {LISTED}.includes('Another'))")
    assert await page.do(f"return {focused}") == "Actions for By keyboard"


async def test_a_conversation_is_renamed_with_enter(page: Page) -> None:
    await page.new_session(title="Before")
    await page.do(f"{OPEN_MENU} press('Rename', await menuOf('Before'))")
    await page.do("await until(() => document.activeElement === $('ask-value'))")
    await page.do("$('ask-value').select()")
    await page.tab.call("Input.insertText", text="After")
    await page.press("Enter", 13)
    await page.do(f"await until(() => {LISTED}.includes('After'))")


async def test_archived_conversations_have_a_list_of_their_own(page: Page) -> None:
    await page.new_session(title="Put away")
    await page.do(f"{OPEN_MENU} press('Archive', await menuOf('Put away'))")
    await page.do(f"await until(() => !{LISTED}.includes('Put away'))")
    await page.do(f"$('archived').click(); await until(() => {LISTED}.includes('Put away'))")
    await page.do(f"{OPEN_MENU} press('Take out of the archive', await menuOf('Put away'))")
    await page.do(f"await until(() => !{LISTED}.includes('Put away')); $('archived').click()")
    await page.do(f"await until(() => {LISTED}.includes('Put away'))")


async def test_a_conversation_is_deleted_once_that_is_confirmed(page: Page) -> None:
    await page.new_session(title="Short lived")
    ask = f"{OPEN_MENU} press('Delete', await menuOf('Short lived'));"
    ask += " await until(() => $('ask').open);"
    await page.do(f"{ask} press('Cancel', $('ask')); await until(() => !$('ask').open)")
    assert await page.do(f"return {LISTED}.includes('Short lived')")
    await page.do(
        f"{ask} press('OK', $('ask')); await until(() => !{LISTED}.includes('Short lived'))"
    )


async def test_a_conversation_is_exported_and_imported(page: Page, server: Server) -> None:
    await page.do("await say(text); await idle()", text=block("Kept."))
    exported = await page.do(
        """
        const made = [];
        URL.createObjectURL = (blob) => made.push(blob) && 'blob:x';
        HTMLAnchorElement.prototype.click = function () { made.push(this.download); };
        choose('Export as JSON');
        await until(() => made.length === 2);
        return [await made[0].text(), made[1]];
        """
    )
    session = json.loads(exported[0])
    assert exported[1] == f"session-{session['metadata']['session_id']}.json"
    session["metadata"]["session_id"] = "0123456789"
    await page.do(
        """
        const transfer = new DataTransfer();
        transfer.items.add(new File([text], 'session.json'));
        $('import').files = transfer.files;
        $('import').dispatchEvent(new Event('change'));
        await until(() => $('panel').open && $('panel').textContent.includes('1 imported'));
        """,
        text=json.dumps(session),
    )
    assert page.crashes == []
