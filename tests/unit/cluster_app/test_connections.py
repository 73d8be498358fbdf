import asyncio
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from cluster_app.connections import POOL_VARIABLE, Cluster, process_name
from cluster_app.redis.connection import RedisConnection
from mochi_project.app import ServiceMissing, build_services
from mochi_project.configuration.loading import load_settings
from sessions_app.service import SessionManager

KEY = "0123456789abcdef0123456789abcdef"
BUILD = """
import asyncio, sys
import django
django.setup()
from mochi_project.configuration.loading import load_settings
from chat.service import ChatService
from mochi_project.app import build_services
from sessions_app.service import SessionManager
services = build_services(load_settings(data_dir=sys.argv[1]))
services.get(ChatService)
services.get(SessionManager).list()
asyncio.run(services.aclose())
print(sorted({"redis", "hiredis", "obstore"} & sys.modules.keys()))
"""


def test_a_server_of_one_machine_shares_nothing() -> None:
    with pytest.raises(ServiceMissing):
        build_services(load_settings()).get(Cluster)


@pytest.mark.allow_blocking
def test_what_is_shared_is_connected_when_it_is_used() -> None:
    settings = load_settings(journal_url="redis://nowhere.invalid:1", secret_key=KEY)
    cluster = build_services(settings).get(Cluster)

    assert isinstance(cluster.connection, RedisConnection)
    assert cluster.objects is None
    assert not cluster.hub.is_running
    assert cluster.owners.lease_seconds == 6


@pytest.mark.allow_blocking  # as libraries are imported
async def test_services_that_close_give_up_the_lease_of_their_process(
    redis_server: str, tmp_path: Path
) -> None:
    services = await asyncio.to_thread(
        build_services, load_settings(data_dir=tmp_path, journal_url=redis_server, secret_key=KEY)
    )
    owner = await asyncio.to_thread(services.get(SessionManager).repository.owners.mine)
    with redis.Redis.from_url(redis_server) as client:
        assert client.exists(f"mochi:w:{owner}")

        await services.aclose()

        assert not client.exists(f"mochi:w:{owner}")
        assert client.exists(f"mochi:dead:{owner}")


def test_a_parent_condemns_a_web_process_that_died(
    redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = secrets.token_hex(8)
    monkeypatch.setenv(POOL_VARIABLE, pool)
    settings = load_settings(journal_url=redis_server, secret_key=KEY)
    child, parent, other = (Cluster(settings) for _ in range(3))
    owner = child.owners.mine()

    parent.owners.condemn_process(process_name(pool, os.getpid()))

    assert not other.owners.lives(owner)
    child.release()


def test_without_the_variables_no_library_of_an_engine_is_imported(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "mochi_project.settings"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )

    assert built.stdout.splitlines()[-1] == "[]"
