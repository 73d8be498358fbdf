"""Provides what the server does by itself: chores, background work, checks of its stores."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial

from chat.notices.notifier import Notifier
from chat.services import people_storage
from chat.storage.task_queue import TaskQueue
from chat.summaries.service import SummaryService
from mochi_project.app import Factory, ServicePool, Services, mochi_apps
from mochi_project.background.housekeeping import Chore, Chores, Housekeeper
from mochi_project.background.rounds import OwnerFolders, Rounds
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.app_settings import USERS, AppSettings
from mochi_project.configuration.config import ServerSettings
from mochi_project.key_variables import KeyVariables
from mochi_project.keys.ring import KeyRing
from mochi_project.keys.store import KeyStore, keys_directory
from mochi_project.memory.large_responses import LargeResponses
from mochi_project.memory.release import give_back_memory
from mochi_project.principal import DEFAULT_OWNER, acting_for
from mochi_project.reachability import OBJECTS_FRESH_SECONDS, Stores, SummaryChecks
from mochi_project.telemetry import Telemetry
from models_app.services import profile_records
from models_app.settings import ModelsSettings
from sessions_app.deadline import Deadline
from sessions_app.store.records import RECORD_LIMIT, RecordStores
from tools_app.hosts.fork_server_client import KeyNames


def _chores(services: Services) -> Chores:
    return Chores(
        _merged(app.chores(services) for app in mochi_apps()),
        _merged(app.urgent_chores(services) for app in mochi_apps()),
    )


def _housekeeper(services: Services) -> Housekeeper:
    regular = _merged(app.shared_chores(services) for app in mochi_apps())
    urgent = _merged(app.shared_urgent_chores(services) for app in mochi_apps())
    chores = Chores({"give memory back": give_back_memory, **regular}, urgent)
    return Housekeeper(services.get(ServicePool), chores, services.get(OwnerFolders))


def _merged(parts: Iterable[Mapping[str, Chore]]) -> Mapping[str, Chore]:
    return {name: chore for part in parts for name, chore in part.items()}


class DueSummaries:
    """Queues overdue summaries: of loaded owners each time, of the others by turns. Blocks.

    Once after a worker has started, people are told again of the open questions of each owner.

    Args:
        services: The shared ones.
    """

    def __init__(self, services: Services) -> None:
        self._pool = services.get(ServicePool)
        self._owners = partial(services.get(OwnerFolders).to_visit, "summaries")
        self._rounds = Rounds(self._owners)

    def __call__(self, *, worker_is_new: bool = False) -> None:
        """Queue what is overdue.

        Raises:
            StorageError: That of some owners can't be found; that of others was queued.
        """
        if worker_is_new:
            self._rounds = Rounds(self._owners)
        loaded = _in_use(self._pool)
        others = [owner for owner in self._rounds.next() if owner not in loaded]
        with ExitStack() as stack:  # each is called, whatever the others raise
            for owner, services in loaded.items():
                stack.callback(_queue_due, owner, services, worker_is_new=worker_is_new)
            for owner in others:
                services, is_new = self._pool.build(owner), self._rounds.is_first
                stack.callback(_queue_due, owner, services, worker_is_new=is_new)


def _in_use(pool: ServicePool) -> Mapping[str, Services]:
    return {DEFAULT_OWNER: pool.of(DEFAULT_OWNER), **pool.loaded()}


def _queue_due(owner: str, services: Services, *, worker_is_new: bool) -> None:
    with acting_for(owner):
        services.get(SummaryService).queue_due(worker_is_new=worker_is_new)
        if worker_is_new:
            _tell_of_questions(services)


def _tell_of_questions(services: Services) -> None:
    services.get(Notifier).find_open(people_storage(services).confirmation_store)


def tell_of_questions(pool: ServicePool) -> None:
    """Queue notices of all open questions: after a start nobody knows which were sent. Blocks."""
    for owner, services in _in_use(pool).items():
        with acting_for(owner):
            _tell_of_questions(services)


def _supervisor(services: Services) -> WorkerSupervisor:
    return WorkerSupervisor(
        services.get(ServerSettings), DueSummaries(services), deadline=services.get(Deadline)
    )


def _summary_checks(services: Services) -> SummaryChecks:
    summaries, settings = services.get(SummaryService), services.get(AppSettings)
    seconds = 0.0 if settings.sessions_url is None else OBJECTS_FRESH_SECONDS
    return SummaryChecks(summaries.failing, summaries.oldest_due_seconds, fresh_seconds=seconds)


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
    Stores: lambda _: Stores(),
    Housekeeper: _housekeeper,
    OwnerFolders: lambda services: OwnerFolders(services.get(AppSettings).server_dir / USERS),
    WorkerSupervisor: _supervisor,
}
OWNED: Mapping[type | str, Factory] = {Chores: _chores, SummaryChecks: _summary_checks}
