"""An index reads no more of an object than it needs."""

import pytest

from cluster_app.objects import store
from cluster_app.objects.heads import read_indexed
from cluster_app.objects.repository import ObjectSessionRepository
from cluster_app.objects.store import ObjectStore, ObjectTooLarge
from sessions_app.errors import SessionCorrupt, SessionNotFound, StorageUnavailable
from sessions_app.session import Session
from sessions_app.store.listing import HEAD_SIZE
from sessions_app.store.repository import Unreadable
from tests.claims import claim_session
from tests.object_server import ObjectServer, refusal
from tests.unit.cluster_app.objects.sessions import FIRST, KEY, say


def test_the_beginning_of_an_object_shows_its_claim(
    repository: ObjectSessionRepository,
    object_store: ObjectStore,
    object_server: ObjectServer,
    new_session: Session,
) -> None:
    repository.create(new_session)
    claim_session(repository, FIRST, "t1", change=say("Hello"))
    object_server.forget_requests()
    indexed = read_indexed(object_store.under("sessions"), FIRST)
    assert len(object_server.requests) == 1
    assert indexed is not None
    assert indexed.found == repository.load(FIRST).metadata
    assert indexed.claim is not None
    assert (indexed.claim.turn_id, indexed.claim.owner) == ("t1", repository.owners.mine())
    assert indexed.etag == object_store.get(KEY).tag.etag


def test_what_is_about_to_be_removed_is_there_no_more(
    repository: ObjectSessionRepository,
    object_store: ObjectStore,
    object_server: ObjectServer,
    new_session: Session,
) -> None:
    repository.create(new_session)
    with (
        object_server.meddled(
            lambda request, serve: refusal("503 Slow Down") if request.query else serve()
        ),
        pytest.raises(StorageUnavailable),
    ):
        repository.delete(FIRST)
    assert object_store.get(KEY).data
    assert read_indexed(object_store.under("sessions"), FIRST) is None


def test_an_object_that_is_larger_than_any_session_is_not_read_and_costs_itself_alone(
    repository: ObjectSessionRepository,
    object_store: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "LARGEST_BYTES", 2 * HEAD_SIZE)
    object_store.put_new(KEY, b" " * (2 * HEAD_SIZE + 1))

    with pytest.raises(ObjectTooLarge):
        object_store.get(KEY)
    indexed = read_indexed(object_store.under("sessions"), FIRST)
    assert indexed is not None
    assert isinstance(indexed.found, Unreadable)
    with pytest.raises(SessionCorrupt):
        repository.load(FIRST)
    repository.delete(FIRST)
    with pytest.raises(SessionNotFound):
        repository.load(FIRST)
