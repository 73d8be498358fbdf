"""Turns of dead nodes end whoever owns them, on nodes that have never loaded the owner."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chat.conversation_storage import KEY_PREFIXES, SessionKind, Storages
from chat.turn.turn_ids import new_turn_id
from cluster_app.chores import seal_hinted
from cluster_app.connections import Cluster
from cluster_app.redis.owner_hints import OwnerHints
from mochi_project.app import ServicePool
from mochi_project.configuration.loading import load_settings
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.session import make_session
from tests.claims import claim_session
from tests.redis_server import running_redis
from tests.unit.cluster_app.test_connections import KEY

NewNode = Callable[[], ServicePool]
pytestmark = pytest.mark.allow_blocking


@pytest.fixture
def new_node(tmp_path: Path, object_url: str) -> Iterator[NewNode]:
    """Return what makes the services of a node, of which no process is there."""
    with running_redis("--appendonly", "no") as url:
        nodes: list[ServicePool] = []

        def make() -> ServicePool:
            settings = load_settings(
                data_dir=tmp_path / str(len(nodes)),
                journal_url=url,
                sessions_url=object_url,
                secret_key=KEY,
            )
            nodes.append(ServicePool(settings))
            return nodes[-1]

        yield make
        for node in nodes:
            node.shared.get(Cluster).release()


def begin_turn(node: ServicePool, owner: str, kind: SessionKind, *, journal: bool = True) -> str:
    """Begin a turn that nothing will end; return its session."""
    storage = node.of(owner).get(Storages)[kind]
    session_id, turn_id = new_session_id(), new_turn_id()
    mine = node.shared.get(Cluster).owners.mine()
    storage.repository.create(make_session(session_id, "m", now=utc_now()))
    claim_session(storage.repository, session_id, turn_id, owner=mine)
    if journal:
        storage.journal.open(session_id, turn_id, owner=mine)
    return session_id


def seal(node: ServicePool) -> None:
    cluster = node.shared.get(Cluster)
    seal_hinted(OwnerHints(cluster.connection), cluster.owners.lives, node)


def is_claimed(node: ServicePool, owner: str, kind: SessionKind, session_id: str) -> bool:
    return node.of(owner).get(Storages)[kind].repository.claim_of(session_id) is not None


@pytest.mark.parametrize("journal", [True, False], ids=["with a journal", "before its journal"])
def test_turns_of_all_owners_and_kinds_end_after_their_node_and_only_those(
    new_node: NewNode, *, journal: bool
) -> None:
    dying, other = new_node(), new_node()
    other.shared.get(Cluster).owners.mine()
    turns = [
        (owner, kind, begin_turn(dying, owner, kind, journal=journal))
        for owner in ("anna", "bob")
        for kind in SessionKind
    ]
    living = begin_turn(other, "anna", SessionKind.CHAT, journal=journal)
    seal(other)
    assert all(is_claimed(other, *turn) for turn in turns)

    dying.shared.get(Cluster).release()
    third = new_node()
    seal(third)

    assert [turn for turn in turns if is_claimed(third, *turn)] == []
    assert is_claimed(third, "anna", SessionKind.CHAT, living)
    hints = OwnerHints(third.shared.get(Cluster).connection)
    assert hints.due(lambda process: process == other.shared.get(Cluster).owners.mine()) == {}


def test_an_owner_without_dead_turns_is_not_loaded(new_node: NewNode) -> None:
    dying, other = new_node(), new_node()
    begin_turn(dying, "anna", SessionKind.CHAT)
    begin_turn(other, "bob", SessionKind.CHAT)
    dying.shared.get(Cluster).release()
    third = new_node()
    seal(third)
    assert set(third.loaded()) == {"anna"}


def test_an_owner_who_can_not_be_loaded_keeps_nobody_waiting(new_node: NewNode) -> None:
    dying, other = new_node(), new_node()
    session_id = begin_turn(dying, "anna", SessionKind.CHAT)
    connection = dying.shared.get(Cluster).connection
    connection.client.hset(connection.root_key("owners", "claimed"), "../etc:a1b2c3d4e5", "@0")
    dying.shared.get(Cluster).release()
    with pytest.raises(ValueError, match="no name of an owner"):
        seal(other)
    assert not is_claimed(other, "anna", SessionKind.CHAT, session_id)


def test_each_kind_has_a_prefix_of_its_own() -> None:
    assert sorted(KEY_PREFIXES) == sorted(SessionKind)
    assert len(set(KEY_PREFIXES.values())) == len(SessionKind)
