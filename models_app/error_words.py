"""Finds the words of an error, also in a web page, as proxies send them. Pure."""

import html
import re
from collections.abc import Mapping

MAX_WORDS = 2000
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


def error_message(body: object) -> str:
    """Find the message in an error body; each vendor wraps it differently."""
    for _ in range(5):
        if isinstance(body, list) and body:
            body = body[0]
        if not isinstance(body, Mapping):
            break
        inner = body.get("error", body.get("message", body.get("detail")))
        if inner is None:
            return ""
        body = inner
    return body.strip() if isinstance(body, str) else ""
