"""Lists the chores of conversations: sealing dead turns, sweeping what turns left."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from chat.conversation_storage import SessionKind, Storages, locations_of
from chat.registry import TurnRegistry
from chat.remote.ephemeral import EphemeralSessions
from chat.settings import ChatSettings
from chat.start.answered_questions import AnsweredQuestions
from chat.storage.change_log import ChangeLog
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.storage.signals import Signals
from mochi_project.app import Services
from prompts_app.settings import PromptsSettings
from sessions_app.attachments.service import AttachmentService
from sessions_app.attachments.sweeping import AttachmentSweep, SweepTimes
from sessions_app.services import session_directories
from sessions_app.settings import SessionsSettings
from sessions_app.store.atomic import sweep_temporary_files

TEMPORARY_FILE_SECONDS = 3600.0
"""The age at which a temporary file is abandoned; writing one takes milliseconds."""


def conversation_chores(services: Services) -> Mapping[str, Callable[[], object]]:
    """Return the chores, in the order in which they are done."""
    settings, storages = services.get(SessionsSettings), services.get(Storages)
    age, each_kind = services.get(ChatSettings).turn_retention_seconds, storages.items()
    attachments = AttachmentSweep(
        services.get(AttachmentService).store,
        [each.repository for each in storages.values()],
        session_directories(settings),
        times=services.get(SweepTimes),
        owner=settings.owner,
    )
    chats = storages[SessionKind.CHAT]
    answered = AnsweredQuestions(chats.confirmation_store)
    find = partial(answered.sessions, chats.repository.load)
    prompts = services.get(PromptsSettings).resolved_system_prompts_dir
    return {
        **{f"seal dead {kind} turns": each.recovery.seal_all for kind, each in each_kind},
        **{f"sweep {kind} journals": partial(each.journal.sweep, age) for kind, each in each_kind},
        **{f"sweep {kind} deletions": each.repository.sweep for kind, each in each_kind},
        **{
            f"sweep {kind} approvals": partial(each.confirmation_store.sweep, age)
            for kind, each in each_kind
        },
        **{f"discard orphaned {kind} records": each.discard_orphans for kind, each in each_kind},
        "go on after answers": partial(_go_on_answered, find, services),
        "remove ephemeral sessions": services.get(EphemeralSessions).forget_ended,
        "sweep keys": partial(services.get(IdempotencyKeys).sweep, age, storages.all_turns),
        "sweep changes": services.get(ChangeLog).sweep,
        "sweep attachments": attachments.run,
        "sweep temporary files": partial(_sweep_temporary_files, settings, prompts),
    }


def sweep_signals(services: Services) -> Mapping[str, Callable[[], object]]:
    """Return the chore for signals, which lie in one folder for all owners of data."""
    age = services.get(ChatSettings).turn_retention_seconds
    return {"sweep signals": partial(services.get(Signals).sweep, age)}


def _go_on_answered(find: Callable[[], Iterable[str]], services: Services) -> None:
    """Start the turns whose questions were answered when no process could start them."""
    for session_id in find():
        services.get(TurnRegistry).answer_waiting(session_id)


def _sweep_temporary_files(settings: SessionsSettings, prompts_dir: Path) -> None:
    """Remove files of interrupted writes (docs/decisions/0145)."""
    directories = list[Path]()
    for kind in (SessionKind.CHAT, SessionKind.AGENT):
        sessions = locations_of(settings, kind).sessions_dir
        directories += [sessions, sessions / ".locks", sessions / ".claims"]
    for top in (
        prompts_dir,
        settings.resolved_data_dir / "profiles",
        locations_of(settings, SessionKind.CHAT).records_dir,
        settings.resolved_state_dir,
    ):
        directories += [Path(directory) for directory, _, _ in os.walk(top)]
    for directory in directories:
        sweep_temporary_files(directory, TEMPORARY_FILE_SECONDS)
