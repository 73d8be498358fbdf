"""Builds the storage of each kind of session from a storage engine."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from chat.activity.notes import ChangeNotes
from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore, Notice
from chat.remote.continuing import ContinuingRules
from chat.remote.recovery import TurnRecovery
from chat.settings import ChatSettings
from chat.storage.change_log import ChangeLog
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.watcher import PathWatcher
from chat.storage.journal import TurnJournal
from chat.storage.records import TURN_RECORDS
from mochi_project.principal import DEFAULT_OWNER
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.settings import SessionsSettings
from sessions_app.store.file_owners import FileOwners
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.observer import UNOBSERVED, SessionObserver
from sessions_app.store.records import Records, unchanged_since
from sessions_app.store.repository import SessionRepository

UNCREATED_SECONDS = 3600.0
"""The age at which a session of which there are only records will not be created any more."""


class SessionKind(StrEnum):
    """The kinds of sessions: those of people, of agents, and those that are not kept."""

    CHAT = "chat"
    AGENT = "agent"
    EPHEMERAL = "ephemeral"


KEY_PREFIXES = {SessionKind.CHAT: "", SessionKind.AGENT: "a:", SessionKind.EPHEMERAL: "e:"}
"""The Redis key prefixes of the kinds, after that of the owner's keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Locates the data of a kind of session.

    Attributes:
        sessions_dir: The directory of session files.
        journals_dir: The directory of journals.
        records_dir: The directory of the records of requests in other protocols.
        approvals_dir: The directory of approvals; agents ask with the sessions that call them.
        owner: The owner of the data; the rest is where they are in a cluster.
        prefix: The Redis key prefix, after that of the owner's keys.
        approvals_prefix: The Redis key prefix of approvals.
        folder: The folder of sessions in an object store, below that of the owner.
        responses: The folder of records in an object store, likewise.
        processes_dir: The directory in which processes show that they live, if not that of the
            claims: a process has one file for all owners of data.
    """

    sessions_dir: Path
    journals_dir: Path
    records_dir: Path
    approvals_dir: Path
    owner: str
    prefix: str
    approvals_prefix: str
    folder: str
    responses: str
    processes_dir: Path | None = None


def locations_of(settings: SessionsSettings, kind: SessionKind) -> Locations:
    """Return where the data of a kind of session are."""
    if settings.owner != DEFAULT_OWNER:
        processes_dir = settings.for_owner(DEFAULT_OWNER).resolved_state_dir / "processes"
        return replace(_locations_of(settings, kind), processes_dir=processes_dir)
    return _locations_of(settings, kind)


def _locations_of(settings: SessionsSettings, kind: SessionKind) -> Locations:
    state = settings.resolved_state_dir
    if kind is SessionKind.EPHEMERAL:
        directory = state / "ephemeral"
        return Locations(
            sessions_dir=directory / "sessions",
            journals_dir=directory / "turns",
            records_dir=directory / "responses",
            approvals_dir=directory / "confirmations",
            owner=settings.owner,
            prefix=KEY_PREFIXES[kind],
            approvals_prefix="e:",
            folder="ephemeral",
            responses="ephemeral_responses",
        )
    is_agent = kind is SessionKind.AGENT
    return Locations(
        sessions_dir=(
            settings.resolved_agent_chats_dir if is_agent else settings.resolved_sessions_dir
        ),
        journals_dir=state / ("agent_turns" if is_agent else "turns"),
        records_dir=(
            state / "agent_responses" if is_agent else settings.resolved_data_dir / "responses"
        ),
        approvals_dir=state / "confirmations",
        owner=settings.owner,
        prefix=KEY_PREFIXES[kind],
        approvals_prefix="",
        folder="agents" if is_agent else "sessions",
        responses="agent_responses" if is_agent else "responses",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStorage:
    """Holds the stores of sessions of a kind, and of their turns' data.

    Attributes:
        place: The location of the sessions, as text for people.
        repository: The session store.
        journal: The journals of turns.
        recovery: Ends the turns of dead processes.
        records: The requests of turns in other protocols.
        confirmation_store: The approval requests and their answers.
        clock: The clock for the records.
        may_list_records: Returns whether a search of all records is due.
    """

    place: str
    repository: SessionRepository
    journal: TurnJournal
    recovery: TurnRecovery
    records: Records
    confirmation_store: ConfirmationStore
    clock: Callable[[], float]
    may_list_records: Callable[[], bool]

    def discard_orphans(self, older_than_seconds: float = UNCREATED_SECONDS) -> None:
        """Delete records of sessions that were deleted or never created. Blocks.

        Args:
            older_than_seconds: The minimum age, as the session may be about to be created.
        """
        if not self.may_list_records():
            return
        newest = self.clock() - older_than_seconds
        old = unchanged_since(self.records, newest, lambda name: name.partition("/")[0])
        listing = self.repository.list() if old else None
        if listing is None or not listing.complete:
            return
        known = {metadata.session_id for metadata in listing.sessions}
        known |= {item.file.removesuffix(".json") for item in listing.unreadable}
        for session_id in old.keys() - known:
            if self._is_gone(session_id):
                self.records.discard(session_id)

    def _is_gone(self, session_id: str) -> bool:
        """Return whether there is no such session; a listing may have missed it."""
        try:
            self.repository.load(session_id)
        except SessionNotFound:
            return True
        except SessionCorrupt:
            pass
        return False


class StorageEngine:
    """Opens the stores of a kind of session: files, for the processes of one machine.

    An engine for several machines is a subclass. Opens nothing before it is used.

    Attributes:
        settings: The configuration.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self.settings = settings
        self._watcher = PathWatcher()  # one thread for all owners

    def place(self, locations: Locations) -> str:
        """Return the directory of the sessions."""
        return str(locations.sessions_dir)

    def journal(self, locations: Locations) -> TurnJournal:
        """Return the journals of turns."""
        return FileTurnJournal(
            locations.journals_dir, locations.sessions_dir, watcher=self._watcher
        )

    def repository(
        self,
        locations: Locations,
        journal: TurnJournal,
        *,
        durable: bool,
        observer: SessionObserver = UNOBSERVED,
    ) -> SessionRepository:
        """Return the sessions."""
        processes_dir = locations.processes_dir
        return FileSessionRepository(
            locations.sessions_dir,
            owners=None if processes_dir is None else FileOwners(processes_dir),
            is_over=journal.was_closed,
            durable=durable,
            observer=observer,
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
            timeout_seconds=self.settings.tool_confirmation_timeout_seconds,
            notice=notice,
        )

    def clock(self) -> Callable[[], float]:
        """Return this machine's clock."""
        return time.time

    def may_list_records(self) -> Callable[[], bool]:
        """Return that a search of all records may always be made."""
        return lambda: True


def build_storage(
    engine: StorageEngine,
    settings: SessionsSettings,
    kind: SessionKind = SessionKind.CHAT,
    changes: ChangeLog | None = None,
    notice: Notice | None = None,
) -> ConversationStorage:
    """Build the storage of a kind of session; opens nothing.

    Args:
        engine: The storage engine.
        settings: The configuration.
        kind: The kind.
        changes: The log of changes of people's sessions, if any.
        notice: Called for each question that is asked or answered, after it is in that log.
    """
    locations = locations_of(settings, kind)
    is_durable = kind is not SessionKind.EPHEMERAL
    journal = engine.journal(locations)
    notes = ChangeNotes(changes, notice) if changes is not None and is_durable else None
    observer = notes if notes is not None and kind is SessionKind.CHAT else UNOBSERVED
    repository = engine.repository(locations, journal, durable=is_durable, observer=observer)
    return ConversationStorage(
        place=engine.place(locations),
        repository=repository,
        journal=journal,
        recovery=TurnRecovery(
            repository=repository,
            journal=journal,
            rules=_rules(engine.settings) if kind is SessionKind.CHAT else None,
        ),
        records=engine.records(locations),
        confirmation_store=engine.confirmation_store(
            locations, None if notes is None else notes.asked
        ),
        clock=engine.clock(),
        may_list_records=engine.may_list_records(),
    )


def _rules(settings: ChatSettings) -> ContinuingRules:
    return ContinuingRules(
        on_crash=settings.on_crash,
        resumes=settings.max_resumes,
        seconds=settings.turn_timeout_seconds,
    )


class Storages(dict[SessionKind, ConversationStorage]):
    """Holds the storage of each kind of session."""

    def all_turns(self) -> set[str]:
        """Return the ids of all turns that have a journal. Blocks."""
        return set().union(*(storage.journal.all_turns() for storage in self.values()))


def build_storages(
    engine: StorageEngine,
    settings: SessionsSettings,
    changes: ChangeLog | None = None,
    notice: Notice | None = None,
) -> Storages:
    """Build the storage of each kind of session; opens nothing."""
    return Storages(
        {kind: build_storage(engine, settings, kind, changes, notice) for kind in SessionKind}
    )
