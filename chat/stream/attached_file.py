"""Declares an image or a file as events show it."""

from collections.abc import Sequence

import msgspec

from sessions_app.messages import Attachment


class AttachedFile(Attachment, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """An image or a file, by reference: ``GET /attachments/{id}`` has its bytes."""

    @staticmethod
    def of(attachments: Sequence[Attachment]) -> "tuple[AttachedFile, ...]":
        """Return a message's attachments in the form of events."""
        return tuple(AttachedFile(**msgspec.structs.asdict(each)) for each in attachments)
