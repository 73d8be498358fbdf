"""Sends commands to Redis from an event loop, in pipelined batches.

One pipeline is on its way at a time, and everything that came meanwhile goes with the next one: so
commands are sent at once while there are few, and in batches while there are many, without a timer.
The connection is the loop's own and the codec is hiredis': a client library's commands cost several
times as much, and there is one for every token.

While Redis is away commands are dropped, all of them: who sent them is told when it is there again,
and knows what is still to be sent.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import hiredis

from sessions_app.store.redis.url import RedisUrl

logger = logging.getLogger(__name__)

REPLY_SECONDS = 3.0
"""A connection that is silent for so long while an answer is due is given up."""
CONNECT_SECONDS = 2.0
TICK_SECONDS = 0.25
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
REPLICA_MILLISECONDS = 1000

Command = tuple[bytes | str | int, ...]
Answered = Callable[[Any], None]

pack: Callable[[Any], bytes] = hiredis.pack_command
_NOTHING = object()


def greeting_to(server: RedisUrl) -> list[Command]:
    """Return what has to be said first. The last answer tells whether it is the primary."""
    said: list[Command] = []
    if server.password is not None:
        user = () if server.username is None else (server.username,)
        said.append(("AUTH", *user, server.password))
    if server.database:
        said.append(("SELECT", server.database))
    return [*said, ("CLIENT", "SETNAME", "mochi-journal"), ("ROLE",)]


async def connected(
    server: RedisUrl, protocol: Callable[[], asyncio.Protocol]
) -> asyncio.WriteTransport:
    """Connect a protocol to a server."""
    loop = asyncio.get_running_loop()
    if server.path:
        return (await loop.create_unix_connection(protocol, server.path))[0]
    [(host, port)] = server.hosts
    tls = ssl.create_default_context() if server.tls else None
    return (await loop.create_connection(protocol, host, port, ssl=tls))[0]


class NotTheServer(OSError):
    """Raised when who answers is not a primary that lets us in."""


class PumpUser(Protocol):
    """Declares a sender: it sends commands by a pump, and sends lost ones again."""

    def lost(self) -> None:
        """Learn that Redis went away: nothing that was sent will be answered any more."""

    def found(self) -> None:
        """Learn that Redis is there again; what is sent now is sent first."""

    def aged(self, seconds: float) -> None:
        """Learn, some times a second, that time went by; not while the process was frozen."""


class Pump:
    """Sends the commands of one event loop to Redis.

    Args:
        dial: Finds the primary; called in a thread, before every attempt to connect.
        replicas: How many replicas must have what is sent before it is answered.
    """

    def __init__(self, dial: Callable[[], RedisUrl], *, replicas: int = 0) -> None:
        self._loop = asyncio.get_running_loop()
        self._dial = dial
        self._users: set[PumpUser] = set()
        self._waiting: list[bytes] = []
        self._waiting_for: list[Answered] = []
        self._sent: list[Answered] = []
        self._sent_at = 0.0
        self._answers = 0
        self._is_busy = False
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._replicas = replicas
        self._held: list[tuple[Answered, Any]] = []
        self._gets: Callable[[], Any] = lambda: _NOTHING

    @property
    def is_connected(self) -> bool:
        """Return whether Redis is there, as far as is known."""
        return self._transport is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    def add(self, user: PumpUser) -> None:
        """Let somebody send; who is told so at once where Redis is not there yet."""
        self._users.add(user)
        if self._ticking is None:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)
        if self._transport is None:
            user.lost()
            self._connect()

    def remove(self, user: PumpUser) -> None:
        """Remove a sender that sends nothing any more."""
        self._users.discard(user)

    def send(self, command: bytes, answered: Answered) -> None:
        """Send a command and have its answer told; both only as long as Redis is there."""
        if self._transport is None:
            return
        self._waiting.append(command)
        self._waiting_for.append(answered)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._flush)  # with all that comes in this round of the loop

    def drop(self, why: str) -> None:
        """Give up the connection and make another one."""
        if self._transport is not None:
            logger.warning("the connection of the journals was given up", extra={"reason": why})
            self._abort()

    def close(self) -> None:
        """End the connection; whoever still wants to send does so in vain."""
        self._users.clear()
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._abort()

    # A pipeline

    def _flush(self) -> None:
        if self._transport is None or not (self._waiting_for or self._held):
            self._is_busy = False
            return
        if self._replicas:
            self._waiting.append(pack(("WAIT", self._replicas, REPLICA_MILLISECONDS)))
        self._sent, self._waiting_for = self._waiting_for, []
        self._answers = 0
        data, self._waiting = b"".join(self._waiting), []
        self._sent_at = self._loop.time()
        self._transport.write(data)

    def received(self, link: "_Link", gets: Callable[[], Any]) -> None:
        """Take answers in; called by the connection."""
        if link.transport is not self._transport:
            return
        sent, answers = self._sent, self._answers
        try:
            if self._replicas:
                answers = self._take_held(link, gets)
            else:
                while (reply := gets()) is not _NOTHING:
                    answers += 1
                    sent[answers - 1](reply)
        except Exception:
            logger.exception("an answer of redis could not be understood")
            self.drop("an answer that can't be understood")
        if link.transport is not self._transport:
            return  # it was given up on the way
        self._answers = answers
        if answers >= len(sent) + bool(self._replicas):
            self._flush()

    def _take_held(self, link: "_Link", gets: Callable[[], Any]) -> int:
        """Tell answers only when as many replicas have everything as shall have it."""
        answers = self._answers
        while link.transport is self._transport and (reply := gets()) is not _NOTHING:
            answers += 1
            if answers <= len(self._sent):
                self._held.append((self._sent[answers - 1], reply))
            elif isinstance(reply, int) and reply >= self._replicas:
                held, self._held = self._held, []
                for answered, answer in held:
                    answered(answer)
        return answers

    # The connection

    def _connect(self) -> None:
        if self._connecting is None or self._connecting.done():
            self._connecting = self._loop.create_task(self._connect_at_last())

    async def _connect_at_last(self) -> None:
        """Connect, however often that takes, while anybody wants to send."""
        pause, is_noted = FIRST_PAUSE_SECONDS, False
        while self._users:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    server = await asyncio.to_thread(self._dial)
                    transport = await self._open(server)
            except Exception as error:  # noqa: BLE001 - a dialer's may be of any kind
                if not is_noted:
                    logger.warning("redis is away", extra={"reason": type(error).__name__})
                    is_noted = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if is_noted:
                logger.info("redis is there again")
            self._transport = transport
            self._is_busy = False
            for user in list(self._users):
                user.found()
            return

    async def _open(self, server: RedisUrl) -> asyncio.WriteTransport:
        """Return a connection to a primary that lets us in.

        Raises:
            OSError: There is none.
        """
        greeting = greeting_to(server)
        link = _Link(self, len(greeting))
        transport = await connected(server, lambda: link)
        try:
            transport.write(b"".join(map(pack, greeting)))
            await link.greeted
        except BaseException:
            transport.abort()
            raise
        return transport

    def _abort(self) -> None:
        transport = self._transport
        self._transport = None
        if transport is not None:
            transport.abort()
        self._is_busy = False
        self._sent, self._waiting, self._waiting_for, self._held = [], [], [], []
        for user in list(self._users):
            user.lost()
        if self._users:
            self._connect()

    def closed(self, link: "_Link") -> None:
        """Learn that a connection is gone; called by it."""
        if link.transport is self._transport:
            self._abort()

    def _tick(self) -> None:
        self._ticking = None
        now = self._loop.time()
        if self._is_busy and self._transport is not None and self._waits_for_answers(now):
            self.drop("no answer")
        for user in list(self._users):
            user.aged(TICK_SECONDS)
        if self._users:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    def _waits_for_answers(self, now: float) -> bool:
        due = len(self._sent) + bool(self._replicas)
        return self._answers < due and now - self._sent_at > REPLY_SECONDS


class _Link(asyncio.Protocol):
    """One connection: the answers to its greeting, then those to the pump."""

    def __init__(self, pump: Pump, greetings: int) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.greeted: asyncio.Future[None] = pump.loop.create_future()
        self._pump = pump
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._greetings = greetings
        self._answers: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Take answers in."""
        self._reader.feed(data)
        if self._greetings:
            self._take_greetings()
        else:
            self._pump.received(self, self._reader.gets)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        if not self.greeted.done():
            self.greeted.set_exception(exc or ConnectionResetError("no greeting"))
            self.greeted.exception()  # whoever waited may have given up
        self._pump.closed(self)

    def _take_greetings(self) -> None:
        while self._greetings and (reply := self._reader.gets()) is not _NOTHING:
            self._greetings -= 1
            self._answers.append(reply)
        refused = next((each for each in self._answers if isinstance(each, Exception)), None)
        if self.greeted.done():
            return
        if refused is None and not self._greetings and self._answers[-1][0] != b"master":
            refused = NotTheServer("not a primary")
        if refused is not None:
            self.greeted.set_exception(refused)
            self.greeted.exception()  # whoever waits may have given up
        elif not self._greetings:
            self.greeted.set_result(None)


class Pumps:
    """Makes one pump for each event loop of this process.

    Args:
        dial: Finds the primary; blocks.
        replicas: How many replicas must have what is sent before it is answered.
    """

    def __init__(self, dial: Callable[[], RedisUrl], *, replicas: int = 0) -> None:
        self._dial = dial
        self._replicas = replicas
        self._process = os.getpid()
        self._pumps: dict[int, Pump] = {}

    def here(self) -> Pump:
        """Return the pump of the running event loop."""
        loop = asyncio.get_running_loop()
        pump = self._pumps.get(id(loop))
        if pump is None or pump.loop is not loop or self._process != os.getpid():
            if self._process != os.getpid():
                self._process, self._pumps = os.getpid(), {}
            self._pumps = {
                key: pump for key, pump in self._pumps.items() if not pump.loop.is_closed()
            }
            pump = self._pumps[id(loop)] = Pump(self._dial, replicas=self._replicas)
        return pump

    def close(self) -> None:
        """End the connection of the running event loop."""
        with suppress(KeyError):
            self._pumps.pop(id(asyncio.get_running_loop())).close()
