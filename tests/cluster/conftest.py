"""Several nodes on one machine, with a Redis and an object store behind relays."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.inspector import Inspector
from tests.cluster.nodes import Cluster, clusters
from tests.cluster.servers import StoreServer
from tests.functional.conftest import block

HERE = Path(__file__).parent
LONGEST = HERE / "test_random_faults.py"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep everything here out of the default run: it starts dozens of servers.

    What takes a quarter of the time begins first, or it would run alone at the end.
    """
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
    items.sort(key=lambda item: item.path != LONGEST)


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """Return the object store of all clusters; each has a prefix of its own."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    server = StoreServer()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def make_cluster(
    store_server: StoreServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Cluster]]:
    """Return how to make a cluster; it ends with the module."""
    yield from clusters(tmp_path_factory.mktemp("cluster"), store_server)


@pytest.fixture(scope="module")
def three_nodes(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Return the three nodes of a module, however a test before has left them."""
    return make_cluster()


@pytest.fixture
def cluster(three_nodes: Cluster) -> Iterator[Cluster]:
    """Return three nodes that are well, and share nothing but Redis and the store."""
    three_nodes.heal()
    yield three_nodes
    three_nodes.heal()
    for node in three_nodes.nodes:
        assert node.left_behind() == []


@pytest.fixture
def inspect_of() -> Iterator[Callable[[Cluster], Inspector]]:
    """Return how to look at what a cluster keeps."""
    made: list[Inspector] = []

    def look(cluster: Cluster) -> Inspector:
        made.append(Inspector(cluster))
        return made[-1]

    yield look
    for inspector in made:
        inspector.close()


@pytest.fixture
def inspect(cluster: Cluster, inspect_of: Callable[[Cluster], Inspector]) -> Inspector:
    """Return who looks at what the nodes keep."""
    return inspect_of(cluster)


@pytest.fixture
def script() -> Callable[..., str]:
    """Return how to write a message that scripts its answer."""
    return block


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Return how to wait for a condition."""

    def wait(condition: Callable[[], Any], seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "it never came true"
            time.sleep(0.01)
        return value

    return wait
