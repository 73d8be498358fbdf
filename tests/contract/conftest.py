"""Repositories, whatever they keep sessions in."""

from pathlib import Path

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from sessions_app.store.file_repository import FileSessionRepository
from sessions_app.store.repository import SessionRepository
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners, MemorySessionRepository


@pytest.fixture(params=["files", "files that keep what begins", "memory", "objects"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> SessionRepository:
    if request.param == "memory":
        return MemorySessionRepository()
    if request.param == "objects":
        return ObjectSessionRepository(
            (objects := request.getfixturevalue("object_store")).under("sessions"),
            deleted=objects.under("deleted"),
            owners=MemoryOwners(),
            index=MemorySessionIndex(),
        )
    return FileSessionRepository(tmp_path / "sessions", keeps_begun=request.param != "files")
