"""Builds the storage of conversations: the adapters of its ports."""

import time
from collections.abc import Callable
from dataclasses import dataclass
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
from chat.storage.files.idempotency_keys import FileIdempotencyKeys
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.storage.journal import TurnJournal
from chat.storage.records import TURN_RECORDS
from chat.storage.signals import Signals
from mochi_project.configuration.config import MochiSettings
from mochi_project.wiring.cluster import AGENTS, EPHEMERAL, Cluster, build_clock
from sessions_app.errors import SessionCorrupt, SessionNotFound
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.listing_interval import ListingInterval
from sessions_app.store.observed import ObservedRepository
from sessions_app.store.records import Records, unchanged_since
from sessions_app.store.repository import SessionRepository

if TYPE_CHECKING:
    from cluster_app.objects.store import ObjectStore

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns polls for signals. Each poll wakes a thread and takes
some 0.2 ms of an idle core; a cancellation may take 200 ms."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStorage:
    """Holds the stores of sessions and of their turns' data.

    There is one for people's sessions, one for agents' sessions and one for ephemeral ones.

    Attributes:
        place: The location of the sessions, as text for people.
        repository: The session store.
        journal: The journals of turns.
        recovery: Ends the turns of dead processes.
        records: The requests of turns in other protocols.
        clock: The clock for the records.
        may_list_records: Returns whether a search of all records is due.
    """

    place: str
    repository: SessionRepository
    journal: TurnJournal
    recovery: TurnRecovery
    records: Records
    clock: Callable[[], float]
    may_list_records: Callable[[], bool]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The locations of one storage.

    Attributes:
        sessions_dir: The directory of session files.
        journals_dir: The directory of journals.
        records_dir: The directory of the records of requests in other protocols.
        prefix: The storage's Redis key prefix, after that of all keys.
        folder: The folder of sessions in an object store.
        responses: The folder of records in an object store.
        durable: Whether the sessions must survive a power cut.
    """

    sessions_dir: Path
    journals_dir: Path
    records_dir: Path
    prefix: str
    folder: str
    responses: str
    durable: bool = True


def _build(
    settings: MochiSettings,
    part: _Part,
    cluster: Cluster | None,
    *,
    keys: IdempotencyKeys | None,
    other_turns: Callable[[], set[str]] = set,
    changes: ChangeLog | None = None,
) -> ConversationStorage:
    """Build a storage.

    Args:
        settings: The configuration.
        part: The locations of the storage.
        cluster: The connections shared with other machines; None for files alone.
        keys: The idempotency keys of its turns; None if another storage sweeps them.
        other_turns: Returns the turns of other storages that share these keys.
        changes: The change log for its sessions, if any.
    """
    journal = _journal(settings, part, cluster)
    repository = _repository(part, cluster, journal)
    if changes is not None:
        repository = ObservedRepository(repository, ChangeNotes(changes))
    objects = None if cluster is None else cluster.objects
    return ConversationStorage(
        place=str(part.sessions_dir) if objects is None else objects.under(part.folder).name,
        repository=repository,
        journal=journal,
        recovery=TurnRecovery(
            repository=repository,
            journal=journal,
            keys=keys if cluster is None else None,  # keys expire in Redis
            other_turns=other_turns,
        ),
        records=_records(part, cluster),
        clock=time.time if objects is None else build_clock(cluster),
        may_list_records=_always if objects is None else ListingInterval().is_time,
    )


def _journal(settings: MochiSettings, part: _Part, cluster: Cluster | None) -> TurnJournal:
    if cluster is None:
        return FileTurnJournal(part.journals_dir, part.sessions_dir)
    from cluster_app.redis.journals import RedisTurnJournal  # noqa: PLC0415 - an extra

    return RedisTurnJournal(
        cluster.connection.under(part.prefix),
        owners=cluster.owners,
        hub=cluster.hub,
        pumps=cluster.pumps,
        retention_seconds=settings.turn_retention_seconds,
        timeout_seconds=settings.journal_timeout_seconds,
    )


def _repository(part: _Part, cluster: Cluster | None, journal: TurnJournal) -> SessionRepository:
    if cluster is not None and (objects := cluster.objects) is not None:
        return _object_repository(part, cluster, objects, journal)
    return FileSessionRepository(
        part.sessions_dir,
        owners=None if cluster is None else cluster.owners,
        is_over=journal.was_closed,
        keeps_begun=cluster is not None,
        durable=part.durable,
    )


def _object_repository(
    part: _Part, cluster: Cluster, objects: "ObjectStore", journal: TurnJournal
) -> SessionRepository:
    from cluster_app.objects.claim_hints import ClaimHint  # noqa: PLC0415 - an extra
    from cluster_app.objects.repository import (  # noqa: PLC0415 - an extra
        ObjectSessionRepository,
    )
    from cluster_app.redis.claim_hints import RedisClaimHints  # noqa: PLC0415 - an extra
    from cluster_app.redis.session_index import (  # noqa: PLC0415 - an extra
        RedisSessionIndex,
    )

    sessions, connection = objects.under(part.folder), cluster.connection.under(part.prefix)
    hints = RedisClaimHints(connection)
    return ObjectSessionRepository(
        sessions,
        deleted=objects.under(f"deleted/{part.folder}") if part.durable else None,
        owners=cluster.owners,
        hints=hints,
        index=RedisSessionIndex(
            connection, sessions, note_claim=lambda claim: hints.note(ClaimHint.at(claim))
        ),
        is_over=journal.was_closed,
    )


def _records(part: _Part, cluster: Cluster | None) -> Records:
    if cluster is not None and (objects := cluster.objects) is not None:
        from cluster_app.objects.records import ObjectRecords  # noqa: PLC0415 - an extra

        return ObjectRecords(objects.under(part.responses), names=TURN_RECORDS)
    return FileRecords(part.records_dir, names=TURN_RECORDS, durable=False)


def build_signals(settings: MochiSettings, cluster: Cluster | None) -> Signals:
    """Build the signals between the processes that run turns; opens nothing."""
    if cluster is None:
        return FileSignals(settings.resolved_state_dir / "signals", PathWatcher(SIGNAL_SECONDS))
    from cluster_app.redis.signals import RedisSignals  # noqa: PLC0415 - an extra

    return RedisSignals(cluster.connection, owners=cluster.owners, hub=cluster.hub)


def build_confirmation_store(
    settings: MochiSettings,
    cluster: Cluster | None,
    changes: ChangeLog | None = None,
    *,
    ephemeral: bool = False,
) -> ConfirmationStore:
    """Build the store of approval requests, reported to the change log; opens nothing."""
    notice = ChangeNotes(changes).asked if changes is not None else None
    if cluster is not None:
        return _shared_confirmation_store(settings, cluster, EPHEMERAL if ephemeral else "", notice)
    directory = ephemeral_dir(settings) if ephemeral else settings.resolved_state_dir
    return ConfirmationStore(
        FileRecords(directory / "confirmations", names=CONFIRMATION_RECORDS),
        timeout_seconds=settings.tool_confirmation_timeout_seconds,
        notice=notice,
    )


def _shared_confirmation_store(
    settings: MochiSettings, cluster: Cluster, prefix: str, notice: Notice | None
) -> ConfirmationStore:
    from cluster_app.redis.clock import RedisClock  # noqa: PLC0415 - an extra
    from cluster_app.redis.records import RedisRecords  # noqa: PLC0415 - an extra

    timeout = settings.tool_confirmation_timeout_seconds
    records = RedisRecords(
        cluster.connection.under(prefix),
        "conf",
        names=CONFIRMATION_RECORDS,
        seconds=timeout + settings.turn_retention_seconds,
    )
    clock = RedisClock(cluster.connection)
    return ConfirmationStore(records, timeout_seconds=timeout, now=clock, notice=notice)


def build_keys(settings: MochiSettings, cluster: Cluster | None) -> IdempotencyKeys:
    """Build the idempotency keys of people's turns, including ephemeral ones; opens nothing."""
    if cluster is None:
        return FileIdempotencyKeys(settings.resolved_state_dir / "keys")
    from cluster_app.redis.idempotency_keys import RedisIdempotencyKeys  # noqa: PLC0415 - an extra

    return RedisIdempotencyKeys(
        cluster.connection,
        owners=cluster.owners,
        seconds=settings.turn_timeout_seconds + settings.turn_retention_seconds,
    )


def build_storage(
    settings: MochiSettings, cluster: Cluster | None, changes: ChangeLog | None = None
) -> ConversationStorage:
    """Build the storage of people's conversations, reported to the change log; opens nothing."""
    part = _Part(
        sessions_dir=settings.resolved_sessions_dir,
        journals_dir=settings.resolved_state_dir / "turns",
        records_dir=responses_dir(settings),
        prefix="",
        folder="sessions",
        responses="responses",
    )
    return _build(
        settings,
        part,
        cluster,
        keys=build_keys(settings, cluster),
        other_turns=_journal(settings, _ephemeral_part(settings), cluster).all_turns,
        changes=changes,
    )


def build_ephemeral_storage(
    settings: MochiSettings, cluster: Cluster | None
) -> ConversationStorage:
    """Build the storage of ephemeral conversations; opens nothing."""
    return _build(settings, _ephemeral_part(settings), cluster, keys=None)


def build_agent_storage(settings: MochiSettings, cluster: Cluster | None) -> ConversationStorage:
    """Build the storage of conversations with agents; opens nothing."""
    part = _Part(
        sessions_dir=settings.resolved_agent_chats_dir,
        journals_dir=settings.resolved_state_dir / "agent_turns",
        records_dir=settings.resolved_state_dir / "agent_responses",
        prefix=AGENTS,
        folder="agents",
        responses="agent_responses",
    )
    return _build(
        settings,
        part,
        cluster,
        keys=FileIdempotencyKeys(settings.resolved_state_dir / "agent_keys"),
    )


def _ephemeral_part(settings: MochiSettings) -> _Part:
    directory = ephemeral_dir(settings)
    return _Part(
        sessions_dir=directory / "sessions",
        journals_dir=directory / "turns",
        records_dir=directory / "responses",
        prefix=EPHEMERAL,
        folder="ephemeral",
        responses="ephemeral_responses",
        durable=False,
    )


def responses_dir(settings: MochiSettings) -> Path:
    """Return the directory of records of people's turns, next to their sessions."""
    return settings.resolved_data_dir / "responses"


def ephemeral_dir(settings: MochiSettings) -> Path:
    """Return the directory of all data of ephemeral conversations."""
    return settings.resolved_state_dir / "ephemeral"
