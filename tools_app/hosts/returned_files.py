"""Finds the images and files in what a function returned. Used in tool processes.

They are: bytes that begin as an image or a PDF does; an object that can show itself as PNG, as
Pillow's images can (``_repr_png_``, which notebooks call); a mapping ``{"type": "image", "data":
...}`` with bytes or Base64, or ``{"type": "file", "data": ...}`` with bytes; both may have a
``name``. A list or a tuple may mix them with anything else.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sessions_app.attachments.base64_text import InvalidBase64, decode_base64
from sessions_app.attachments.media_type import HEAD_BYTES, image_type
from sessions_app.surrogates import join_surrogates
from tools_app.file_names import clean_name, file_name, mention
from tools_app.hosts.messages import MAX_FILES, MAX_FILES_BYTES
from tools_app.text import text_of
from tools_app.toolset import ToolFile

_BYTES = (bytes, bytearray, memoryview)
_KINDS = ("image", "file")


def text_and_files(value: object, function: str) -> tuple[str, list[ToolFile]]:
    """Return what a function returned as text, in which files are mentioned, and the files.

    Raises what the value's own methods raise.

    Args:
        value: What it returned.
        function: Its name, which names the files that have none.
    """
    files = _Files(function)
    if isinstance(value, list | tuple):
        parts = [files.take(part) for part in value]
        if any(part is not None for part in parts):
            pairs = zip(value, parts, strict=True)
            return "\n".join(text_of(each) if part is None else part for each, part in pairs), (
                files.taken
            )
    mentioned = files.take(value)
    return (text_of(value) if mentioned is None else mentioned), files.taken


class _Files:
    """Collects files, as many as the server takes at once."""

    def __init__(self, function: str) -> None:
        self.taken: list[ToolFile] = []
        self._function = function
        self._bytes = 0

    def take(self, value: object) -> str | None:
        """Store a file and return its mention; None if the value is not a file."""
        found = _file_in(value)
        if found is None:
            return None
        data, name = found
        name = name or file_name(self._function, len(self.taken) + 1, data)
        if len(self.taken) == MAX_FILES:
            return f"[{name} was not handed over: {MAX_FILES} files are the most.]"
        if self._bytes + len(data) > MAX_FILES_BYTES:
            return f"[{name} was not handed over: {MAX_FILES_BYTES:,} bytes of files are the most.]"
        self._bytes += len(data)
        self.taken.append(ToolFile(name=name, data=data))
        return mention(name, len(data))


def _file_in(value: object) -> tuple[bytes, str] | None:
    """Return a file's bytes and its name, which may be empty; None where it is no file."""
    if isinstance(value, _BYTES):
        data = bytes(value)
        return (data, "") if image_type(data[:HEAD_BYTES]) else None
    if isinstance(value, Mapping):
        return _file_of(value)
    show: Callable[[object], object] | None = getattr(type(value), "_repr_png_", None)
    shown = show(value) if callable(show) else None
    return (shown, "") if isinstance(shown, bytes) and image_type(shown[:HEAD_BYTES]) else None


def _file_of(value: Mapping[Any, Any]) -> tuple[bytes, str] | None:
    kind, data, name = value.get("type"), value.get("data"), value.get("name")
    if kind not in _KINDS or not (name is None or isinstance(name, str)):
        return None
    name = clean_name(join_surrogates(name or ""))
    if isinstance(data, _BYTES):
        return bytes(data), name
    if kind != "image" or not isinstance(data, str):
        return None
    try:
        decoded = b"".join(decode_base64(data))
    except InvalidBase64:
        return None
    return (decoded, name) if image_type(decoded[:HEAD_BYTES]) else None
