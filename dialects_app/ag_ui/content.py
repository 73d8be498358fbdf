"""Parses the content of messages: text, images and files. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from dialects_app.shared.fields import refuse, required
from dialects_app.shared.files import GivenFile, InlineSource, StoredSource, given_file
from sessions_app.errors import ValidationFailed

_MEDIA = frozenset({"image", "audio", "video", "document"})


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
    place = f"{path}.source"
    kind, value, name = source.get("type"), required(source, "value", place), _name(part)
    if kind == "url":
        return _by_url(value, f"{place}.value", name=name, is_image=is_image)
    if kind not in ("data", "file"):
        refuse(f"{place}.type", "Sources are 'data', 'url' and 'file'.")
    kept = InlineSource(value) if kind == "data" else StoredSource(value)
    return GivenFile(path=f"{place}.value", source=kept, name=name, is_image=is_image)


def _binary(part: Mapping[str, Any], path: str) -> GivenFile:
    """Parse a part in the format before AG-UI 1.0, which many clients still send."""
    is_image = str(part.get("mimeType", "")).startswith("image/")
    name = part.get("filename")
    named = name if isinstance(name, str) else None
    if part.get("data") is not None:
        source: InlineSource | StoredSource = InlineSource(required(part, "data", path))
        return GivenFile(path=f"{path}.data", source=source, name=named, is_image=is_image)
    if part.get("id") is not None:
        source = StoredSource(required(part, "id", path))
        return GivenFile(path=f"{path}.id", source=source, name=named, is_image=is_image)
    return _by_url(required(part, "url", path), f"{path}.url", name=named, is_image=is_image)


def _by_url(url: str, path: str, *, name: str | None, is_image: bool) -> GivenFile:
    """Parse a URL, which may be a data URL."""
    try:
        read = given_file({"type": "input_file", "file_url": url}, path)
    except ValidationFailed as error:
        error.details["field"] = path
        raise
    return GivenFile(path=path, source=read.source, name=name, is_image=is_image)


def _name(part: Mapping[str, Any]) -> str | None:
    about = part.get("metadata")
    if not isinstance(about, Mapping):
        return None
    name = about.get("name", about.get("filename"))
    return name if isinstance(name, str) else None
