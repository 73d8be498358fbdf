"""Provides what the server does by itself: chores, background work, checks of its stores."""

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial

from agents_app.sweeping import SessionSweep
from chat.conversation_storage import ConversationStorage, SessionKind, Storages, locations_of
from chat.remote.ephemeral import EphemeralSessions
from chat.storage.change_log import ChangeLog
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.storage.signals import Signals
from chat.storage.task_queue import TaskQueue
from chat.summaries.service import SummaryService
from mochi_project.app import Factory, Services, mochi_apps
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.background.task_queue import DatabaseTaskQueue
from mochi_project.configuration.config import MochiSettings
from mochi_project.key_variables import KeyVariables
from mochi_project.memory.large_responses import LargeResponses
from mochi_project.memory.release import give_back_memory
from mochi_project.reachability import Stores
from mochi_project.telemetry import Telemetry
from models_app.services import profile_records
from sessions_app.attachments.service import AttachmentService
from sessions_app.attachments.sweeping import AttachmentSweep
from sessions_app.deadline import Deadline
from sessions_app.services import session_directories
from sessions_app.store.atomic import sweep_temporary_files
from tools_app.hosts.fork_server_client import KeyNames

TEMPORARY_FILE_SECONDS = 3600.0
"""The age at which a temporary file is abandoned; writing one takes milliseconds."""


def _housekeeper(services: Services) -> Housekeeper:
    settings, storages = services.get(MochiSettings), services.get(Storages)
    attachments, age = services.get(AttachmentService), settings.turn_retention_seconds
    each_kind = storages.items()
    repositories = [each.repository for each in storages.values()]
    sweep = AttachmentSweep(attachments.store, repositories, session_directories(settings))
    return Housekeeper(
        {
            **{f"seal dead {kind} turns": each.recovery.seal_all for kind, each in each_kind},
            **{f"sweep {kind} sessions": partial(each.sweep, age) for kind, each in each_kind},
            "remove ephemeral sessions": services.get(EphemeralSessions).sweep,
            "sweep keys": partial(
                _sweep_keys, services.get(IdempotencyKeys), storages.values(), age
            ),
            "sweep signals": partial(services.get(Signals).sweep, age),
            "sweep changes": services.get(ChangeLog).sweep,
            "sweep attachments": sweep.run,
            "sweep temporary files": partial(_sweep_temporary_files, settings),
            "sweep sessions": services.get(SessionSweep).run,
            "give memory back": give_back_memory,
            **{
                name: partial(chore, services)
                for app in mochi_apps()
                for name, chore in app.chores().items()
            },
        },
        build_sealing(settings, *storages.values()),
    )


def build_sealing(
    settings: MochiSettings, *storages: ConversationStorage
) -> Mapping[str, Callable[[], object]]:
    """Build the chores that seal turns of dead machines within a second; none without a cluster.

    Claims on sessions in files are read one by one, so they are left to the regular chores.
    """
    if settings.journal_url is None:
        return {}
    hinted = settings.sessions_url is not None
    # A process must have held a lease for a while to declare others dead, so take one at the start.
    lease = {"hold a lease": storages[0].repository.owners.mine}
    return lease | {
        f"seal turns of dead machines in {each.place}": (
            each.recovery.seal_all if hinted else each.recovery.seal_unended
        )
        for each in storages
    }


def _sweep_keys(
    keys: IdempotencyKeys, storages: Collection[ConversationStorage], age_seconds: float
) -> None:
    """Free old keys whose turns have no journal in any storage."""
    keys.sweep(age_seconds, lambda: set().union(*(each.journal.all_turns() for each in storages)))


def _sweep_temporary_files(settings: MochiSettings) -> None:
    """Remove files of interrupted writes in directories that nothing else sweeps."""
    for top in (
        settings.resolved_system_prompts_dir,
        settings.resolved_data_dir / "profiles",
        locations_of(settings, SessionKind.CHAT).records_dir,
        settings.resolved_state_dir,
    ):
        for directory, _, _ in os.walk(top):
            sweep_temporary_files(directory, TEMPORARY_FILE_SECONDS)


def _stores(services: Services) -> Stores:
    summaries = services.get(SummaryService)
    return Stores(summaries.failing, summaries.oldest_due_seconds)


def _supervisor(services: Services) -> WorkerSupervisor:
    return WorkerSupervisor(
        services.get(MochiSettings),
        services.get(SummaryService).queue_due,
        deadline=services.get(Deadline),
    )


def _task_queue(services: Services) -> TaskQueue:
    return DatabaseTaskQueue(services.get(MochiSettings).resolved_private_dir / "queue.sqlite3")


def _key_names(services: Services) -> KeyNames:
    return KeyVariables(services.get(MochiSettings), profile_records(services)).names


FACTORIES: Mapping[type | str, Factory] = {
    KeyNames: _key_names,
    TaskQueue: _task_queue,
    Telemetry: lambda _: Telemetry(),
    Stores: _stores,
    Housekeeper: _housekeeper,
    WorkerSupervisor: _supervisor,
    LargeResponses: lambda _: LargeResponses(),
}
