"""Names the files of the chat page, ``examples/chat-page``, and what they are.

How many tabs share a server: docs/decisions/0154.
"""

from collections.abc import Mapping
from pathlib import Path

_PACKAGED = Path(__file__).parent / "chat-page"
_OF_THE_CHECKOUT = Path(__file__).parents[1] / "examples" / "chat-page"
_FOLDER = _PACKAGED if _PACKAGED.is_dir() else _OF_THE_CHECKOUT
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}

CONTENT_TYPES: Mapping[str, str] = {
    path.relative_to(_FOLDER).as_posix(): _TYPES[path.suffix]
    for path in sorted(_FOLDER.rglob("*"))
    if path.suffix in _TYPES
}
"""Every file of the page, by its name, with its content type. They hold no data."""


def read(name: str) -> bytes:
    """Return a file of the page: the wheel's, else the checkout's."""
    return (_FOLDER / name).read_bytes()
