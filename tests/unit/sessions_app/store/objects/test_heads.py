"""An index reads no more of an object than it needs."""

import pytest

from sessions_app.errors import StorageUnavailable
from sessions_app.session import Session
from sessions_app.store.objects.heads import read_indexed
from sessions_app.store.objects.repository import ObjectSessionRepository
from sessions_app.store.objects.store import ObjectStore
from tests.claims import claim_session
from tests.object_server import ObjectServer, refusal
from tests.unit.sessions_app.store.objects.sessions import FIRST, KEY, say


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
