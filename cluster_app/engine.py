"""Implements the storage engine with Redis, and with an object store if one is configured."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from chat.approvals.store import CONFIRMATION_RECORDS, ConfirmationStore, Notice
from chat.conversation_storage import Locations, StorageEngine
from chat.settings import ChatSettings
from chat.storage.journal import TurnJournal
from chat.storage.records import TURN_RECORDS
from cluster_app.connections import Cluster
from cluster_app.objects.records import ObjectRecords
from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.redis.journals import RedisTurnJournal
from cluster_app.redis.records import RedisRecords
from cluster_app.redis.session_index import RedisSessionIndex
from cluster_app.settings import ClusterSettings
from mochi_project.principal import DEFAULT_OWNER
from sessions_app.bounds import LONGEST_APPROVAL_SECONDS
from sessions_app.store.file_records import FileRecords
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.listing_interval import ListingInterval
from sessions_app.store.observer import UNOBSERVED, SessionObserver
from sessions_app.store.records import DOCUMENT_LIMIT, Records
from sessions_app.store.repository import SessionRepository


class SharedStorageEngine(StorageEngine):
    """Keeps journals in Redis, and sessions in files or in an object store.

    Args:
        chat: The configuration of conversations.
        settings: The configuration of the cluster.
        cluster: The connections.
    """

    def __init__(self, chat: ChatSettings, settings: ClusterSettings, cluster: Cluster) -> None:
        super().__init__(chat)
        self._cluster_settings = settings
        self._cluster = cluster

    def place(self, locations: Locations) -> str:
        """Return the location of the sessions, as text for people."""
        objects = self._cluster.objects_of(locations.owner)
        return super().place(locations) if objects is None else objects.under(locations.folder).name

    def journal(self, locations: Locations) -> TurnJournal:
        """Return the journals of turns."""
        cluster = self._cluster
        return RedisTurnJournal(
            cluster.connection.under(locations.prefix, locations.owner),
            owners=cluster.owners,
            hub=cluster.hub,
            pumps=cluster.pumps,
            retention_seconds=self.settings.turn_retention_seconds,
            timeout_seconds=self._cluster_settings.journal_timeout_seconds,
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
        if (objects := self._cluster.objects_of(locations.owner)) is not None:
            sessions = objects.under(locations.folder)
            connection = self._cluster.connection.under(locations.prefix, locations.owner)
            return ObjectSessionRepository(
                sessions,
                deleted=objects.under(f"deleted/{locations.folder}") if durable else None,
                owners=self._cluster.owners,
                index=RedisSessionIndex(connection, sessions),
                is_over=journal.was_closed,
                observer=observer,
            )
        return FileSessionRepository(
            locations.sessions_dir,
            owners=self._cluster.owners,
            is_over=journal.was_closed,
            keeps_begun=True,
            durable=durable,
            observer=observer,
        )

    def records(self, locations: Locations) -> Records:
        """Return the records of requests in other protocols."""
        if (objects := self._cluster.objects_of(locations.owner)) is not None:
            return ObjectRecords(objects.under(locations.responses), names=TURN_RECORDS)
        return super().records(locations)

    def confirmation_store(
        self, locations: Locations, notice: Notice | None = None
    ) -> ConfirmationStore:
        """Return the approval requests and their answers."""
        timeout = self.settings.tool_confirmation_timeout_seconds
        records = RedisRecords(
            self._cluster.connection.under(locations.approvals_prefix, locations.owner),
            "conf",
            names=CONFIRMATION_RECORDS,
            # Sessions may have longer timeouts than the server's.
            seconds=max(timeout, LONGEST_APPROVAL_SECONDS) + self.settings.turn_retention_seconds,
        )
        now = self._cluster.connection.now
        return ConfirmationStore(records, timeout_seconds=timeout, now=now, notice=notice)

    def clock(self) -> Callable[[], float]:
        """Return the clock of the records."""
        shared = partial(redis_time, self._cluster)
        return super().clock() if self._cluster.objects is None else shared

    def may_list_records(self) -> Callable[[], bool]:
        """Return what tells whether a search of all records is due: it costs several requests."""
        is_shared = self._cluster.objects is not None
        return ListingInterval().is_time if is_shared else super().may_list_records()


class SharedRecordStores:
    """Implements ``RecordStores`` with an object store, or with files if there is none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def open(
        self,
        directory: Path,
        folder: str,
        *,
        durable: bool = True,
        owner: str = DEFAULT_OWNER,
        limit: int = DOCUMENT_LIMIT,
    ) -> Records:
        """Return an owner's records; opens nothing."""
        if (objects := self._cluster.objects_of(owner)) is not None:
            return ObjectRecords(objects.under(folder), limit=limit)
        return FileRecords(directory, limit=limit, durable=durable)

    def open_one(self, directory: Path, name: str) -> Records:  # noqa: ARG002 - of files
        """Return the records of which only one exists; opens nothing."""
        return RedisRecords(self._cluster.connection, "generations", names=name)


def redis_time(cluster: Cluster) -> float:
    """Return the time of Redis, on which all machines agree, in seconds since 1970."""
    return cluster.connection.now().timestamp()
