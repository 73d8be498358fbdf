"""Provides the services of several machines in place of those of one: Redis, an object store."""

import asyncio
from collections.abc import Mapping
from functools import partial

from chat.conversation_storage import StorageEngine
from chat.notices.notifier import TASK as NOTICE_TASK
from chat.settings import ChatSettings
from chat.storage.change_log import ChangeLog
from chat.storage.idempotency_keys import KEY_RECORDS, IdempotencyKeys
from chat.storage.signals import Signals
from chat.storage.task_queue import TaskQueue
from chat.summaries.service import TASK
from cluster_app.connections import Cluster
from cluster_app.engine import (
    SharedRecordStores,
    SharedStorageEngine,
    redis_time,
)
from cluster_app.objects.attachments import ObjectAttachmentStore
from cluster_app.owners import SharedOwners
from cluster_app.reachability import SharedStores
from cluster_app.redis.call_log import RedisCallLog
from cluster_app.redis.change_log import RedisChangeLog
from cluster_app.redis.records import RedisRecords
from cluster_app.redis.signals import RedisSignals
from cluster_app.redis.task_queue import TICK_SECONDS, RedisTaskQueue, SharedQueueChores
from cluster_app.settings import ClusterSettings
from mochi_project.app import Factory, ServicePool, Services
from mochi_project.background.rounds import OwnerFolders
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.app_settings import USERS, AppSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.reachability import Stores
from mochi_project.services import DueSummaries, tell_of_questions
from sessions_app.attachments.store import AttachmentStore
from sessions_app.deadline import Deadline
from sessions_app.ids_and_clock import SharedClock
from sessions_app.services import file_attachments
from sessions_app.settings import SessionsSettings
from sessions_app.store.records import RecordStores
from tools_app.storage.call_log import CallLog


def _cluster(services: Services) -> Cluster:
    cluster = Cluster(services.get(ClusterSettings))
    # Asked for first by all that use it, so it is closed last: all turns are saved by then.
    services.on_close(partial(asyncio.to_thread, cluster.release))
    services.on_close(cluster.close_pumps)
    return cluster


def _attachments(services: Services) -> AttachmentStore:
    settings = services.get(SessionsSettings)
    if (objects := services.get(Cluster).objects_of(settings.owner)) is None:
        return file_attachments(settings)
    return ObjectAttachmentStore(objects.under("attachments"), now=services.get(SharedClock))


def _keys(services: Services) -> IdempotencyKeys:
    settings, cluster = services.get(ChatSettings), services.get(Cluster)
    records = RedisRecords(
        cluster.connection.under("", settings.owner),
        "key",
        names=KEY_RECORDS,
        # The longest turn plus the retention of its journal.
        seconds=settings.turn_timeout_seconds + settings.turn_retention_seconds,
    )
    return IdempotencyKeys(records, owners=cluster.owners, clock=services.get(SharedClock))


def _signals(services: Services) -> Signals:
    cluster = services.get(Cluster)
    return RedisSignals(cluster.connection, owners=cluster.owners, hub=cluster.hub)


def _changes(services: Services) -> ChangeLog:
    cluster, owner = services.get(Cluster), services.get(AppSettings).owner
    return RedisChangeLog(cluster.connection.under("", owner), cluster.hub)


def _owners(services: Services) -> OwnerFolders:
    users, cluster = services.get(AppSettings).server_dir / USERS, services.get(Cluster)
    if (objects := cluster.objects) is None:
        return OwnerFolders(users)
    return SharedOwners(users, objects, cluster.connection)


def _stores(services: Services) -> Stores:
    return SharedStores(services.get(Cluster))


def _supervisor(services: Services) -> WorkerSupervisor:
    queue = RedisTaskQueue(services.get(Cluster).connection)
    return WorkerSupervisor(
        services.get(ServerSettings),
        SharedQueueChores(
            queue,
            TASK,
            DueSummaries(services),
            at_start={NOTICE_TASK: partial(tell_of_questions, services.get(ServicePool))},
        ),
        chores_seconds=TICK_SECONDS,
        deadline=services.get(Deadline),
    )


FACTORIES: Mapping[type | str, Factory] = {
    Cluster: _cluster,
    SharedClock: lambda services: partial(redis_time, services.get(Cluster)),
    RecordStores: lambda services: SharedRecordStores(services.get(Cluster)),
    StorageEngine: lambda services: SharedStorageEngine(
        services.get(ChatSettings), services.get(ClusterSettings), services.get(Cluster)
    ),
    Signals: _signals,
    CallLog: lambda services: RedisCallLog(services.get(Cluster).connection),
    TaskQueue: lambda services: RedisTaskQueue(services.get(Cluster).connection),
    OwnerFolders: _owners,
    Stores: _stores,
    WorkerSupervisor: _supervisor,
}
OWNED: Mapping[type | str, Factory] = {
    AttachmentStore: _attachments,
    ChangeLog: _changes,
    IdempotencyKeys: _keys,
}
