"""Provides the services of sessions' files: attachments, records, the clock of shared data."""

import time
from collections.abc import Mapping
from pathlib import Path

from mochi_project.app import Factory, Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.principal import DEFAULT_OWNER
from sessions_app.attachments.file_store import FileAttachmentStore
from sessions_app.attachments.service import AttachmentService
from sessions_app.attachments.session_directories import SessionDirectories
from sessions_app.attachments.store import AttachmentStore
from sessions_app.attachments.sweeping import SweepTimes
from sessions_app.http.places import ListPlaces
from sessions_app.ids_and_clock import SharedClock
from sessions_app.settings import SessionsSettings
from sessions_app.store.file_records import FileRecords
from sessions_app.store.records import DOCUMENT_LIMIT, Records, RecordStores


class FileRecordStores:
    """Implements ``RecordStores`` with directories."""

    def open(
        self,
        directory: Path,
        folder: str,  # noqa: ARG002 - of objects
        *,
        durable: bool = True,
        owner: str = DEFAULT_OWNER,  # noqa: ARG002 - of objects
        limit: int = DOCUMENT_LIMIT,
    ) -> Records:
        """Return the records in a directory; opens nothing."""
        return FileRecords(directory, limit=limit, durable=durable)

    def open_one(self, directory: Path, name: str) -> Records:
        """Return the records of which only one exists; opens nothing."""
        return FileRecords(directory, names=name, durable=False)


def attachments_dir(settings: AppSettings) -> Path:
    """Return the directory of attachments, if they are stored as files."""
    return settings.resolved_data_dir / "attachments"


def session_directories(settings: SessionsSettings) -> SessionDirectories | None:
    """Return the records of who uses the attachments; None where sessions are objects beside them.

    Ephemeral sessions are left out: all servers of a data directory have the same.
    """
    return None if settings.sessions_url is not None else _session_directories(settings)


def _session_directories(settings: SessionsSettings) -> SessionDirectories:
    own = [settings.resolved_sessions_dir, settings.resolved_agent_chats_dir]
    return SessionDirectories(attachments_dir(settings), own)


def file_attachments(settings: SessionsSettings) -> FileAttachmentStore:
    """Return the store of attachments as files."""
    directories = _session_directories(settings)
    return FileAttachmentStore(attachments_dir(settings), note_use=directories.note)


def _attachments(services: Services) -> AttachmentService:
    most = services.get(SessionsSettings).max_attachment_bytes
    return AttachmentService(services.get(AttachmentStore), max_bytes=most)


FACTORIES: Mapping[type | str, Factory] = {
    RecordStores: lambda _: FileRecordStores(),
    SharedClock: lambda _: time.time,
    ListPlaces: lambda _: ListPlaces(),
    SweepTimes: lambda _: SweepTimes(),
}
OWNED: Mapping[type | str, Factory] = {
    AttachmentStore: lambda services: file_attachments(services.get(SessionsSettings)),
    AttachmentService: _attachments,
}
