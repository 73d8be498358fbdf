"""Removes secrets and control characters from texts for logs and messages. Pure."""

from collections.abc import Iterable

from tools_app.text import shortened

MAX_TEXT_CHARS = 500
HIDDEN = "***"


def redacted(text: str, secrets: Iterable[str], *, limit: int = MAX_TEXT_CHARS) -> str:
    """Return the text on one line, without any of the secrets, cut to ``limit`` characters."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    line = "".join(c if c.isprintable() else " " for c in text[: 2 * limit])
    line = " ".join(line.split())
    return shortened(line, limit)
