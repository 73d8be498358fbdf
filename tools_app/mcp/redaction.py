"""Removes secrets and control characters from texts for logs and messages. Pure."""

from collections.abc import Iterable

from tools_app.text import shortened

MAX_TEXT_CHARS = 500
HIDDEN = "***"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return the beginning of the text on one line, without any of the secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    line = "".join(c if c.isprintable() else " " for c in text[: 2 * MAX_TEXT_CHARS])
    line = " ".join(line.split())
    return shortened(line, MAX_TEXT_CHARS)
