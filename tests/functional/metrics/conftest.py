"""A server with several web processes that counts, and a reader of what it says."""

import time
from collections.abc import Callable, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.functional.conftest import Server, StartServer

Labels = frozenset[tuple[str, str]]
Values = Mapping[tuple[str, Labels], float]


def read_text(text: str) -> Values:
    """Return the samples of a text of Prometheus's by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(values: Values, name: str, **labels: str) -> float:
    """Return the sum of a metric's values that have these labels."""
    wanted = set(labels.items())
    return sum(value for (each, has), value in values.items() if each == name and wanted <= has)


def pids(server: Server) -> set[int]:
    """Return the web processes by number, the killed ones as well that nobody has reaped."""
    return {process.pid for process in server.web_processes}


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server(start_once: StartServer) -> Server:
    return start_once("--workers", "3", MOCHI_METRICS="true")


@pytest.fixture
def metrics(server: Server) -> Callable[[], Values]:
    chat = server.chat()
    root = server.url

    def read() -> Values:
        # Each on a connection of its own: a kept one may belong to a process that was killed.
        answer = chat.http.get(f"{root}/metrics", headers={"Connection": "close"})
        assert answer.status_code == 200
        return read_text(answer.text)

    return read
