"""Builds the storage of conversations: the adapters of its ports."""

import time
from collections.abc import Callable
from dataclasses import dataclass
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
from sessions_app.store.repository import SessionRepository

SIGNAL_SECONDS = 0.06
"""The interval at which a process with turns looks for signals. Each look wakes a thread and takes
some 0.2 ms of a core that has nothing else to do; a cancellation has 200 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStorage:
    """Holds sessions, and what is kept of their turns.

    People's sessions have one, agents' sessions another, and those that are not saved a third.

    Attributes:
        place: Where the sessions are, for people to read.
        repository: The sessions.
        journal: The journals of their turns.
        recovery: What ends the turns of processes that died.
        records: What was asked of their turns in other protocols.
    """

    place: str
    repository: SessionRepository
    journal: TurnJournal
    recovery: TurnRecovery
    records: Records

    def sweep_records(self, older_than_seconds: float) -> None:
        """Forget what was asked of sessions that are gone, or never came. Blocks.

        Args:
            older_than_seconds: For how long a session that is not there may be about to be made.
        """
        old = self.records.sessions(time.time() - older_than_seconds)
        listing = self.repository.list() if old else None
        if listing is None or not listing.complete:
            return
        known = {metadata.session_id for metadata in listing.sessions}
        known |= {item.file.removesuffix(".json") for item in listing.unreadable}
        for session_id in set(old) - known:
            self.records.discard(session_id)


def _file_storage(
    sessions_dir: Path,
    journals_dir: Path,
    records_dir: Path,
    *,
    keys: IdempotencyKeys | None,
    other_turns: Callable[[], set[str]] = set,
    durable: bool = True,
) -> ConversationStorage:
    """Build the storage of one directory.

    Args:
        sessions_dir: The session files.
        journals_dir: The journals of their turns.
        records_dir: What was asked of their turns in other protocols.
        keys: The idempotency keys of their turns; None where another storage sweeps them.
        other_turns: The turns with a journal elsewhere that these keys may stand for, too.
        durable: Whether the sessions shall survive a power cut.
    """
    journal = FileTurnJournal(journals_dir, sessions_dir)
    repository = FileSessionRepository(sessions_dir, is_over=journal.was_closed, durable=durable)
    return ConversationStorage(
        place=str(sessions_dir),
        repository=repository,
        journal=journal,
        recovery=TurnRecovery(
            repository=repository, journal=journal, keys=keys, other_turns=other_turns
        ),
        records=FileRecords(records_dir, names=TURN_NAMES, kinds=TURN_KINDS, durable=False),
    )


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
    return FileIdempotencyKeys(settings.resolved_state_dir / "keys")


def build_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of people's conversations; opens nothing."""
    return _file_storage(
        settings.resolved_sessions_dir,
        settings.resolved_state_dir / "turns",
        responses_dir(settings),
        keys=build_keys(settings),
        other_turns=FileTurnJournal(ephemeral_dir(settings) / "turns").all_turns,
    )


def build_ephemeral_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of conversations that end with their turn; opens nothing."""
    return _file_storage(
        ephemeral_dir(settings) / "sessions",
        ephemeral_dir(settings) / "turns",
        ephemeral_dir(settings) / "responses",
        keys=None,
        durable=False,
    )


def responses_dir(settings: MochiSettings) -> Path:
    """Return where is what was asked of people's turns: beside the sessions that it belongs to."""
    return settings.resolved_data_dir / "responses"


def ephemeral_dir(settings: MochiSettings) -> Path:
    """Return where everything is that is kept of conversations which are not saved."""
    return settings.resolved_state_dir / "ephemeral"


def build_agent_storage(settings: MochiSettings) -> ConversationStorage:
    """Build the storage of conversations with agents; opens nothing."""
    return _file_storage(
        settings.resolved_agent_chats_dir,
        settings.resolved_state_dir / "agent_turns",
        settings.resolved_state_dir / "agent_responses",
        keys=FileIdempotencyKeys(settings.resolved_state_dir / "agent_keys"),
    )
