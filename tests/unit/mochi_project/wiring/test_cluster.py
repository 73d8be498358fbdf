import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.cluster import build_cluster
from sessions_app.store.redis.connection import RedisConnection

KEY = "0123456789abcdef0123456789abcdef"


def test_a_server_of_one_machine_shares_nothing() -> None:
    assert build_cluster(load_settings()) is None


@pytest.mark.allow_blocking
def test_what_is_shared_is_connected_when_it_is_used() -> None:
    settings = load_settings(
        journal_url="redis://nowhere.invalid:1", journal_replicas=2, secret_key=KEY
    )
    cluster = build_cluster(settings)

    assert cluster is not None
    assert isinstance(cluster.connection, RedisConnection)
    assert cluster.connection.replicas == 2
    assert cluster.objects is None
    assert not cluster.hub.is_running
