import os
import subprocess
import sys
from pathlib import Path

import pytest

from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.cluster import build_cluster
from sessions_app.store.redis.connection import RedisConnection

KEY = "0123456789abcdef0123456789abcdef"
BUILD = """
import asyncio, sys
import django
django.setup()
from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.services import build_services
services = build_services(load_settings(data_dir=sys.argv[1]))
services.sessions.list()
asyncio.run(services.aclose())
print(sorted({"redis", "hiredis", "obstore"} & sys.modules.keys()))
"""


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


def test_without_the_variables_no_library_of_an_engine_is_imported(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "mochi_project.settings"},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=True,
    )

    assert built.stdout.splitlines()[-1] == "[]"
