"""Reads archives of sessions, whose content is untrusted.

An archive is checked completely before anything is used. Entry names are never used as paths, sizes
must match the declared and allowed ones, and attachments must match their digests.
"""

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from sessions_app.errors import SessionCorrupt, ValidationFailed
from sessions_app.format.codec import decode
from sessions_app.session import Session, has_known_format
from sessions_app.store.envelope import opened
from transfer_app.bounded_zip import BoundedZip, Limits
from transfer_app.layout import (
    ID_PREFIX,
    attachment_named,
    attachments_of,
    session_named,
)


class SessionArchive:
    """A completely checked archive. Calls block.

    Args:
        file: The zip file, which must be seekable.
        limits: The limits.

    Attributes:
        session_ids: The sessions.
        attachment_ids: The attachments that sessions refer to.
        left_out: The names of all other files.

    Raises:
        ValidationFailed: The archive is invalid, exceeds a limit, or has no sessions.
    """

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._limits = limits
        self._zip = BoundedZip(file, limits)
        entries = self._zip.files
        sessions = _by_id(entries, session_named)
        attachments = _by_id(entries, attachment_named)
        if not sessions:
            raise ValidationFailed("The file holds no session of this server's kind.")
        self._sessions = sessions
        referred = {each.id for id_ in sessions for each in attachments_of(self.session(id_))}
        self._attachments = {id_: entry for id_, entry in attachments.items() if id_ in referred}
        for attachment_id in self._attachments:
            self._check_attachment(attachment_id)
        self.session_ids: Sequence[str] = tuple(sessions)
        self.attachment_ids = frozenset(self._attachments)
        self.left_out: Sequence[str] = _left_out(entries, sessions, self._attachments)

    def session(self, session_id: str) -> Session:
        """Return one of the sessions."""
        data = b"".join(
            self._zip.pieces(self._sessions[session_id], most=self._limits.session_bytes)
        )
        try:
            found, _ = opened(decode(data, session_id))
        except SessionCorrupt as error:
            raise ValidationFailed(
                f"Session {session_id} of the file can't be read: {error.reason}."
            ) from error
        if not has_known_format(found.metadata):
            raise ValidationFailed(
                f"Session {session_id} of the file has a format that is newer than this server's."
            )
        return found

    def pieces(self, attachment_id: str) -> Iterator[bytes]:
        """Yield the bytes of an attachment."""
        most = self._limits.attachment_bytes
        yield from self._zip.pieces(self._attachments[attachment_id], most=most)

    def _check_attachment(self, attachment_id: str) -> None:
        digest = hashlib.sha256()
        for piece in self.pieces(attachment_id):
            digest.update(piece)
        if f"{ID_PREFIX}{digest.hexdigest()}" != attachment_id:
            raise ValidationFailed(f"The file is broken: {attachment_id} has other bytes.")


def _by_id(
    entries: Sequence[zipfile.ZipInfo], id_of: Callable[[str], str | None]
) -> dict[str, zipfile.ZipInfo]:
    return {id_: entry for entry in entries if (id_ := id_of(entry.filename)) is not None}


def _left_out(
    entries: Sequence[zipfile.ZipInfo], *used: Mapping[str, zipfile.ZipInfo]
) -> Sequence[str]:
    names = {entry.filename for those in used for entry in those.values()}
    return tuple(entry.filename for entry in entries if entry.filename not in names)
