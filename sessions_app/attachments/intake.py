"""Resolves the attachments of a request to references: uploaded files, or bytes that it brings."""

from collections.abc import Sequence

import msgspec

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import AttachmentNotFound, AttachmentTooLarge, ValidationFailed
from sessions_app.messages import Attachment


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was uploaded before, and what to call it."""

    id: str
    name: str | None = None


class Inline(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the request itself brings, and what to call it.

    Attributes:
        data: Its bytes, or base64 of them, which may be a data URL.
        name: What to call it; the last part counts.
    """

    data: bytes | str
    name: str | None = None


GivenAttachment = Reference | Inline


async def resolve(
    service: AttachmentService,
    given: Sequence[GivenAttachment],
    *,
    max_count: int,
    field: str = "attachments",
) -> tuple[Attachment, ...]:
    """Return references to what is given; bytes are kept, and files counted as used now.

    Args:
        service: Who keeps files.
        given: Files that are there, and bytes.
        max_count: How many a message may have.
        field: What errors call the list.

    Raises:
        ValidationFailed: These are too many, or one is no image, no PDF and no text.
        AttachmentTooLarge: One is too large.
        AttachmentNotFound: There is no such file.
        StorageError: The store can't be asked, or takes nothing more.
    """
    if len(given) > max_count:
        raise ValidationFailed(
            f"A message may have {max_count} attachments; this has {len(given)} "
            "(MOCHI_MAX_ATTACHMENTS).",
            field=field,
        )
    found = []
    for number, one in enumerate(given):
        try:
            found.append(await _kept(service, one))
        except (AttachmentNotFound, AttachmentTooLarge, ValidationFailed) as error:
            error.details["field"] = f"{field}.{number}"
            raise
    return tuple(found)


async def _kept(service: AttachmentService, given: GivenAttachment) -> Attachment:
    if isinstance(given, Reference):
        return await service.refer(given.id, name=given.name)
    if isinstance(given.data, str):
        return await service.keep_base64(given.data, name=given.name)
    return await service.keep(given.data, name=given.name)
