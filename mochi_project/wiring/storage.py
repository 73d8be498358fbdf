"""Builds the storage of conversations: the adapters of its ports."""

import time
from collections.abc import Callable
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
from chat.storage.records import TURN_KINDS, TURN_NAMES, Records
from chat.storage.signals import Signals
from mochi_project.configuration.config import MochiSettings
from sessions_app.store.file_repository import FileSessionRepository

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns looks for signals. Each look wakes a thread and takes
some 0.2 ms of a core that has nothing else to do; a cancellation has 200 ms."""


class ConversationStorage:
    """Holds the sessions of one directory, and what is kept of their turns.

    People's sessions have one, agents' sessions another, and those that are not saved a third.

    Args:
        sessions_dir: The session files.
        journals_dir: The journals of their turns.
        records_dir: What was asked of their turns in other protocols.
        keys_dir: The idempotency keys of their turns; None where those are beside other sessions.
        other_turns: The turns with a journal elsewhere that these keys may stand for, too.
        durable: Whether the sessions shall survive a power cut.
    """

    def __init__(
        self,
        *,
        sessions_dir: Path,
        journals_dir: Path,
        records_dir: Path,
        keys_dir: Path | None,
        other_turns: Callable[[], set[str]] = set,
        durable: bool = True,
    ) -> None:
        self.sessions_dir = sessions_dir
        self.journal: TurnJournal = FileTurnJournal(journals_dir, sessions_dir)
        self.repository = FileSessionRepository(
            sessions_dir, is_over=self.journal.was_closed, durable=durable
        )
        self.recovery = TurnRecovery(
            repository=self.repository,
            journal=self.journal,
            keys=FileIdempotencyKeys(keys_dir) if keys_dir is not None else None,
            other_turns=other_turns,
        )
        self.records: Records = FileRecords(
            records_dir, names=TURN_NAMES, kinds=TURN_KINDS, durable=False
        )

    def sweep_records(self, older_than_seconds: float) -> None:
        """Forget what was asked of sessions that are gone, or never came. Blocks.

        Args:
            older_than_seconds: For how long a session that is not there may be about to be made.
        """
        for session_id in self.records.sessions(time.time() - older_than_seconds):
            if not (self.sessions_dir / f"{session_id}.json").exists():
                self.records.discard(session_id)


def build_signals(settings: MochiSettings) -> Signals:
    """Build the signals between the processes that run turns; opens nothing."""
    return FileSignals(settings.resolved_state_dir / "signals", PathWatcher(SIGNAL_SECONDS))


def build_questions(settings: MochiSettings, *, ephemeral: bool = False) -> ConfirmationStore:
    """Build the store of questions to people; opens nothing."""
    directory = ephemeral_dir(settings) if ephemeral else settings.resolved_state_dir
    return ConfirmationStore(
        FileRecords(directory / "confirmations", names=CONFIRMATION_IDS, kinds=KINDS),
        timeout_seconds=settings.tool_confirmation_timeout_seconds,
    )


def build_keys(settings: MochiSettings) -> IdempotencyKeys:
    """Build the idempotency keys of people's turns, saved or not; opens nothing."""
    return FileIdempotencyKeys(_keys_dir(settings))


def build_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of people's conversations; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_sessions_dir,
        journals_dir=settings.resolved_state_dir / "turns",
        records_dir=responses_dir(settings),
        keys_dir=_keys_dir(settings),
        other_turns=FileTurnJournal(ephemeral_dir(settings) / "turns").all_turns,
    )


def build_ephemeral_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of conversations that end with their turn; opens nothing."""
    return ConversationStorage(
        sessions_dir=ephemeral_dir(settings) / "sessions",
        journals_dir=ephemeral_dir(settings) / "turns",
        records_dir=ephemeral_dir(settings) / "responses",
        keys_dir=None,
        durable=False,
    )


def responses_dir(settings: MochiSettings) -> Path:
    """Return where is what was asked of people's turns: beside the sessions that it belongs to."""
    return settings.resolved_data_dir / "responses"


def ephemeral_dir(settings: MochiSettings) -> Path:
    """Return where everything is that is kept of conversations which are not saved."""
    return settings.resolved_state_dir / "ephemeral"


def _keys_dir(settings: MochiSettings) -> Path:
    return settings.resolved_state_dir / "keys"


def build_agent_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of conversations with agents; opens nothing."""
    return ConversationStorage(
        sessions_dir=settings.resolved_agent_chats_dir,
        journals_dir=settings.resolved_state_dir / "agent_turns",
        records_dir=settings.resolved_state_dir / "agent_responses",
        keys_dir=settings.resolved_state_dir / "agent_keys",
    )
