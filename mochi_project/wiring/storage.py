"""Builds the storage of each kind of session: the adapters of its ports."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from chat.activity.notes import ChangeNotes
from chat.approvals.store import (
    CONFIRMATION_RECORDS,
    ConfirmationStore,
    Notice,
)
from chat.remote.recovery import TurnRecovery
from chat.storage.change_log import ChangeLog
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.idempotency_keys import KEY_LIMIT, KEY_RECORDS, IdempotencyKeys
from chat.storage.journal import TurnJournal
from chat.storage.records import TURN_RECORDS
from chat.storage.signals import Signals
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import Cluster, build_clock
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.listing_interval import ListingInterval
from sessions_app.store.observed import ObservedRepository
from sessions_app.store.owners import Owners
from sessions_app.store.records import Records, unchanged_since
from sessions_app.store.repository import SessionRepository

if TYPE_CHECKING:
    from cluster_app.objects.store import ObjectStore

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns polls for signals. Each poll wakes a thread and takes
some 0.2 ms of an idle core; a cancellation may take 200 ms."""


UNCREATED_SECONDS = 3600.0
"""The age at which a session of which there are only records will not be created any more."""


def _always() -> bool:
    return True


class SessionKind(StrEnum):
    """The kinds of sessions: those of people, of agents, and those that are not kept."""

    CHAT = "chat"
    AGENT = "agent"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Locates the data of a kind of session.

    Attributes:
        sessions_dir: The directory of session files.
        journals_dir: The directory of journals.
        records_dir: The directory of the records of requests in other protocols.
        approvals_dir: The directory of approvals; agents ask with the sessions that call them.
        prefix: The Redis key prefix, after that of all keys.
        approvals_prefix: The Redis key prefix of approvals.
        folder: The folder of sessions in an object store.
        responses: The folder of records in an object store.
    """

    sessions_dir: Path
    journals_dir: Path
    records_dir: Path
    approvals_dir: Path
    prefix: str
    approvals_prefix: str
    folder: str
    responses: str


def locations_of(settings: MochiSettings, kind: SessionKind) -> Locations:
    """Return where the data of a kind of session are."""
    state = settings.resolved_state_dir
    if kind is SessionKind.EPHEMERAL:
        directory = state / "ephemeral"
        return Locations(
            sessions_dir=directory / "sessions",
            journals_dir=directory / "turns",
            records_dir=directory / "responses",
            approvals_dir=directory / "confirmations",
            prefix="e:",
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
        prefix="a:" if is_agent else "",
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

    def sweep(self, older_than_seconds: float) -> None:
        """Remove what turns left that ended longer ago, and what dead processes left. Blocks."""
        self.recovery.sweep(older_than_seconds)
        self.confirmation_store.sweep(older_than_seconds)
        self.sweep_records(UNCREATED_SECONDS)

    def sweep_records(self, older_than_seconds: float) -> None:
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


def build_storage(
    settings: MochiSettings,
    cluster: Cluster | None,
    kind: SessionKind = SessionKind.CHAT,
    changes: ChangeLog | None = None,
) -> ConversationStorage:
    """Build the storage of a kind of session; opens nothing.

    Args:
        settings: The configuration.
        cluster: The connections shared with other machines; None for files alone.
        kind: The kind.
        changes: The log of changes of people's sessions, if any.
    """
    locations = locations_of(settings, kind)
    is_durable = kind is not SessionKind.EPHEMERAL
    journal = _journal(settings, locations, cluster)
    repository = _repository(locations, cluster, journal, durable=is_durable)
    if kind is SessionKind.CHAT and changes is not None:
        repository = ObservedRepository(repository, ChangeNotes(changes))
    objects = None if cluster is None else cluster.objects
    return ConversationStorage(
        place=str(locations.sessions_dir)
        if objects is None
        else objects.under(locations.folder).name,
        repository=repository,
        journal=journal,
        recovery=TurnRecovery(repository=repository, journal=journal),
        records=_records(locations, cluster),
        confirmation_store=_confirmation_store(
            settings,
            locations,
            cluster,
            notice=ChangeNotes(changes).asked if is_durable and changes is not None else None,
        ),
        clock=time.time if objects is None else build_clock(cluster),
        may_list_records=_always if objects is None else ListingInterval().is_time,
    )


class Storages(dict[SessionKind, ConversationStorage]):
    """Holds the storage of each kind of session."""


def build_storages(
    settings: MochiSettings, cluster: Cluster | None, changes: ChangeLog | None = None
) -> Storages:
    """Build the storage of each kind of session; opens nothing."""
    return Storages({kind: build_storage(settings, cluster, kind, changes) for kind in SessionKind})


def _journal(settings: MochiSettings, locations: Locations, cluster: Cluster | None) -> TurnJournal:
    if cluster is None:
        return FileTurnJournal(locations.journals_dir, locations.sessions_dir)
    from cluster_app.redis.journals import RedisTurnJournal  # noqa: PLC0415 - an extra

    return RedisTurnJournal(
        cluster.connection.under(locations.prefix),
        owners=cluster.owners,
        hub=cluster.hub,
        pumps=cluster.pumps,
        retention_seconds=settings.turn_retention_seconds,
        timeout_seconds=settings.journal_timeout_seconds,
    )


def _repository(
    locations: Locations, cluster: Cluster | None, journal: TurnJournal, *, durable: bool
) -> SessionRepository:
    if cluster is not None and (objects := cluster.objects) is not None:
        return _object_repository(locations, cluster, objects, journal, durable=durable)
    return FileSessionRepository(
        locations.sessions_dir,
        owners=None if cluster is None else cluster.owners,
        is_over=journal.was_closed,
        keeps_begun=cluster is not None,
        durable=durable,
    )


def _object_repository(
    locations: Locations,
    cluster: Cluster,
    objects: "ObjectStore",
    journal: TurnJournal,
    *,
    durable: bool,
) -> SessionRepository:
    from cluster_app.objects.claim_hints import ClaimHint  # noqa: PLC0415 - an extra
    from cluster_app.objects.repository import (  # noqa: PLC0415 - an extra
        ObjectSessionRepository,
    )
    from cluster_app.redis.claim_hints import RedisClaimHints  # noqa: PLC0415 - an extra
    from cluster_app.redis.session_index import (  # noqa: PLC0415 - an extra
        RedisSessionIndex,
    )

    sessions, connection = (
        objects.under(locations.folder),
        cluster.connection.under(locations.prefix),
    )
    hints = RedisClaimHints(connection)
    return ObjectSessionRepository(
        sessions,
        deleted=objects.under(f"deleted/{locations.folder}") if durable else None,
        owners=cluster.owners,
        hints=hints,
        index=RedisSessionIndex(
            connection, sessions, note_claim=lambda claim: hints.note(ClaimHint.at(claim))
        ),
        is_over=journal.was_closed,
    )


def _records(locations: Locations, cluster: Cluster | None) -> Records:
    if cluster is not None and (objects := cluster.objects) is not None:
        from cluster_app.objects.records import ObjectRecords  # noqa: PLC0415 - an extra

        return ObjectRecords(objects.under(locations.responses), names=TURN_RECORDS)
    return FileRecords(locations.records_dir, names=TURN_RECORDS, durable=False)


def build_signals(settings: MochiSettings, cluster: Cluster | None) -> Signals:
    """Build the signals between the processes that run turns; opens nothing."""
    if cluster is None:
        return FileSignals(settings.resolved_state_dir / "signals", PathWatcher(SIGNAL_SECONDS))
    from cluster_app.redis.signals import RedisSignals  # noqa: PLC0415 - an extra

    return RedisSignals(cluster.connection, owners=cluster.owners, hub=cluster.hub)


def _confirmation_store(
    settings: MochiSettings,
    locations: Locations,
    cluster: Cluster | None,
    *,
    notice: Notice | None,
) -> ConfirmationStore:
    timeout = settings.tool_confirmation_timeout_seconds
    if cluster is None:
        records = FileRecords(locations.approvals_dir, names=CONFIRMATION_RECORDS)
        return ConfirmationStore(records, timeout_seconds=timeout, notice=notice)
    from cluster_app.redis.clock import RedisClock  # noqa: PLC0415 - an extra
    from cluster_app.redis.records import RedisRecords  # noqa: PLC0415 - an extra

    shared = RedisRecords(
        cluster.connection.under(locations.approvals_prefix),
        "conf",
        names=CONFIRMATION_RECORDS,
        seconds=timeout + settings.turn_retention_seconds,
    )
    clock = RedisClock(cluster.connection)
    return ConfirmationStore(shared, timeout_seconds=timeout, now=clock, notice=notice)


def build_keys(settings: MochiSettings, cluster: Cluster | None, owners: Owners) -> IdempotencyKeys:
    """Build the idempotency keys of people's turns, including ephemeral ones; opens nothing."""
    if cluster is None:
        directory = settings.resolved_state_dir / "keys"
        records = FileRecords(directory, names=KEY_RECORDS, limit=KEY_LIMIT, durable=False)
        return IdempotencyKeys(records, owners=owners)
    from cluster_app.redis.records import RedisRecords  # noqa: PLC0415 - an extra

    shared = RedisRecords(
        cluster.connection,
        "key",
        names=KEY_RECORDS,
        # The longest turn plus the retention of its journal.
        seconds=settings.turn_timeout_seconds + settings.turn_retention_seconds,
    )
    return IdempotencyKeys(shared, owners=owners, clock=build_clock(cluster))


def sweep_keys(
    keys: IdempotencyKeys, storages: Collection[ConversationStorage], age_seconds: float
) -> None:
    """Free old keys whose turns have no journal in any storage."""
    keys.sweep(age_seconds, lambda: set().union(*(each.journal.all_turns() for each in storages)))
