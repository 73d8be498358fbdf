"""Sessions of a directory, and the questions about their tools."""

from pathlib import Path

import pytest

from chat.activity.states import StateReader
from chat.approvals.store import ConfirmationStore
from sessions_app.service import SessionManager
from tests.contract.memory_storage import MemoryRecords


@pytest.fixture
def questions() -> ConfirmationStore:
    return ConfirmationStore(MemoryRecords(), timeout_seconds=300)


@pytest.fixture
def manager(tmp_path: Path) -> SessionManager:
    return SessionManager(tmp_path / "sessions")


@pytest.fixture
def states(manager: SessionManager, questions: ConfirmationStore) -> StateReader:
    return StateReader(manager.repository, questions)
