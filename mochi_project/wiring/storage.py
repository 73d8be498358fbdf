"""Builds where conversations are kept: session files, the journals of their turns, their keys."""

from pathlib import Path

from chat.approvals.store import CONFIRMATION_IDS, KINDS, ConfirmationStore
from chat.remote.recovery import TurnRecovery
from chat.storage.files.idempotency_keys import FileIdempotencyKeys
from chat.storage.files.journals import FileTurnJournal
from chat.storage.files.records import FileRecords
from mochi_project.configuration.config import MochiSettings
from sessions_app.store.file_repository import FileSessionRepository


class ConversationStorage:
    """The sessions of one directory, and what is kept of their turns.

    People's sessions have one, and agents' sessions another.

    Args:
        sessions_dir: The session files.
        journals_dir: The journals of their turns.
        keys_dir: The idempotency keys of their turns.
    """

    def __init__(self, *, sessions_dir: Path, journals_dir: Path, keys_dir: Path) -> None:
        self.sessions_dir = sessions_dir
        self.journal = FileTurnJournal(journals_dir, sessions_dir)
        self.repository = FileSessionRepository(sessions_dir, is_over=self.journal.was_closed)
        self.keys = FileIdempotencyKeys(keys_dir)
        self.recovery = TurnRecovery(
            repository=self.repository, journal=self.journal, keys=self.keys
        )


def build_questions(settings: MochiSettings) -> ConfirmationStore:
    """Build where questions to people, and their answers, are kept; opens nothing."""
    directory = settings.resolved_state_dir / "confirmations"
    return ConfirmationStore(
        FileRecords(directory, names=CONFIRMATION_IDS, kinds=KINDS),
        timeout_seconds=settings.tool_confirmation_timeout_seconds,
    )


def build_storage(settings: MochiSettings) -> ConversationStorage:
    """Build where people's conversations are kept; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_sessions_dir,
        journals_dir=settings.resolved_state_dir / "turns",
        keys_dir=settings.resolved_state_dir / "keys",
    )


def build_agent_storage(settings: MochiSettings) -> ConversationStorage:
    """Build where the conversations with agents are kept; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_agent_chats_dir,
        journals_dir=settings.resolved_state_dir / "agent_turns",
        keys_dir=settings.resolved_state_dir / "agent_keys",
    )
