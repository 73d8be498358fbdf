"""Names the files of the chat page, ``examples/chat-page``, and what they are."""

from collections.abc import Mapping
from pathlib import Path

_SCRIPT = "text/javascript; charset=utf-8"

CONTENT_TYPES: Mapping[str, str] = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": _SCRIPT,
    "client.js": _SCRIPT,
    "conversation.js": _SCRIPT,
    "dialogs.js": _SCRIPT,
    "elements.js": _SCRIPT,
    "markdown.js": _SCRIPT,
    "message_view.js": _SCRIPT,
    "sidebar.js": _SCRIPT,
}
"""Every file of the page, by its name, with its content type. They hold no data."""

_PACKAGED = Path(__file__).parent / "chat-page"
_OF_THE_CHECKOUT = Path(__file__).parents[1] / "examples" / "chat-page"


def read(name: str) -> bytes:
    """Return a file of the page: the wheel's, else the checkout's."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _OF_THE_CHECKOUT
    return (folder / name).read_bytes()
