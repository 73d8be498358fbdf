"""Listening sockets, and what a person is told when there can be none."""

import json
import resource
import socket
import subprocess
import sys
from typing import Any

import pytest

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.server import COLLECTION_THRESHOLDS, SWITCH_SECONDS, listen, url_of


def test_port_zero_takes_a_free_port_and_says_which() -> None:
    sockets = listen("127.0.0.1", 0)
    try:
        port = sockets[0].getsockname()[1]
        assert url_of("127.0.0.1", sockets) == f"http://127.0.0.1:{port}"
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    finally:
        for opened in sockets:
            opened.close()


def test_every_address_of_a_name_gets_the_same_port() -> None:
    sockets = listen("localhost", 0)
    try:
        assert len({opened.getsockname()[1] for opened in sockets}) == 1
    finally:
        for opened in sockets:
            opened.close()


def test_a_port_in_use_is_refused_with_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} on 127.0.0.1 is in use.*--port"):
            listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused_with_the_flag() -> None:
    with pytest.raises(ConfigurationError, match=r"can't listen on 192\.0\.2\.1:0 \(--host"):
        listen("192.0.2.1", 0)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
        assert url_of("::1", [opened]) == f"http://[::1]:{port}"


RAISE = """
import resource
from mochi_project.process.server import allow_many_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))
allow_many_connections()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(
    0 < resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2048, reason="the hard limit is too low"
)
def test_the_limit_of_open_files_is_raised_to_what_is_allowed() -> None:
    ran = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "(2048, 2048)"


LISTEN = """
import asyncio, gc, json, sys
import uvicorn
from mochi_project.process.server import WebServer

async def application(scope, receive, send):
    ...

def tell():
    print(json.dumps([sys.getswitchinterval(), gc.get_threshold()]))

async def main():
    config = uvicorn.Config(application, port=0, lifespan="off", log_level="critical")
    server = WebServer(config, on_listening=tell)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    for listening in server.servers:
        listening.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def interpreter_settings() -> list[Any]:
    """Return the switch interval and the collector's thresholds of a server that listens."""
    told = subprocess.run([sys.executable, "-c", LISTEN], capture_output=True, check=True)
    settings: list[Any] = json.loads(told.stdout)
    return settings


def test_a_thread_hands_the_interpreter_to_the_event_loop_within_a_millisecond(
    interpreter_settings: list[Any],
) -> None:
    assert interpreter_settings[0] == pytest.approx(SWITCH_SECONDS)


def test_a_server_that_listens_collects_all_objects_rarely(interpreter_settings: list[Any]) -> None:
    assert tuple(interpreter_settings[1]) == COLLECTION_THRESHOLDS
