"""What is said last is in sight, unless the person reads something else."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import Server, StartServer, block

pytestmark = [pytest.mark.interop, needs_browser]

LONG = "\n\n".join(f"Paragraph {number}." for number in range(80))
IN_SIGHT = """
    const seen = (found) => {
      const [inner, outer] = [found, $('messages')].map((each) => each.getBoundingClientRect());
      return inner.bottom > outer.top && inner.top < outer.bottom;
    };
    const atEnd = () => {
      const { scrollHeight, scrollTop, clientHeight } = $('messages');
      return scrollHeight - scrollTop - clientHeight < 2;
    };
"""
TOOL = """
__all__ = ["echo"]


def echo(text: str) -> str:
    \"\"\"Say it again.\"\"\"
    return text
"""


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    """Return a server with a tool."""
    server = start_once()
    (server.data_dir / "tools").mkdir()
    (server.data_dir / "tools" / "repeating.py").write_text(TOOL)
    return server


@pytest.fixture(params=[(1200, 800), (390, 844)], ids=["desktop", "phone"])
async def page(request: pytest.FixtureRequest, page: Page) -> Page:
    """Return the page in a window of a size."""
    width, height = request.param
    await page.tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=width < 500,
    )
    return page


async def test_what_is_sent_and_what_answers_it_come_into_sight(page: Page) -> None:
    await page.do("await say(text); await idle()", text=block(LONG))
    await page.do("$('messages').scrollTop = 0; await until(() => !$('jump').hidden)")
    await page.do("await say(text)", text=f"{LONG} {block(LONG)}")
    await page.do(f"{IN_SIGHT} await idle(); await until(atEnd)")
    assert await page.do("return $('jump').hidden")


async def test_who_scrolls_up_is_left_there_and_led_back(page: Page) -> None:
    words = [f"word{number} \n\n" for number in range(200)]
    await page.do(
        "await say(text)", text=block({"text_message": {"text": words}}, words_per_second=40)
    )
    await page.do(
        "await until(() => answers().at(-1)?.includes('word50')); $('messages').scrollTop = 0"
    )
    await page.do("await until(() => answers().at(-1)?.includes('word70'))")
    assert await page.do("return $('messages').scrollTop") == 0
    await page.do(f"{IN_SIGHT} $('jump').click(); await until(atEnd)")
    before = await page.do("return $('messages').scrollTop")
    await page.do(
        f"{IN_SIGHT} await until(() => atEnd() && $('messages').scrollTop > before)", before=before
    )
    await page.do("$('stop').click(); await idle()")


async def test_a_question_comes_into_sight_also_for_who_reads_above(page: Page) -> None:
    await page.do("await say(text); await idle()", text=block(LONG))
    await page.do(
        """
        const id = location.hash.slice(2, 12);
        await fetch(`/api/v1/sessions/${id}`, {
          method: 'PATCH',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ tool_settings: settings }),
        });
        """,
        settings={"tools": ["echo"], "execution_policy": "always_confirm"},
    )
    words = [f"Line {number}.\n\n" for number in range(20)]
    call = {"tool_call": [{"name": "echo", "args": {"text": "Hear, hear."}}]}
    script = block({"text_message": {"text": words}}, call, words_per_second=20)
    await page.do("await say(text); $('messages').scrollTop = 0", text=script)
    await page.do(f"{IN_SIGHT} await until(() => all('.question').some(seen))")
    await page.do("$('stop').click(); await idle()")
