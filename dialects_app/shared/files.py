"""Parses the parts of messages that are images or files. Pure.

A part has the id of a stored file, the file as base64, or a URL. Its declared type is ignored, as
the type is detected from the content. Until the file is stored, a message refers to it by the path
of its part in the request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from dialects_app.shared.fields import refuse
from sessions_app.attachments.base64_text import InvalidBase64, begin_of_base64
from sessions_app.messages import Attachment, Message, ToolMessage, UserMessage

FILE_PARTS = frozenset({"image_url", "file", "input_image", "input_file"})

AnyMessage = TypeVar("AnyMessage", bound=Message)


class FetchRefused(Exception):
    """A URL must not be fetched; the message says why."""


class FetchFailed(Exception):
    """A URL could not be fetched; the message says why."""


class StoredSource(msgspec.Struct, frozen=True):
    """The id of an uploaded file."""

    id: str


class InlineSource(msgspec.Struct, frozen=True):
    """A base64-encoded file: the text from ``begin`` on, without a copy."""

    text: str
    begin: int = 0


class RemoteSource(msgspec.Struct, frozen=True):
    """The ``http`` or ``https`` URL of a file."""

    url: str


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a part.

    Attributes:
        path: The path of its source in the request, by which messages refer to it.
        source: The source of its bytes.
        name: The client's name for it.
        is_image: Whether it must be an image.
    """

    path: str
    source: StoredSource | InlineSource | RemoteSource
    name: str | None = None
    is_image: bool = False

    def refuse(self, message: str, problem: str) -> NoReturn:
        """Refuse the file; the problem is OpenAI's name of what is wrong with an image."""
        refuse(self.path, message, **({"problem": problem} if self.is_image else {}))

    def placeholder(self) -> Attachment:
        """Return the placeholder for the file until it is stored."""
        return Attachment(id=self.path, name="", media_type="", size=0)


def given_file(part: Mapping[str, Any], path: str) -> GivenFile:
    """Parse a part whose ``type`` is one of ``FILE_PARTS``.

    Args:
        part: The part.
        path: Its path in the request.

    Raises:
        ValidationFailed: It has no file, or several.
    """
    kind = part["type"]
    is_image = kind in ("image_url", "input_image")
    if kind in ("image_url", "file"):
        inner = part.get(kind)
        path = f"{path}.{kind}"
        if kind == "image_url" and isinstance(inner, str):
            inner, part = {"url": inner}, {"url": inner}
        if not isinstance(inner, Mapping):
            refuse(path, f"Missing required parameter: '{path}'.")
        part = inner
    name = part.get("filename")
    field, value = _only_source(part, path, ("url",) if kind == "image_url" else _SOURCES)
    return GivenFile(
        path=f"{path}.{field}",
        source=source_of(field, value, f"{path}.{field}", is_image=is_image),
        name=name if isinstance(name, str) else None,
        is_image=is_image,
    )


_SOURCES = ("file_id", "file_data", "image_url", "file_url")


def _only_source(part: Mapping[str, Any], path: str, names: Sequence[str]) -> tuple[str, str]:
    given = [(name, part[name]) for name in names if part.get(name) is not None]
    if not given:
        missing = f"{path}.{names[0]}"
        refuse(missing, f"Missing required parameter: '{missing}'.")
    field, value = given[0]
    if len(given) > 1:
        refuse(path, f"Only one of '{field}' and '{given[1][0]}' can be given.")
    if not isinstance(value, str):
        refuse(f"{path}.{field}", f"Invalid type for '{path}.{field}': expected a string.")
    return field, value


def source_of(
    field: str, value: str, path: str, *, is_image: bool
) -> StoredSource | InlineSource | RemoteSource:
    """Return the source of a file's bytes.

    Args:
        field: ``file_id``, ``file_data`` for base64, or ``file_url``, of which a data URL is one.
        value: Its value.
        path: Its path in the request.
        is_image: Whether it must be an image.

    Raises:
        ValidationFailed: It is not a URL that can be read.
    """
    if field == "file_id":
        return StoredSource(value)
    scheme = value[:8].lower()
    if scheme.startswith("data:"):
        return InlineSource(value, _begin_of_base64(value, path, is_image=is_image))
    if field == "file_data":
        return InlineSource(value)
    if not scheme.startswith(("http://", "https://")):
        refuse(
            path,
            "A URL begins with 'data:', 'https://' or 'http://'.",
            **({"problem": "invalid_image_url"} if is_image else {}),
        )
    return RemoteSource(value)


def _begin_of_base64(url: str, path: str, *, is_image: bool) -> int:
    try:
        return begin_of_base64(url)
    except InvalidBase64 as error:
        refuse(path, str(error), **({"problem": "invalid_base64_image"} if is_image else {}))


def with_files(
    messages: Sequence[AnyMessage], attachments: Mapping[str, Attachment]
) -> Sequence[AnyMessage]:
    """Return the messages with their attachments instead of placeholders.

    Args:
        messages: The messages.
        attachments: The attachments, by path.
    """
    return [_with_files(message, attachments) for message in messages] if attachments else messages


def _with_files(message: AnyMessage, attachments: Mapping[str, Attachment]) -> AnyMessage:
    if not isinstance(message, UserMessage | ToolMessage) or not message.attachments:
        return message
    stored = tuple(attachments[each.id] for each in message.attachments)
    return msgspec.structs.replace(message, attachments=stored)
