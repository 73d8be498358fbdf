"""A real Prometheus reads what three processes count, while one of them is killed."""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.functional.metrics.conftest import pids, until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed"),
]

CONFIGURATION = """
scrape_configs:
  - job_name: mochi
    scrape_interval: 250ms
    scrape_timeout: 250ms
    static_configs:
      - targets: ["{target}"]
"""

Ask = Callable[[str], float]


@contextlib.contextmanager
def running(directory: Path, target: str) -> Iterator[str]:
    """Run Prometheus; yields its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    configuration = directory / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(target=target))
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={configuration}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(timeout=60)


@pytest.fixture
def ask(server, tmp_path) -> Iterator[Ask]:
    """Return what a query of Prometheus's yields: the one value, 0 without any."""
    with (
        running(tmp_path, urlsplit(server.url).netloc) as url,
        httpx.Client(base_url=url, trust_env=False) as client,
    ):

        def value(query: str) -> float:
            try:
                answer = client.get("/api/v1/query", params={"query": query})
            except httpx.TransportError:  # it starts
                return 0.0
            found = answer.json()["data"]["result"] if answer.status_code == 200 else []
            return float(found[0]["value"][1]) if found else 0.0

        yield value


def test_prometheus_counts_what_clients_saw_without_a_gap_or_a_double(server, ask):
    until(lambda: ask("up") == 1)
    tokens = turns = 0

    def say_to_all() -> None:
        nonlocal tokens, turns
        for worker in server.web_processes:
            chat = server.chat_with(worker)
            events = chat.say(chat.new_session(), "hello")
            (complete,) = (each.data for each in events if each.name == "message_complete")
            tokens += complete["turn_usage"]["output_tokens"]
            turns += 1

    say_to_all()
    until(lambda: ask("sum(mochi_turns_total)") == turns)
    killed = server.web_processes[0]
    killed.kill()
    until(lambda: killed.pid not in pids(server) and len(pids(server)) == 3)
    say_to_all()

    until(lambda: ask("sum(mochi_turns_total)") == turns)
    assert turns == 6
    assert ask('sum(mochi_tokens_total{type="output"})') == tokens
    assert ask("sum(resets(mochi_turns_total[5m]))") == 0
    assert ask("sum(mochi_active_turns)") == 0
