"""Cleans the names of attachments, which are shown and never used as paths."""

from pathlib import PurePosixPath

from sessions_app.attachments import media_type as types
from sessions_app.messages import Attachment

NAME_LENGTH = 255
SUFFIXES = {
    types.PNG: "png",
    types.JPEG: "jpg",
    types.GIF: "gif",
    types.WEBP: "webp",
    types.HEIC: "heic",
    types.PDF: "pdf",
    types.TEXT: "txt",
}


def checked_name(name: str | None, media_type: str) -> str:
    """Return a safe display name for an attachment: the last part of the client's name, cleaned.

    Args:
        name: The client's name; if None or unusable, the result is derived from the type.
        media_type: The detected media type.
    """
    last = PurePosixPath((name or "").replace("\\", "/")).name
    cleaned = "".join(letter for letter in last if letter.isprintable()).strip(" .")
    if not cleaned:
        kind = "image" if media_type in types.IMAGES else "file"
        return f"{kind}.{SUFFIXES[media_type]}"
    if len(cleaned) <= NAME_LENGTH:
        return cleaned
    stem, dot, suffix = cleaned.rpartition(".")
    if not dot or len(suffix) > 16:
        return cleaned[:NAME_LENGTH]
    return f"{stem[: NAME_LENGTH - len(suffix) - 1]}.{suffix}"


def mention(attachment: Attachment, *, left_out: bool = False) -> str:
    """Return the text that replaces an attachment: ``[image cat.png]``.

    Args:
        attachment: The attachment.
        left_out: Whether the text also says that it was left out.
    """
    kind = "image" if attachment.media_type in types.IMAGES else "file"
    return f"[{kind} {attachment.name}{' left out' if left_out else ''}]"
