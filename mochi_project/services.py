"""Provides what the server does by itself: chores, background work, checks of its stores."""

from collections.abc import Callable, Mapping
from functools import partial

from chat.notices.notifier import Notifier
from chat.services import people_storage
from chat.storage.task_queue import TaskQueue
from chat.summaries.service import SummaryService
from mochi_project.app import Factory, Services, mochi_apps
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.key_variables import KeyVariables
from mochi_project.keys.ring import KeyRing
from mochi_project.keys.store import KeyStore, keys_directory
from mochi_project.memory.large_responses import LargeResponses
from mochi_project.memory.release import give_back_memory
from mochi_project.reachability import Stores
from mochi_project.telemetry import Telemetry
from models_app.services import profile_records
from models_app.settings import ModelsSettings
from sessions_app.deadline import Deadline
from sessions_app.store.records import RECORD_LIMIT, RecordStores
from tools_app.hosts.fork_server_client import KeyNames


def _housekeeper(services: Services) -> Housekeeper:
    chores: dict[str, Callable[[], object]] = {}
    urgent: dict[str, Callable[[], object]] = {}
    for app in mochi_apps():
        chores |= app.chores(services)
        urgent |= app.urgent_chores(services)
    return Housekeeper(chores | {"give memory back": give_back_memory}, urgent)


def _stores(services: Services) -> Stores:
    summaries = services.get(SummaryService)
    return Stores(summaries.failing, summaries.oldest_due_seconds)


def tell_of_questions(services: Services) -> None:
    """Queue notices of all open questions: after a start nobody knows which were sent. Blocks."""
    services.get(Notifier).find_open(people_storage(services).confirmation_store)


def _queue_due(services: Services, *, worker_is_new: bool = False) -> None:
    services.get(SummaryService).queue_due(worker_is_new=worker_is_new)
    if worker_is_new:
        tell_of_questions(services)


def _supervisor(services: Services) -> WorkerSupervisor:
    return WorkerSupervisor(
        services.get(ServerSettings),
        partial(_queue_due, services),
        deadline=services.get(Deadline),
    )


def _task_queue(services: Services) -> TaskQueue:
    return DatabaseTaskQueue(services.get(AppSettings).resolved_private_dir / "queue.sqlite3")


def _key_names(services: Services) -> KeyNames:
    return KeyVariables(services.get(ModelsSettings), profile_records(services)).names


def _key_store(services: Services) -> KeyStore:
    directory = keys_directory(services.get(AppSettings))
    return KeyStore(services.get(RecordStores).open(directory, "keys", limit=RECORD_LIMIT))


FACTORIES: Mapping[type | str, Factory] = {
    KeyNames: _key_names,
    KeyRing: lambda services: KeyRing(services.get(KeyStore)),
    KeyStore: _key_store,
    TaskQueue: _task_queue,
    Telemetry: lambda _: Telemetry(),
    LargeResponses: lambda _: LargeResponses(),
}
OWNED: Mapping[type | str, Factory] = {
    Stores: _stores,
    Housekeeper: _housekeeper,
    WorkerSupervisor: _supervisor,
}
