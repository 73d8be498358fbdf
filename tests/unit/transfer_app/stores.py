"""A store of attachments in memory, and sessions that refer to what is in it."""

import hashlib
import io
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from sessions_app.attachments.media_type import image_size, media_type
from sessions_app.attachments.store import StoredFile
from sessions_app.errors import AttachmentNotFound, AttachmentTooLarge, ValidationFailed
from sessions_app.messages import Attachment, Message, UserMessage
from sessions_app.service import SessionManager
from sessions_app.session import Session, append_messages
from transfer_app.writing import kept_files, session_entries, zip_pieces

NOW = "2026-11-21T10:00:00.000000+00:00"


class MemoryStore:
    """Keeps attachments in memory.

    Attributes:
        files: What it keeps, by id.
        renewed: What was renewed.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.renewed: list[str] = []

    def begin(self, *, max_bytes: int) -> "_Writer":
        return _Writer(self.files, max_bytes)

    def stat(self, attachment_id: str) -> StoredFile:
        return facts(self.read(attachment_id))

    def read(self, attachment_id: str, start: int = 0, length: int | None = None) -> bytes:
        try:
            data = self.files[attachment_id]
        except KeyError:
            raise AttachmentNotFound(attachment_id) from None
        return data[start : None if length is None else start + length]

    def renew(self, attachment_ids: Collection[str]) -> None:
        self.renewed += attachment_ids

    def sweep(
        self, referenced: Callable[[], Collection[str] | None], *, older_than_seconds: float
    ) -> int:
        raise NotImplementedError

    def keep(self, data: bytes) -> str:
        writer = self.begin(max_bytes=len(data))
        writer.write(data)
        return writer.finish().id


class _Writer:
    def __init__(self, files: dict[str, bytes], max_bytes: int) -> None:
        self._files, self._max_bytes, self._data = files, max_bytes, b""

    def write(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._max_bytes:
            raise AttachmentTooLarge(self._max_bytes)

    def finish(self) -> StoredFile:
        file = facts(self._data, is_new=id_of(self._data) not in self._files)
        self._files[file.id] = self._data
        return file

    def abandon(self) -> None:
        self._data = b""


def id_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def facts(data: bytes, *, is_new: bool = False) -> StoredFile:
    kind = media_type(io.BytesIO(data))
    if kind is None:
        raise ValidationFailed("Of no kind.")
    size = image_size(io.BytesIO(data), kind)
    return StoredFile(
        id=id_of(data),
        media_type=kind,
        size=len(data),
        width=size.width if size else None,
        height=size.height if size else None,
        is_new=is_new,
    )


def reference(data: bytes, name: str = "cat.png") -> Attachment:
    file = facts(data)
    return Attachment(
        id=file.id,
        name=name,
        media_type=file.media_type,
        size=file.size,
        width=file.width,
        height=file.height,
    )


def question(*attachments: Attachment, content: str = "What is this?") -> UserMessage:
    return UserMessage(content=content, message_id="1", timestamp=NOW, attachments=attachments)


def session_of(manager: SessionManager, *messages: Message) -> Session:
    made = manager.create("m")
    return manager.change(
        made.session_id, lambda session: append_messages(session, *messages, now=NOW)
    )


def archive_of(session: Session, store: MemoryStore) -> bytes:
    return b"".join(archive_pieces(session, store))


def archive_pieces(session: Session, store: MemoryStore) -> Iterator[bytes]:
    files, _ = kept_files(session, store)
    return zip_pieces(session_entries(session, files, store))


def manager_in(folder: Path) -> SessionManager:
    return SessionManager(folder / "chat_sessions")
