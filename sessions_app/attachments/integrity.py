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
MOST_HASHED = 64 << 20
_PIECE_BYTES = 1 << 20


class AttachmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of looking at attachments.

    Attributes:
        files: How many are there.
        size: Of all, in bytes.
        hashed: How many of them were read: those that were used last.
        damaged: The ids of those that are not what their names, or messages, say.
        missing: The ids that messages refer to and that are not there, each with its session.
        unfinished: How many uploads were left half-written; the next sweep removes them.
    """

    files: int
    size: int
    hashed: int
    damaged: Sequence[str]
    missing: Mapping[str, str]
    unfinished: int


def check_attachments(
    store: AttachmentStore,
    repositories: Sequence[SessionRepository],
    *,
    most_sessions: int = MOST_SESSIONS,
    most_hashed: int = MOST_HASHED,
) -> AttachmentReport:
    """Look at all files, read the newest, and look for those that sessions refer to. Blocks.

    Args:
        store: The files.
        repositories: Who may refer to them.
        most_sessions: So many sessions of each repository are read: those that changed last.
        most_hashed: So many bytes of files are read.

    Raises:
        StorageError: The store can't be asked.
    """
    listed = {file.id: file for file in store.list()}
    damaged = {file.id for file in listed.values() if not file.size}
    missing = {}
    for session_id, attachment in _references(repositories, most_sessions):
        file = listed.get(attachment.id)
        if file is None:
            missing[attachment.id] = session_id
        elif file.size != attachment.size:
            damaged.add(file.id)
    hashed = 0
    for file in _newest(listed.values(), most_hashed):
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


def _references(
    repositories: Sequence[SessionRepository], most_sessions: int
) -> Iterator[tuple[str, Attachment]]:
    """Yield what the sessions that changed last refer to, each after its session's id."""
    for repository in repositories:
        listed = repository.list().sessions
        newest = sorted(listed, key=lambda metadata: metadata.updated_at, reverse=True)
        for metadata in newest[:most_sessions]:
            try:
                messages = repository.load(metadata.session_id).messages
            except (SessionCorrupt, SessionNotFound):  # the check of sessions tells of them
                continue
            for attachment in attachments_in(messages):
                yield metadata.session_id, attachment


def _newest(files: Iterable[ListedFile], most_bytes: int) -> Iterator[ListedFile]:
    for file in sorted(files, key=lambda file: file.written_at, reverse=True):
        most_bytes -= file.size
        if most_bytes < 0:
            return
        yield file


def _is_whole(store: AttachmentStore, attachment_id: str) -> bool:
    """Return whether a file has the bytes that its name says; whether it is gone by now, too."""
    digest, start = hashlib.sha256(), 0
    try:
        while piece := store.read(attachment_id, start, _PIECE_BYTES):
            digest.update(piece)
            start += len(piece)
    except AttachmentNotFound:
        return True
    return attachment_id == f"sha256:{digest.hexdigest()}"
