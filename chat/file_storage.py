"""Implements the storage engine with files, for the processes of one machine."""

import time
from collections.abc import Callable

from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore, Notice
from chat.conversation_storage import Locations
from chat.settings import ChatSettings
from chat.storage.files.journals import FileTurnJournal
from chat.storage.journal import TurnJournal
from chat.storage.records import TURN_RECORDS
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.records import Records
from sessions_app.store.repository import SessionRepository


class FileStorageEngine:
    """Implements ``StorageEngine`` with files. Opens nothing before it is used."""

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings

    def place(self, locations: Locations) -> str:
        """Return the directory of the sessions."""
        return str(locations.sessions_dir)

    def journal(self, locations: Locations) -> TurnJournal:
        """Return the journals of turns."""
        return FileTurnJournal(locations.journals_dir, locations.sessions_dir)

    def repository(
        self, locations: Locations, journal: TurnJournal, *, durable: bool
    ) -> SessionRepository:
        """Return the sessions."""
        return FileSessionRepository(
            locations.sessions_dir, is_over=journal.was_closed, durable=durable
        )

    def records(self, locations: Locations) -> Records:
        """Return the records of requests in other protocols."""
        return FileRecords(locations.records_dir, names=TURN_RECORDS, durable=False)

    def confirmation_store(
        self, locations: Locations, notice: Notice | None = None
    ) -> ConfirmationStore:
        """Return the approval requests and their answers."""
        return ConfirmationStore(
            FileRecords(locations.approvals_dir, names=CONFIRMATION_RECORDS),
            timeout_seconds=self._settings.tool_confirmation_timeout_seconds,
            notice=notice,
        )

    def clock(self) -> Callable[[], float]:
        """Return this machine's clock."""
        return time.time

    def may_list_records(self) -> Callable[[], bool]:
        """Return that a search of all records may always be made."""
        return lambda: True
