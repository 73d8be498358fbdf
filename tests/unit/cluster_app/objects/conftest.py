"""Sessions in an object store, as several processes see them."""

from collections.abc import Callable

import pytest

from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore
from sessions_app.session import Session, SessionMetadata
from tests.contract.memory_index import MemorySessionIndex
from tests.contract.memory_repository import MemoryOwners
from tests.unit.cluster_app.objects.sessions import FIRST, LATER

OpenRepository = Callable[..., ObjectSessionRepository]


@pytest.fixture
def new_session() -> Session:
    return Session(
        metadata=SessionMetadata(session_id=FIRST, model="m", created_at=LATER, updated_at=LATER)
    )


@pytest.fixture
def owners() -> MemoryOwners:
    return MemoryOwners()


@pytest.fixture
def index() -> MemorySessionIndex:
    return MemorySessionIndex()


@pytest.fixture
def open_repository(
    object_store: ObjectStore,
    owners: MemoryOwners,
    index: MemorySessionIndex,
) -> OpenRepository:
    """Return what opens the same sessions as another process would, which remembers nothing."""
    return lambda retry_seconds=0.0: ObjectSessionRepository(
        object_store.under("sessions"),
        deleted=object_store.under("deleted"),
        owners=owners,
        index=index,
        retry_seconds=retry_seconds,
    )


@pytest.fixture
def repository(open_repository: OpenRepository) -> ObjectSessionRepository:
    return open_repository()
