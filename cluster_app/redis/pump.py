"""Sends commands to Redis from an event loop, in pipelined batches.

One pipeline is in flight at a time; commands that arrive meanwhile go into the next one. So a few
commands are sent immediately and many are batched, without a timer. Each loop has a connection of
its own, coded with hiredis: a client library's commands cost several times as much, and there is
one command for every token.

While Redis is unreachable all commands are dropped. Senders are notified of each new connection and
send again what was not acknowledged.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import hiredis

from sessions_app.store.redis_url import RedisUrl

logger = logging.getLogger(__name__)

REPLY_SECONDS = 3.0
"""The reply timeout: a connection without a due reply for so long is closed."""
CONNECT_SECONDS = 2.0
TICK_SECONDS = 0.25
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
"""The options of sockets, as the client library sets them: firewalls forget idle connections."""

Command = tuple[bytes | str | int, ...]
Answered = Callable[[Any], None]

pack: Callable[[Any], bytes] = hiredis.pack_command
_NOTHING = object()


def handshake_for(server: RedisUrl) -> list[Command]:
    """Return the first commands of a connection; the last one's reply has the server's role."""
    commands: list[Command] = []
    if server.password is not None:
        user = () if server.username is None else (server.username,)
        commands.append(("AUTH", *user, server.password))
    if server.database:
        commands.append(("SELECT", server.database))
    return [*commands, ("CLIENT", "SETNAME", "mochi-journal"), ("ROLE",)]


async def connected(
    server: RedisUrl, protocol: Callable[[], asyncio.Protocol]
) -> asyncio.WriteTransport:
    """Connect a protocol to a server; TCP connections are kept alive."""
    loop = asyncio.get_running_loop()
    if server.path:
        return (await loop.create_unix_connection(protocol, server.path))[0]
    [(host, port)] = server.hosts
    tls = ssl.create_default_context() if server.tls else None
    transport, _ = await loop.create_connection(protocol, host, port, ssl=tls)
    for level, option, value in KEEPALIVE:
        transport.get_extra_info("socket").setsockopt(level, option, value)
    return transport


class NotPrimary(OSError):
    """Raised when the server refuses the handshake or is not a primary."""


class CommandSender(Protocol):
    """Declares a sender: it sends commands through a pump and resends lost ones."""

    def disconnected(self) -> None:
        """Handle the loss of the connection: commands in flight get no reply any more."""

    def connected(self) -> None:
        """Handle a new connection; commands sent now are the first on it."""

    def tick(self, seconds: float) -> None:
        """Count elapsed time, a few times a second; time with the process frozen is left out."""


class Pump:
    """Sends the commands of one event loop to Redis.

    Args:
        dial: Returns the address of the primary; called in a thread before each connection attempt.
    """

    def __init__(self, dial: Callable[[], RedisUrl]) -> None:
        self._loop = asyncio.get_running_loop()
        self._dial = dial
        self._users: set[CommandSender] = set()
        self._waiting: list[bytes] = []
        self._waiting_callbacks: list[Answered] = []
        self._sent: list[Answered] = []
        self._sent_at = 0.0
        self._answers = 0
        self._is_busy = False
        self._transport: asyncio.WriteTransport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection to Redis."""
        return self._transport is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    def add(self, user: CommandSender) -> None:
        """Register a sender; call its ``disconnected`` if there is no connection yet."""
        self._users.add(user)
        if self._ticking is None:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)
        if self._transport is None:
            user.disconnected()
            self._connect()

    def remove(self, user: CommandSender) -> None:
        """Unregister a sender."""
        self._users.discard(user)

    def send(self, command: bytes, answered: Answered) -> None:
        """Send a packed command and call ``answered`` with its reply; drop it if disconnected."""
        if self._transport is None:
            return
        self._waiting.append(command)
        self._waiting_callbacks.append(answered)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._flush)  # batched with all sent in this loop iteration

    def drop(self, why: str) -> None:
        """Close the connection and open another one."""
        if self._transport is not None:
            logger.warning("the journals' connection to redis was dropped", extra={"reason": why})
            self._abort()

    def close(self) -> None:
        """Close the connection for good; commands sent afterwards are dropped."""
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
        if self._transport is None or not self._waiting_callbacks:
            self._is_busy = False
            return
        self._sent, self._waiting_callbacks = self._waiting_callbacks, []
        self._answers = 0
        data, self._waiting = b"".join(self._waiting), []
        self._sent_at = self._loop.time()
        self._transport.write(data)

    def received(self, link: "_Link", gets: Callable[[], Any]) -> None:
        """Dispatch replies to their callbacks; called by the connection."""
        if link.transport is not self._transport:
            return
        sent, answers = self._sent, self._answers
        try:
            while (reply := gets()) is not _NOTHING:
                answers += 1
                sent[answers - 1](reply)
        except Exception:
            logger.exception("a reply of redis could not be processed")
            self.drop("a reply that can't be processed")
        if link.transport is not self._transport:
            return  # a callback dropped the connection
        self._answers = answers
        if answers >= len(sent):
            self._flush()

    # The connection

    def _connect(self) -> None:
        if self._connecting is None or self._connecting.done():
            self._connecting = self._loop.create_task(self._connect_with_retries())

    async def _connect_with_retries(self) -> None:
        """Try to connect, with a backoff, as long as there are senders."""
        pause, is_noted = FIRST_PAUSE_SECONDS, False
        while self._users:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    server = await asyncio.to_thread(self._dial)
                    transport = await self._open(server)
            except Exception as error:  # noqa: BLE001 - dial may raise anything
                if not is_noted:
                    logger.warning("redis is unreachable", extra={"reason": type(error).__name__})
                    is_noted = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if is_noted:
                logger.info("redis is reachable again")
            self._transport = transport
            self._is_busy = False
            for user in list(self._users):
                user.connected()
            return

    async def _open(self, server: RedisUrl) -> asyncio.WriteTransport:
        """Connect to a primary and complete the handshake.

        Raises:
            OSError: The connection or the handshake failed.
        """
        handshake = handshake_for(server)
        link = _Link(self, len(handshake))
        transport = await connected(server, lambda: link)
        try:
            transport.write(b"".join(map(pack, handshake)))
            await link.ready
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
        self._sent, self._waiting = [], []
        self._waiting_callbacks = []
        for user in list(self._users):
            user.disconnected()
        if self._users:
            self._connect()

    def closed(self, link: "_Link") -> None:
        """Handle a closed connection; called by it."""
        if link.transport is self._transport:
            self._abort()

    def _tick(self) -> None:
        self._ticking = None
        now = self._loop.time()
        if self._is_busy and self._transport is not None and self._is_reply_overdue(now):
            self.drop("no reply in time")
        for user in list(self._users):
            user.tick(TICK_SECONDS)
        if self._users:
            self._ticking = self._loop.call_later(TICK_SECONDS, self._tick)

    def _is_reply_overdue(self, now: float) -> bool:
        return self._answers < len(self._sent) and now - self._sent_at > REPLY_SECONDS


class _Link(asyncio.Protocol):
    """One connection: parses replies, first to the handshake, then to the pump's commands."""

    def __init__(self, pump: Pump, handshake_commands: int) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.ready: asyncio.Future[None] = pump.loop.create_future()
        self._pump = pump
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._handshake_left = handshake_commands
        self._answers: list[Any] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse replies."""
        self._reader.feed(data)
        if self._handshake_left:
            self._continue_handshake()
        else:
            self._pump.received(self, self._reader.gets)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a pending handshake and notify the pump."""
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionResetError("closed during the handshake"))
            self.ready.exception()  # mark it as retrieved: nobody may be awaiting it any more
        self._pump.closed(self)

    def _continue_handshake(self) -> None:
        while self._handshake_left and (reply := self._reader.gets()) is not _NOTHING:
            self._handshake_left -= 1
            self._answers.append(reply)
        refused = next((each for each in self._answers if isinstance(each, Exception)), None)
        if self.ready.done():
            return
        if refused is None and not self._handshake_left and self._answers[-1][0] != b"master":
            refused = NotPrimary("not a primary")
        if refused is not None:
            self.ready.set_exception(refused)
            self.ready.exception()  # mark it as retrieved: nobody may be awaiting it any more
        elif not self._handshake_left:
            self.ready.set_result(None)


class Pumps:
    """Makes one pump for each event loop of this process.

    Args:
        dial: Returns the address of the primary; blocks.
    """

    def __init__(self, dial: Callable[[], RedisUrl]) -> None:
        self._dial = dial
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
            pump = self._pumps[id(loop)] = Pump(self._dial)
        return pump

    def close(self) -> None:
        """Close the pump of the running event loop."""
        with suppress(KeyError):
            self._pumps.pop(id(asyncio.get_running_loop())).close()
