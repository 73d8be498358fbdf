"""Names the images and files that tools return, and tells models of them. Pure."""

import re
from urllib.parse import unquote, urlsplit

from sessions_app.attachments.media_type import HEAD_BYTES, image_type
from sessions_app.attachments.names import SUFFIXES

MAX_NAME = 100
_ODD = re.compile(r"[^\w.-]+")


def file_name(tool_name: str, number: int, data: bytes) -> str:
    """Return the name of a file that its tool gives none, such as ``plot.png``, ``plot-2.png``.

    Args:
        tool_name: The tool.
        number: The file's number within the result, from 1.
        data: Its bytes.
    """
    stem = clean_name(tool_name) or "result"
    kind = image_type(data[:HEAD_BYTES])
    ending = "" if kind is None else f".{SUFFIXES[kind]}"
    return f"{stem}{ending}" if number == 1 else f"{stem}-{number}{ending}"


def name_in(uri: str) -> str:
    """Return the last part of a resource's path, as the name of a file; empty if it has none."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:
        return ""
    return clean_name(path.rstrip("/").rpartition("/")[2])


def clean_name(name: str) -> str:
    """Return a name without what no file's name should have; it may be empty."""
    return _ODD.sub("-", name).strip("-.")[-MAX_NAME:].lstrip("-.")


def mention(name: str, size: int) -> str:
    """Return what stands in a result's text where a file was, so that models can name it."""
    return f"[{name}, {size} bytes]"
