"""Sends signals to turns through Redis: one stream for each process that runs turns.

The sender looks the process up in ``m:{turn}``, a hash that the journal maintains. The process
reads its stream through the hub and deletes the entries that it takes, so streams are usually
empty. Entries that nobody takes are trimmed after an hour.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from chat.storage.signals import KINDS, SignalKind
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Entries, Hub
from sessions_app.errors import StorageError
from sessions_app.store.owners import Owners

logger = logging.getLogger(__name__)

VERSION = b"1"
"""The format version of signals; raised when the meaning of a kind changes."""
LIFETIME_SECONDS = 3600
RETRY_SECONDS = 0.25
"""The pause before a process without an owner id tries again to get one."""

# Finds the stream and the signal in it. ARGV: key prefix of streams, turn, kind, version.
# The field `worker` has the owner id; it keeps its first name, which other versions read.
_FIND = """
local worker = redis.call('HGET', KEYS[1], 'worker')
if not worker then return 0 end
local stream = ARGV[1] .. worker
local found = nil
for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
  local fields = entry[2]
  if fields[2] == ARGV[2] and fields[4] == ARGV[3] and fields[6] == ARGV[4] then
    found = entry[1]
  end
end
"""
_SEND = (
    _FIND
    + """
if redis.call('HEXISTS', KEYS[1], 'ended') == 1 then return 0 end
if found then redis.call('XDEL', stream, found) end
local oldest = (tonumber(redis.call('TIME')[1]) - ARGV[5]) * 1000
redis.call('XADD', stream, 'MINID', string.format('%.0f', oldest), '*',
  't', ARGV[2], 'k', ARGV[3], 'v', ARGV[4])
redis.call('EXPIRE', stream, ARGV[5])
return 1
"""
)
_WITHDRAW = _FIND + "if found then return redis.call('XDEL', stream, found) end return 0"
_IS_WAITING = _FIND + "if found then return 1 end return 0"


class _Watch:
    """Calls a callback when the followed stream has new signals, until it is stopped."""

    def __init__(self, hub: Hub, changed: Callable[[], object]) -> None:
        self.is_stopped = threading.Event()
        self._hub = hub
        self._changed = changed
        self._stream = ""
        self._unfollow: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def follow(self, stream: str) -> bool:
        """Follow only this stream; return False if it is followed already or after ``stop``."""
        with self._lock:
            if self.is_stopped.is_set() or stream == self._stream:
                return False
            if self._unfollow is not None:
                self._unfollow()
            self._stream = stream
            self._unfollow = self._hub.follow(stream, "$", self._received)
            return True

    def stop(self) -> None:
        """Stop following for good."""
        with self._lock:
            self.is_stopped.set()
            if self._unfollow is not None:
                self._unfollow()

    def _received(self, _entries: Entries) -> None:
        """Notify, also without entries: the hub calls so at first and after a reconnect."""
        self._changed()


class RedisSignals:
    """Sends signals to turns of any process; implements ``Signals``.

    Args:
        connection: The Redis connection.
        owners: Has the owner id of this process.
        hub: Follows the stream of this process.
    """

    def __init__(self, connection: RedisConnection, *, owners: Owners, hub: Hub) -> None:
        self._connection = connection
        self._owners = owners
        self._hub = hub
        self._watches: list[_Watch] = []
        self._is_subscribed = False
        self._lock = threading.Lock()

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Send a signal to the turn's owner; do nothing if the turn has no owner any more.

        Raises:
            StorageUnavailable: Redis cannot be reached.
            StorageFull: Redis is out of memory.
        """
        self._call(_SEND, turn_id, kind, LIFETIME_SECONDS)

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Delete a signal that its owner has not taken; only log it if Redis is unreachable.

        A signal that remains is harmless: by now, handling it has no effect.
        """
        try:
            self._call(_WITHDRAW, turn_id, kind)
        except StorageError as error:
            logger.info("a signal could not be withdrawn", extra={"reason": error.message})

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        return bool(self._call(_IS_WAITING, turn_id, kind))

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and delete the signals to these turns, which this process runs.

        Raises:
            StorageUnavailable: Redis cannot be reached.
        """
        stream = self._stream(self._owners.mine())
        with self._connection.translated():
            client: Any = self._connection.client
            wanted = [
                (entry, (fields[b"t"].decode(), fields[b"k"].decode()))
                for entry, fields in client.xrange(stream)
                if fields.get(b"v") == VERSION
                and fields[b"t"].decode() in turn_ids
                and fields[b"k"].decode() in KINDS
            ]
            if not wanted:
                return []
            pipeline = client.pipeline(transaction=False)
            for entry, _ in wanted:
                pipeline.xdel(stream, entry)
            removed = pipeline.execute()
        return [signal for (_, signal), ours in zip(wanted, removed, strict=True) if ours]

    def watch(self, changed: Callable[[], object]) -> Callable[[], None]:
        """Call ``changed`` in the hub's thread when there may be signals; return a stop function.

        Switches to another stream whenever this process gets a new owner id.
        """
        watch = _Watch(self._hub, changed)
        with self._lock:
            if not self._is_subscribed:
                self._owners.when_condemned(self._follow_again)
                self._is_subscribed = True
            self._watches.append(watch)
        self._follow_in_thread(watch)

        def stop() -> None:
            with self._lock:
                self._watches.remove(watch)
            watch.stop()

        return stop

    def sweep(self, older_than_seconds: float) -> None:
        """Do nothing: signals that nobody takes expire in Redis."""

    def _follow_again(self, _lost: str) -> None:
        """Follow the stream of this process's new owner id, which its next turns have."""
        for watch in list(self._watches):
            self._follow_in_thread(watch)

    def _follow_in_thread(self, watch: _Watch) -> None:
        """Follow in a thread: the owner id may have to be read from Redis, which blocks."""
        threading.Thread(
            target=self._follow, args=(watch,), name="signals-follow", daemon=True
        ).start()

    def _follow(self, watch: _Watch) -> None:
        """Follow the stream of the current owner id; repeat if the id changed meanwhile."""
        while not watch.is_stopped.is_set():
            try:
                if not watch.follow(self._stream(self._owners.mine())):
                    return
            except StorageError:  # without Redis it has no owner id, and runs no turns either
                watch.is_stopped.wait(RETRY_SECONDS)

    def _stream(self, owner: str) -> str:
        return self._connection.root_key("sig", owner)

    def _call(self, lua: str, turn_id: str, kind: str, *more: int) -> Any:
        args = [self._stream(""), turn_id, kind, VERSION, *more]
        return self._connection.run(lua, self._connection.root_key("m", turn_id), args=args)
