"""Cleans the names of attachments, which are shown and never used as paths."""

from pathlib import PurePosixPath

from sessions_app.attachments import media_type as types
from sessions_app.messages import Attachment

NAME_LENGTH = 255
_SUFFIXES = {
    types.PNG: "png",
    types.JPEG: "jpg",
    types.GIF: "gif",
    types.WEBP: "webp",
    types.HEIC: "heic",
    types.PDF: "pdf",
    types.TEXT: "txt",
}


def checked_name(name: str | None, media_type: str) -> str:
    """Return a name for an attachment: the last part of what a client calls it, made harmless.

    Args:
        name: What a client calls it; None or nothing usable gives a name by the type.
        media_type: What its bytes are.
    """
    last = PurePosixPath((name or "").replace("\\", "/")).name
    cleaned = "".join(letter for letter in last if letter.isprintable()).strip(" .")
    if not cleaned:
        kind = "image" if media_type in types.IMAGES else "file"
        return f"{kind}.{_SUFFIXES[media_type]}"
    if len(cleaned) <= NAME_LENGTH:
        return cleaned
    stem, dot, suffix = cleaned.rpartition(".")
    if not dot or len(suffix) > 16:
        return cleaned[:NAME_LENGTH]
    return f"{stem[: NAME_LENGTH - len(suffix) - 1]}.{suffix}"


def mention(attachment: Attachment, *, left_out: bool = False) -> str:
    """Return the words for an attachment where it is not shown itself: ``[image cat.png]``.

    Args:
        attachment: The attachment.
        left_out: Whether they also say that it was left out.
    """
    kind = "image" if attachment.media_type in types.IMAGES else "file"
    return f"[{kind} {attachment.name}{' left out' if left_out else ''}]"
