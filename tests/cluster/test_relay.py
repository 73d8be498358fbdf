"""The relay does what it is told, and nothing else: what tests of nodes find is the nodes'."""

import socket
import threading

import pytest

from tests.cluster.relay import Relay


class Echo:
    """Answers each line with "did " and the line, and remembers what it did."""

    def __init__(self):
        self.done = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            for line in connection.makefile("rb"):
                self.done.append(line)
                connection.sendall(b"did " + line)


@pytest.fixture
def echo():
    server = Echo()
    yield server
    server.listener.close()


@pytest.fixture
def relay(echo):
    between = Relay(echo.listener.getsockname())
    yield between
    between.close()


@pytest.fixture
def connect(relay):
    made = []

    def make():
        made.append(socket.create_connection(("127.0.0.1", relay.port), timeout=60))
        return made[-1]

    yield make
    for each in made:
        each.close()


def ask(connection, line):
    connection.sendall(line)
    return connection.recv(100)


def is_reset(make):
    """Return whether a connection is reset, maybe before it is made."""
    try:
        return make().recv(100) == b""
    except ConnectionResetError:
        return True


def test_it_passes_on_what_comes(connect):
    first, second = connect(), connect()

    assert ask(first, b"one\n") == b"did one\n"
    assert ask(second, b"two\n") == b"did two\n"
    assert ask(first, b"three\n") == b"did three\n"


def test_an_end_is_passed_on_after_what_was_sent_before_it(connect):
    connection = connect()
    connection.sendall(b"last words\n")
    connection.shutdown(socket.SHUT_WR)

    assert connection.makefile("rb").read() == b"did last words\n"


def test_what_is_sent_through_a_cut_arrives_when_it_heals(connect, relay, echo):
    connection = connect()
    ask(connection, b"before\n")
    relay.cut()
    connection.sendall(b"meanwhile\n")
    later = connect()
    later.sendall(b"new\n")
    connection.settimeout(0.05)
    with pytest.raises(TimeoutError):
        connection.recv(100)
    assert echo.done == [b"before\n"]

    connection.settimeout(60)
    relay.heal()
    assert connection.recv(100) == b"did meanwhile\n"
    assert later.recv(100) == b"did new\n"


def test_a_server_that_refuses_resets_old_and_new_connections(connect, relay):
    connection = connect()
    ask(connection, b"before\n")
    relay.refuse()
    assert is_reset(lambda: connection)
    assert is_reset(connect)

    relay.heal()
    assert ask(connect(), b"again\n") == b"did again\n"


def test_a_request_can_be_held_before_the_server_has_it(connect, relay, echo):
    connection, other = connect(), connect()
    held = relay.hold(rb"^PUT", nth=2)
    assert ask(connection, b"PUT 1\n") == b"did PUT 1\n"
    connection.sendall(b"PUT 2\n")
    held.wait()
    assert ask(other, b"PUT 3\n") == b"did PUT 3\n"
    assert b"PUT 2\n" not in echo.done

    held.release()
    assert connection.recv(100) == b"did PUT 2\n"


def test_an_answer_can_be_held_after_the_server_has_the_request(connect, relay, echo):
    connection = connect()
    held = relay.hold(rb"^PUT", side="answer")
    connection.sendall(b"PUT 1\n")
    held.wait()
    assert echo.done == [b"PUT 1\n"]

    held.release()
    assert connection.recv(100) == b"did PUT 1\n"
    assert ask(connection, b"PUT 2\n") == b"did PUT 2\n"


def test_an_answer_can_be_lost_after_the_server_has_the_request(connect, relay, echo):
    connection = connect()
    assert ask(connection, b"GET\n") == b"did GET\n"
    lost = relay.swallow_answer(rb"^PUT")
    connection.sendall(b"PUT 1\n")
    lost.wait()
    assert is_reset(lambda: connection)
    assert echo.done == [b"GET\n", b"PUT 1\n"]
    assert ask(connect(), b"PUT 2\n") == b"did PUT 2\n"


def test_healing_lets_go_what_is_held_and_forgets_what_is_not(connect, relay):
    connection = connect()
    held = relay.hold(rb"PUT")
    relay.hold(rb"GET")
    connection.sendall(b"PUT\n")
    held.wait()
    relay.heal()

    assert connection.recv(100) == b"did PUT\n"
    assert ask(connection, b"GET\n") == b"did GET\n"


def test_requests_can_be_late(connect, relay):
    connection = connect()
    relay.delay(1)

    assert ask(connection, b"late\n") == b"did late\n"
