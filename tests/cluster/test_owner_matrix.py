"""Each operation of each protocol, with the ids of another owner, on nodes that take turns."""

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from tests.cluster.inspector import Inspector
from tests.cluster.nodes import ADMIN, TOKEN, Cluster, NextNode
from tests.functional.keys.conftest import Person, folder_of, plant
from tests.functional.keys.requests import unknown
from tests.functional.keys.test_matrix import SECRET, asks_everywhere, send


@pytest.fixture(scope="module")
def people(make_cluster) -> Iterator[tuple[Cluster, Person, Person]]:
    """Return a cluster, and two people of whom one has things of all kinds."""
    cluster = make_cluster(
        MOCHI_API_TOKEN=TOKEN,
        MOCHI_MCP_SERVER="true",
        MOCHI_METRICS="true",
        MOCHI_LEASE_SECONDS="30",
    )
    for node in cluster.nodes:
        folder_of(node)
    cluster.start()
    anna, ben = (
        Person(owner, "", "", next_node(cluster, headers))
        for owner, headers in cluster.keys_of("anna", "ben").items()
    )
    plant(anna, SECRET)
    yield cluster, anna, ben
    for person in (anna, ben):
        person.http.close()


def next_node(cluster: Cluster, headers: dict[str, str]) -> httpx.Client:
    transport = NextNode(lambda: cluster.running)
    return httpx.Client(base_url="http://cluster", transport=transport, headers=headers, timeout=60)


def objects_of(inspector: Inspector, owner: str) -> dict[str, str]:
    """Return the digest of every object of an owner."""
    names = [name for name in inspector.objects() if name.startswith(f"users/{owner}/")]
    return {name: hashlib.sha256(inspector.read(name)).hexdigest() for name in names}


def test_ids_of_others_are_as_unknown_on_each_node_as_those_of_nobody(people, inspect_of):
    """Somebody asks any node, in any protocol, with ids of another owner: it answers as it does to
    ids that nothing has, and nothing of the other owner changes.
    """
    cluster, anna, ben = people
    document = httpx.get(f"{cluster.nodes[0].url}/api/v1/openapi.json", headers=ADMIN).json()
    inspector = inspect_of(cluster)
    before = objects_of(inspector, "anna")
    assert len(before) > 10
    theirs = {**anna.ids, "file": "a file of one's own"}
    nobodys = unknown(theirs)
    wrong = []
    pairs = zip(asks_everywhere(document, theirs), asks_everywhere(document, nobodys), strict=True)
    for real, unreal in pairs:
        (status, text), (expected, _) = send(ben, real), send(ben, unreal)
        is_told = SECRET in text and SECRET not in str((real.path, real.params, real.json))
        if status != expected or is_told:
            wrong.append((str(real), status, expected, text))
    assert wrong == []
    assert objects_of(inspector, "anna") == before
