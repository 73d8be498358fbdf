"""How many connections may wait for their client."""

import resource

import pytest

from mochi_project.uvicorn_protocol.waiting_connections import MOST, WaitingConnections


class Transport:
    closed = False

    def close(self):
        self.closed = True


def test_the_connection_that_waits_longest_is_closed_for_the_newest():
    waiting = WaitingConnections(2)
    first, second, third = Transport(), Transport(), Transport()
    waiting.add(first)
    waiting.add(second)
    waiting.add(first)  # it was served meanwhile
    waiting.add(third)
    assert [transport.closed for transport in (first, second, third)] == [False, True, False]


def test_a_connection_that_is_served_is_not_counted():
    waiting = WaitingConnections(1)
    first, second = Transport(), Transport()
    waiting.add(first)
    waiting.discard(first)
    waiting.discard(second)
    waiting.add(second)
    assert not first.closed


@pytest.mark.parametrize(
    ("files", "most"), [(resource.RLIM_INFINITY, MOST), (65_536, MOST), (256, 64), (1, 1)]
)
def test_where_few_files_may_be_open_few_connections_may_wait(files, most, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    waiting = WaitingConnections()
    transports = [Transport() for _ in range(most + 1)]
    for transport in transports:
        waiting.add(transport)
    assert [transport.closed for transport in transports] == [True] + [False] * most
