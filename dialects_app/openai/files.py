"""Reads the parts of messages that are images or files. Pure.

A part names its file by an id of this server, brings it as base64, or names where it is. What it
says of the type is not read: the bytes tell it. Until the bytes are kept, a message refers to a
file by where its part stands in the request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from sessions_app.attachments.base64_text import InvalidBase64, begin_of_base64
from sessions_app.errors import ValidationFailed
from sessions_app.messages import Attachment, Message, ToolMessage, UserMessage

FILE_PARTS = frozenset({"image_url", "file", "input_image", "input_file"})

AnyMessage = TypeVar("AnyMessage", bound=Message)


class StoredSource(msgspec.Struct, frozen=True):
    """A file that was uploaded before, by its id."""

    id: str


class InlineSource(msgspec.Struct, frozen=True):
    """A file in base64: all of a text from ``begin`` on, which is not copied."""

    text: str
    begin: int = 0


class RemoteSource(msgspec.Struct, frozen=True):
    """A file elsewhere, by its ``http`` or ``https`` URL."""

    url: str


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a part gives it.

    Attributes:
        path: Where its source stands in the request; messages refer to it by this.
        source: Where its bytes are.
        name: What the client calls it.
        is_image: Whether nothing but an image is taken.
    """

    path: str
    source: StoredSource | InlineSource | RemoteSource
    name: str | None = None
    is_image: bool = False

    def placeholder(self) -> Attachment:
        """Return what a message refers to it by until its bytes are kept."""
        return Attachment(id=self.path, name="", media_type="", size=0)


def given_file(part: Mapping[str, Any], path: str) -> GivenFile:
    """Read a part whose ``type`` is one of ``FILE_PARTS``.

    Args:
        part: The part.
        path: Where it stands in the request.

    Raises:
        ValidationFailed: It names no file, or several.
    """
    kind = part["type"]
    is_image = kind in ("image_url", "input_image")
    if kind in ("image_url", "file"):
        inner = part.get(kind)
        path = f"{path}.{kind}"
        if kind == "image_url" and isinstance(inner, str):
            inner, part = {"url": inner}, {"url": inner}
        if not isinstance(inner, Mapping):
            refuse_file(path, f"Missing required parameter: '{path}'.")
        part = inner
    name = part.get("filename")
    field, value = _only_source(part, path, ("url",) if kind == "image_url" else _SOURCES)
    return GivenFile(
        path=f"{path}.{field}",
        source=_source(field, value, f"{path}.{field}", is_image=is_image),
        name=name if isinstance(name, str) else None,
        is_image=is_image,
    )


_SOURCES = ("file_id", "file_data", "image_url", "file_url")


def _only_source(part: Mapping[str, Any], path: str, names: Sequence[str]) -> tuple[str, str]:
    given = [(name, part[name]) for name in names if part.get(name) is not None]
    if not given:
        missing = f"{path}.{names[0]}"
        refuse_file(missing, f"Missing required parameter: '{missing}'.")
    field, value = given[0]
    if len(given) > 1:
        refuse_file(path, f"Only one of '{field}' and '{given[1][0]}' can be given.")
    if not isinstance(value, str):
        refuse_file(f"{path}.{field}", f"Invalid type for '{path}.{field}': expected a string.")
    return field, value


def _source(
    field: str, value: str, path: str, *, is_image: bool
) -> StoredSource | InlineSource | RemoteSource:
    if field == "file_id":
        return StoredSource(value)
    scheme = value[:8].lower()
    if scheme.startswith("data:"):
        return InlineSource(value, _begin_of_base64(value, path, is_image=is_image))
    if field == "file_data":
        return InlineSource(value)
    if not scheme.startswith(("http://", "https://")):
        refuse_file(
            path,
            "A URL begins with 'data:', 'https://' or 'http://'.",
            problem="invalid_image_url" if is_image else None,
        )
    return RemoteSource(value)


def _begin_of_base64(url: str, path: str, *, is_image: bool) -> int:
    try:
        return begin_of_base64(url)
    except InvalidBase64 as error:
        problem = "invalid_base64_image" if is_image else None
        refuse_file(path, str(error), problem=problem)


def with_files(
    messages: Sequence[AnyMessage], kept: Mapping[str, Attachment]
) -> Sequence[AnyMessage]:
    """Return the messages with their attachments instead of placeholders.

    Args:
        messages: The messages.
        kept: The attachments, by the paths of their files.
    """
    return [_with_files(message, kept) for message in messages] if kept else messages


def _with_files(message: AnyMessage, kept: Mapping[str, Attachment]) -> AnyMessage:
    if not isinstance(message, UserMessage | ToolMessage) or not message.attachments:
        return message
    attachments = tuple(kept[each.id] for each in message.attachments)
    return msgspec.structs.replace(message, attachments=attachments)


def refuse_file(path: str, message: str, *, problem: str | None = None) -> NoReturn:
    """Refuse a file.

    Args:
        path: Where it stands in the request.
        message: Why, for people.
        problem: The same as OpenAI's code for an image, if it has one.

    Raises:
        ValidationFailed: Always.
    """
    details = {} if problem is None else {"problem": problem}
    raise ValidationFailed(message, field=path, **details)
