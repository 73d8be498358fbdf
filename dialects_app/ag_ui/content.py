"""Parses the content of messages: text, images and files. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import GivenFile, source_of

_MEDIA = frozenset({"image", "audio", "video", "document"})
_KINDS: Mapping[str, str] = {"data": "file_data", "file": "file_id", "url": "file_url"}
"""The kinds of sources, by the fields of ``source_of``."""


def read_content(content: Any, path: str) -> tuple[str, Sequence[GivenFile]]:
    """Return the text of a message's content, and the files in it.

    Args:
        content: A text, or a list of parts.
        path: Its path in the request.

    Raises:
        ValidationFailed: The content is invalid; ``field`` is its path.
    """
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, list):
        refuse(path, "A text or a list of parts is wanted here.")
    texts: list[str] = []
    files: list[GivenFile] = []
    for number, part in enumerate(content):
        place = f"{path}.{number}"
        if not isinstance(part, Mapping):
            refuse(place, "A part is an object.")
        kind = required(part, "type", place)
        if kind == "text":
            texts.append(required(part, "text", place))
        elif kind in _MEDIA:
            files.append(_media(part, place, is_image=kind == "image"))
        elif kind == "binary":
            files.append(_binary(part, place))
        else:
            refuse(f"{place}.type", "Parts are 'text', 'image' and 'document'.")
    return "\n".join(texts), files


def _media(part: Mapping[str, Any], path: str, *, is_image: bool) -> GivenFile:
    source = part.get("source")
    if not isinstance(source, Mapping):
        refuse(f"{path}.source", "A source is an object.")
    kind, place = source.get("type"), f"{path}.source"
    value = required(source, "value", place)
    if not isinstance(kind, str) or kind not in _KINDS:
        refuse(f"{place}.type", "Sources are 'data', 'url' and 'file'.")
    return _file(_KINDS[kind], value, f"{place}.value", name=_name(part), is_image=is_image)


def _binary(part: Mapping[str, Any], path: str) -> GivenFile:
    """Parse a part in the format before AG-UI 1.0, which many clients still send."""
    is_image = str(part.get("mimeType", "")).startswith("image/")
    name = part.get("filename")
    named = name if isinstance(name, str) else None
    field = next((each for each in ("data", "id") if part.get(each) is not None), "url")
    value = required(part, field, path)
    return _file(f"file_{field}", value, f"{path}.{field}", name=named, is_image=is_image)


def _file(field: str, value: str, path: str, *, name: str | None, is_image: bool) -> GivenFile:
    source = source_of(field, value, path, is_image=is_image)
    return GivenFile(path=path, source=source, name=name, is_image=is_image)


def _name(part: Mapping[str, Any]) -> str | None:
    about = part.get("metadata")
    if not isinstance(about, Mapping):
        return None
    name = about.get("name", about.get("filename"))
    return name if isinstance(name, str) else None
