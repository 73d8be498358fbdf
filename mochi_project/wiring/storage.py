"""Builds the storage of conversations: the adapters of its ports."""

from pathlib import Path

from chat.approvals.store import CONFIRMATION_IDS, KINDS, ConfirmationStore
from chat.remote.recovery import TurnRecovery
from chat.storage.files.idempotency_keys import FileIdempotencyKeys
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.records import FileRecords
from chat.storage.files.signals import FileSignals
from chat.storage.files.watcher import PathWatcher
from chat.storage.idempotency_keys import IdempotencyKeys
from chat.storage.journal import TurnJournal
from chat.storage.signals import Signals
from mochi_project.configuration.config import MochiSettings
from sessions_app.store.file_repository import FileSessionRepository

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns looks for signals. Each look wakes a thread and takes
some 0.2 ms of a core that has nothing else to do; a cancellation has 200 ms."""


class ConversationStorage:
    """Holds the sessions of one directory, and what is kept of their turns.

    People's sessions have one, and agents' sessions another.

    Args:
        sessions_dir: The session files.
        journals_dir: The journals of their turns.
        keys_dir: The idempotency keys of their turns.
    """

    def __init__(self, *, sessions_dir: Path, journals_dir: Path, keys_dir: Path) -> None:
        self.sessions_dir = sessions_dir
        self.journal: TurnJournal = FileTurnJournal(journals_dir, sessions_dir)
        self.repository = FileSessionRepository(sessions_dir, is_over=self.journal.was_closed)
        self.keys: IdempotencyKeys = FileIdempotencyKeys(keys_dir)
        self.recovery = TurnRecovery(
            repository=self.repository, journal=self.journal, keys=self.keys
        )


def build_signals(settings: MochiSettings) -> Signals:
    """Build the signals between the processes that run turns; opens nothing."""
    return FileSignals(settings.resolved_state_dir / "signals", PathWatcher(SIGNAL_SECONDS))


def build_questions(settings: MochiSettings) -> ConfirmationStore:
    """Build the store of questions to people; opens nothing."""
    directory = settings.resolved_state_dir / "confirmations"
    return ConfirmationStore(
        FileRecords(directory, names=CONFIRMATION_IDS, kinds=KINDS),
        timeout_seconds=settings.tool_confirmation_timeout_seconds,
    )


def build_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of people's conversations; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_sessions_dir,
        journals_dir=settings.resolved_state_dir / "turns",
        keys_dir=settings.resolved_state_dir / "keys",
    )


def build_agent_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of conversations with agents; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_agent_chats_dir,
        journals_dir=settings.resolved_state_dir / "agent_turns",
        keys_dir=settings.resolved_state_dir / "agent_keys",
    )
