"""A TCP relay between a node and a server, on which a test cuts, delays, holds and swallows.

Needs no privileges, and acts at exact moments: at the request that a pattern names, before the
server has it, or after the server has it and before the node knows.
"""

import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Side = Literal["request", "answer"]
Address = tuple[str, int] | str

_CHUNK = 1 << 16
_LIMIT_SECONDS = 40
"""Longest that a test waits for a moment; less than a test may take, to say what did not come."""


class NeverCame(AssertionError):
    """Raised when the moment that a test waits for does not come."""


@dataclass
class Moment:
    """One request that a pattern names, and what happens then.

    Attributes:
        what: The request, in words for who reads a failure.
        reached: Set at the moment.
        may_go_on: Set by ``release``.
    """

    what: str
    reached: threading.Event = field(default_factory=threading.Event)
    may_go_on: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        """Wait until it has come."""
        if not self.reached.wait(_LIMIT_SECONDS):
            raise NeverCame(self.what)

    def release(self) -> None:
        """Let what is held go on."""
        self.may_go_on.set()


@dataclass
class _Rule:
    pattern: re.Pattern[bytes]
    nth: int
    act: Callable[["_Connection", Moment], None]
    moment: Moment


def _connect(address: Address) -> socket.socket:
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(address)
        except OSError:
            made.close()
            raise
        return made
    made = socket.create_connection(address)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class _Connection:
    """A node's connection and the one to the server, with a thread for each direction."""

    def __init__(self, relay: "Relay", node: socket.socket) -> None:
        self.swallows: Moment | None = None
        self.holds: Moment | None = None
        self._relay = relay
        self._node = node
        self._server: socket.socket | None = None
        self._directions = 2
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Reset both ends: nobody is told that the other has closed properly."""
        for end in (self._node, self._server):
            if end is not None:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._relay.forget(self)

    def _run(self) -> None:
        self._relay.wait_until_whole()
        try:
            self._server = _connect(self._relay.target)
        except OSError:
            self.close()
            return
        threading.Thread(target=self._pass_answers, daemon=True).start()
        self._pump(self._node, self._server, self._relay.meet)

    def _pass_answers(self) -> None:
        assert self._server is not None
        self._pump(self._server, self._node, _Connection._answered)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        meet: Callable[["_Connection", bytes], None],
    ) -> None:
        try:
            while data := source.recv(_CHUNK):
                self._relay.wait_until_whole()
                meet(self, data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:  # an end is gone, or the test has cut it
            self.close()
            return
        self._directions -= 1
        if not self._directions:
            self.close()

    def _answered(self, _: bytes) -> None:
        if self.swallows is not None:
            self.swallows.reached.set()
            raise ConnectionAbortedError
        if self.holds is not None:
            self.holds.reached.set()
            self.holds.may_go_on.wait()
            self.holds = None


class Relay:
    """Passes on what comes to an address of its own, until it is told otherwise.

    Args:
        target: Where the server listens: host and port, or the path of a socket.

    Attributes:
        target: Where new connections go.
        port: Where the relay listens, on 127.0.0.1.
    """

    def __init__(self, target: Address) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._whole = threading.Event()
        self._whole.set()
        self._refuses = False
        self._delay_seconds = 0.0
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()
        self._rules: list[_Rule] = []
        self._moments: list[Moment] = []
        threading.Thread(target=self._accept, daemon=True).start()

    # --- What tests do --------------------------------------------------------------------

    def cut(self) -> None:
        """Let nothing through, as a broken network does: nobody is told, and nothing is lost.

        What was on its way arrives after ``heal``, however late that is.
        """
        self._whole.clear()

    def refuse(self) -> None:
        """Reset every connection, and each new one, as where no server listens."""
        self._refuses = True
        self.drop()

    def drop(self) -> None:
        """Reset every connection; new ones are served."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            connection.close()

    def heal(self) -> None:
        """Let everything through again, what was held too, and forget what should have been."""
        with self._lock:
            self._rules = []
            moments, self._moments = self._moments, []
        for moment in moments:
            moment.release()
        self._refuses = False
        self._delay_seconds = 0.0
        self._whole.set()

    def delay(self, milliseconds: float) -> None:
        """Have each request wait so long before the server gets it."""
        self._delay_seconds = milliseconds / 1000

    def hold(self, pattern: bytes, *, nth: int = 1, side: Side = "request") -> Moment:
        """Stop a connection at the nth request from now on that a pattern is found in.

        Args:
            pattern: A regular expression.
            nth: Which of them.
            side: Before the server gets the request, or before the node gets its answer.
        """

        def act(connection: _Connection, moment: Moment) -> None:
            if side == "answer":
                connection.holds = moment
                return
            moment.reached.set()
            moment.may_go_on.wait()

        return self._add(pattern, nth, side, act)

    def swallow_answer(self, pattern: bytes, *, nth: int = 1) -> Moment:
        """Have the server do what the nth such request asks, and reset the connection then."""

        def act(connection: _Connection, moment: Moment) -> None:
            connection.swallows = moment

        return self._add(pattern, nth, "answer", act)

    def close(self) -> None:
        """End the relay and all its connections."""
        self._listener.close()
        self.heal()
        self.drop()

    # --- What connections ask -------------------------------------------------------------

    def wait_until_whole(self) -> None:
        """Return at once, or when a cut has healed."""
        self._whole.wait()

    def meet(self, connection: _Connection, data: bytes) -> None:
        """Do what a test wants at this request."""
        if self._delay_seconds:
            threading.Event().wait(self._delay_seconds)
        if not self._rules:
            return
        with self._lock:
            met = [rule for rule in self._rules if rule.pattern.search(data)]
            for rule in met:
                rule.nth -= 1
            due = [rule for rule in met if rule.nth == 0]
            self._rules = [rule for rule in self._rules if rule not in due]
        for rule in due:
            rule.act(connection, rule.moment)

    def forget(self, connection: _Connection) -> None:
        """Know a closed connection no more."""
        with self._lock:
            self._open.discard(connection)

    def _add(
        self,
        pattern: bytes,
        nth: int,
        side: Side,
        act: Callable[[_Connection, Moment], None],
    ) -> Moment:
        moment = Moment(f"{side} {nth} of {pattern!r}")
        with self._lock:
            self._moments.append(moment)
            self._rules.append(_Rule(re.compile(pattern, re.DOTALL), nth, act, moment))
        return moment

    def _accept(self) -> None:
        while True:
            try:
                node, _ = self._listener.accept()
            except OSError:
                return
            node.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._refuses:
                node.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                node.close()
                continue
            with self._lock:
                self._open.add(_Connection(self, node))
