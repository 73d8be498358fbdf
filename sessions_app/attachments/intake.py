"""Resolves the attachments of a request to references: uploaded files or inline bytes."""

from collections.abc import Sequence

import msgspec

from sessions_app.attachments.service import AttachmentService
from sessions_app.errors import AttachmentNotFound, AttachmentTooLarge, ValidationFailed
from sessions_app.messages import Attachment


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """An uploaded file with a display name."""

    id: str
    name: str | None = None


class Inline(msgspec.Struct, frozen=True, kw_only=True):
    """A file sent within the request, with a display name.

    Attributes:
        data: The bytes, or base64, which may be a data URL.
        name: The display name; of a path, the last part.
    """

    data: bytes | str
    name: str | None = None


GivenAttachment = Reference | Inline


async def resolve(
    service: AttachmentService,
    uploads: Sequence[GivenAttachment],
    *,
    max_count: int,
    field: str = "attachments",
) -> tuple[Attachment, ...]:
    """Resolve attachments to references; store inline bytes, and set the last use of files to now.

    Args:
        service: Stores files.
        uploads: Uploaded files and inline bytes.
        max_count: The maximum number of attachments of a message.
        field: The name of the list in errors.

    Raises:
        ValidationFailed: There are too many, or one is neither image, PDF nor text.
        AttachmentTooLarge: One is too large.
        AttachmentNotFound: An uploaded file does not exist.
        StorageError: The store can't be reached or written to.
    """
    if len(uploads) > max_count:
        raise ValidationFailed(
            f"A message may have {max_count} attachments; this has {len(uploads)} "
            "(MOCHI_MAX_ATTACHMENTS).",
            field=field,
        )
    found = []
    for number, one in enumerate(uploads):
        try:
            found.append(await _kept(service, one))
        except (AttachmentNotFound, AttachmentTooLarge, ValidationFailed) as error:
            error.details["field"] = f"{field}.{number}"
            raise
    return tuple(found)


async def _kept(service: AttachmentService, upload: GivenAttachment) -> Attachment:
    if isinstance(upload, Reference):
        return await service.refer(upload.id, name=upload.name)
    if isinstance(upload.data, str):
        return await service.keep_base64(upload.data, name=upload.name)
    return await service.keep(upload.data, name=upload.name)
