"""The chat page of a server that wants a token."""

import pytest

from tests.functional.browser import needs_browser
from tests.functional.chat_page.conftest import Page

pytestmark = [pytest.mark.interop, needs_browser]


async def test_the_token_is_not_shown_while_it_is_typed_and_given_with_enter(page: Page) -> None:
    await page.do(
        """
        const { fetch: realFetch } = window;
        const tokenOf = (options) => options?.headers?.Authorization;
        const error = { code: 'UNAUTHENTICATED', message: 'No.', details: { retryable: false } };
        window.tokens = [];
        window.fetch = (url, options) => {
          if (!String(url).endsWith('/models')) return realFetch(url, options);
          if (!tokenOf(options)) return Response.json({ error }, { status: 401 });
          tokens.push(tokenOf(options));
          return Response.json({ models: [] });
        };
        const { call } = await import('/client.js');
        call('models');
        await until(() => document.activeElement === $('ask-value'));
        """
    )
    assert await page.do("return $('ask-value').type") == "password"
    await page.tab.call("Input.insertText", text="secret")
    await page.press("Enter", 13)
    assert await page.do("return until(() => tokens[0])") == "Bearer secret"
