"""The page in the hand."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page
from tests.functional.conftest import block

pytestmark = [pytest.mark.interop, needs_browser]


@pytest.fixture
async def page(page: Page) -> Page:
    """Return the page on a phone."""
    await page.tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=390,
        height=844,
        deviceScaleFactor=1,
        mobile=True,
    )
    await page.tab.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    await page.open()
    return page


async def test_the_messages_have_most_of_the_room(page: Page) -> None:
    await page.do("await say(text); await idle()", text=block("Hi."))
    assert await page.do("return $('messages').clientHeight") > 0.75 * 844
    assert await page.do("return document.documentElement.scrollWidth") <= 390


async def test_the_list_is_a_drawer_that_closes_with_what_is_chosen(page: Page) -> None:
    await page.do("await say(text); await idle()", text=block("Hi."))
    open_drawer = "$('drawer').click(); await until(() => $('main').inert);"
    await page.do(f"{open_drawer} await until(() => document.activeElement === $('close'))")
    await page.do("$('close').click(); if ($('main').inert) throw new Error('it stays')")
    assert await page.do("return [document.activeElement.id, $('sidebar').inert]") == [
        "drawer",
        True,
    ]
    await page.do("$('fresh').click(); await until(() => !location.hash)")
    await page.do(
        f"{open_drawer} all('#sessions a')[0].click(); await until(() => answers().length)"
    )
    assert await page.do("return $('main').inert") is False


async def test_everything_is_large_enough_to_be_touched(page: Page) -> None:
    small = """
        const targets = all('button, select, label.icon, .entry a');
        const shown = (each) => each.checkVisibility() && !each.closest('#messages');
        const isSmall = (each) => Math.min(each.offsetWidth, each.offsetHeight) < 44;
        return targets.filter((each) => shown(each) && isSmall(each)).map((each) => each.outerHTML);
    """
    assert await page.do(small) == []
    await page.do("$('drawer').click(); await until(() => $('main').inert)")
    assert await page.do(small) == []
