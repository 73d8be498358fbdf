"""Removes secrets and control characters from texts for logs and messages. Pure."""

from collections.abc import Iterable

from tools_app.text import shortened

MAX_TEXT_CHARS = 500
MAX_ERROR_CHARS = 2_000
"""Length of a whole error, which may hold an address to sign in at."""
HIDDEN = "***"


def redacted(text: str, secrets: Iterable[str], *, limit: int = MAX_TEXT_CHARS) -> str:
    """Return the beginning of the text on one line, without any of the secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    line = "".join(c if c.isprintable() else " " for c in text[: 2 * limit])
    line = " ".join(line.split())
    return shortened(line, limit)
