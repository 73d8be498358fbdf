"""Finds the words of a message that is a web page, as proxies send them. Pure."""

import html
import re

_FLAGS = re.IGNORECASE | re.DOTALL
_PAGE = re.compile(r"\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype html|html)\b", _FLAGS)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)
_UNSEEN = re.compile(r"<(script|style|head)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>?", _FLAGS)
_LONGEST_PAGE = 4096
_MOST_WORDS = 300


def readable(text: str) -> str:
    """Return a message as it is; of a web page, that it is one, and its words."""
    if not _PAGE.match(text[:_MOST_WORDS]):
        return text
    page = text[:_LONGEST_PAGE]
    title = _TITLE.search(page)
    words = title[1] if title and title[1].strip() else _UNSEEN.sub(" ", page)
    said = " ".join(html.unescape(words).split())[:_MOST_WORDS]
    return f"a web page instead of an answer: {said or 'it is empty'}"
