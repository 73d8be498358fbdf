"""A store that ignores conditions is told from one that keeps to them."""

import pytest

from cluster_app.objects import probe
from cluster_app.objects.probe import (
    ConditionsIgnored,
    require_atomic_conditions,
    require_conditions,
)
from cluster_app.objects.store import ObjectStore
from sessions_app.errors import StorageUnavailable
from tests.object_server import Answer, ObjectServer, Request, Serve, refusal


def test_a_store_that_keeps_to_conditions_passes_and_stays_empty(
    object_store: ObjectStore,
) -> None:
    require_conditions(object_store)
    require_atomic_conditions(object_store)
    assert list(object_store.list()) == []


@pytest.mark.parametrize("ignored", ["IF_MATCH", "IF_NONE_MATCH"])
def test_a_store_that_ignores_conditions_is_refused(
    object_store: ObjectStore, object_server: ObjectServer, ignored: str
) -> None:
    with object_server.meddled(lambda request, serve: serve(ignored)):
        with pytest.raises(ConditionsIgnored, match="ignores the conditions of writes"):
            require_conditions(object_store)
        with pytest.raises(ConditionsIgnored, match="8 of 8 writers at once"):
            require_atomic_conditions(object_store)
    assert list(object_store.list()) == []


def test_a_store_that_looks_before_it_writes_is_found_by_a_race(
    object_store: ObjectStore, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers find that the condition holds, then both write."""
    monkeypatch.setattr(probe, "WRITERS", 2)
    swaps: list[Request] = []

    def let_both_pass(request: Request, serve: Serve) -> Answer:
        if request.if_match is None:
            return serve()
        swaps.append(request)
        return serve() if len(swaps) % 2 else serve("IF_MATCH")

    with (
        object_server.meddled(let_both_pass),
        pytest.raises(ConditionsIgnored, match="2 of 2 writers at once replace one object"),
    ):
        require_atomic_conditions(object_store)


def test_a_store_that_does_not_answer_is_no_store_that_ignores(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    with object_server.meddled(lambda request, serve: refusal("503 Slow Down")):
        for ask in (require_conditions, require_atomic_conditions):
            with pytest.raises(StorageUnavailable):
                ask(object_store)
