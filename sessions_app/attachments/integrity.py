"""Finds attachments that are damaged, missing or half-written, for ``mochi-server doctor``."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from sessions_app.attachments.references import attachments_in
from sessions_app.attachments.store import AttachmentStore, ListedFile
from sessions_app.attachments.sweeping import HOUR
from sessions_app.errors import AttachmentNotFound, SessionCorrupt, SessionNotFound
from sessions_app.messages import Attachment
from sessions_app.store.repository import SessionRepository

MOST_SESSIONS = 200
"""The maximum number of sessions to read of each repository, newest first."""
MOST_HASHED = 64 << 20
"""The maximum bytes of files to read."""
_PIECE_BYTES = 1 << 20


class AttachmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking attachments.

    Attributes:
        files: The number of files.
        size: The total size in bytes.
        hashed: The number of files whose content was checked: the most recently used ones.
        damaged: The ids of files whose content does not match their id or a message.
        missing: The ids of missing files, each with the id of a session that refers to it.
        unfinished: The number of incomplete uploads, which the next sweep removes.
    """

    files: int
    size: int
    hashed: int
    damaged: Sequence[str]
    missing: Mapping[str, str]
    unfinished: int


def check_attachments(
    store: AttachmentStore, repositories: Sequence[SessionRepository]
) -> AttachmentReport:
    """Check the newest files, and that files referred to by recent sessions exist. Blocks.

    Args:
        store: The files.
        repositories: The sessions that may refer to them.

    Raises:
        StorageError: The store can't be reached.
    """
    listed = {file.id: file for file in store.list()}
    damaged = {file.id for file in listed.values() if not file.size}
    missing = {}
    for session_id, attachment in _references(repositories):
        file = listed.get(attachment.id)
        if file is None:
            missing[attachment.id] = session_id
        elif file.size != attachment.size:
            damaged.add(file.id)
    hashed = 0
    for file in _newest(listed.values()):
        hashed += 1
        if file.id not in damaged and not _is_whole(store, file.id):
            damaged.add(file.id)
    return AttachmentReport(
        files=len(listed),
        size=sum(file.size for file in listed.values()),
        hashed=hashed,
        damaged=sorted(damaged),
        missing=missing,
        unfinished=store.unfinished(older_than_seconds=HOUR),
    )


def _references(repositories: Sequence[SessionRepository]) -> Iterator[tuple[str, Attachment]]:
    """Yield (session id, attachment) for the most recently changed sessions."""
    for repository in repositories:
        for metadata in repository.list().sessions[:MOST_SESSIONS]:
            try:
                messages = repository.load(metadata.session_id).messages
            except (SessionCorrupt, SessionNotFound):  # the check of sessions reports them
                continue
            for attachment in attachments_in(messages):
                yield metadata.session_id, attachment


def _newest(files: Iterable[ListedFile]) -> Iterator[ListedFile]:
    most_bytes = MOST_HASHED
    for file in sorted(files, key=lambda file: file.written_at, reverse=True):
        most_bytes -= file.size
        if most_bytes < 0:
            return
        yield file


def _is_whole(store: AttachmentStore, attachment_id: str) -> bool:
    """Return whether a file's content matches its name; True if it was removed meanwhile."""
    digest, start = hashlib.sha256(), 0
    try:
        while piece := store.read(attachment_id, start, _PIECE_BYTES):
            digest.update(piece)
            start += len(piece)
    except AttachmentNotFound:
        return True
    return attachment_id == f"sha256:{digest.hexdigest()}"
