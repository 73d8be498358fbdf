"""Keeps signals to turns in Redis: one stream for each process that runs turns.

Who sends a signal finds the process by the turn, in ``m:{turn}``, which the journal keeps. The
process follows its stream with those of the turns that it follows, and takes from it what is meant
for its turns; so streams are empty as a rule. What nobody takes is gone after an hour.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

from chat.storage.redis.hub import Entries, Hub
from chat.storage.signals import KINDS, SignalKind
from sessions_app.errors import StorageError
from sessions_app.store.owners import Owners
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

VERSION = b"1"
"""Of signals; it changes when one of a kind means something else."""
LIFETIME_SECONDS = 3600
AGAIN_SECONDS = 0.25
"""The pause before a process that has no name asks for one again."""

# Finds the stream and the signal in it. ARGV: how keys of streams begin, turn, kind, version.
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
    """Calls one who wants to know of signals, as long as it is not stopped."""

    def __init__(self, hub: Hub, changed: Callable[[], object]) -> None:
        self.is_over = threading.Event()
        self._hub = hub
        self._changed = changed
        self._stream = ""
        self._unfollow: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def follow(self, stream: str) -> bool:
        """Follow this stream and no other; False when that is done already, or not wanted."""
        with self._lock:
            if self.is_over.is_set() or stream == self._stream:
                return False
            if self._unfollow is not None:
                self._unfollow()
            self._stream = stream
            self._unfollow = self._hub.follow(stream, "$", self._received)
            return True

    def stop(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            self.is_over.set()
            if self._unfollow is not None:
                self._unfollow()

    def _received(self, _entries: Entries) -> None:
        """Tell of entries; the hub tells of none when it begins, and when Redis is back."""
        self._changed()


class RedisSignals:
    """Sends signals to turns of any process; implements ``Signals``.

    Args:
        connection: Where they are.
        owners: Knows the name of this process.
        hub: Follows the stream of this process.
    """

    def __init__(self, connection: RedisConnection, *, owners: Owners, hub: Hub) -> None:
        self._connection = connection
        self._owners = owners
        self._hub = hub
        self._send = connection.script(_SEND)
        self._withdraw = connection.script(_WITHDRAW)
        self._is_waiting = connection.script(_IS_WAITING)
        self._watches: list[_Watch] = []
        self._is_told_of_names = False
        self._lock = threading.Lock()

    def send(self, turn_id: str, kind: SignalKind) -> None:
        """Leave a signal for the turn's owner; for a turn that has none any more, none is left.

        Raises:
            StorageUnavailable: Redis is away.
            StorageFull: It has no memory left.
        """
        self._call(self._send, turn_id, kind, LIFETIME_SECONDS)

    def withdraw(self, turn_id: str, kind: SignalKind) -> None:
        """Take back a signal that its owner has not taken; while Redis is away it waits on.

        Obeying it changes nothing any more.
        """
        try:
            self._call(self._withdraw, turn_id, kind)
        except StorageError as error:
            logger.info("a signal could not be withdrawn", extra={"reason": error.message})

    def is_waiting(self, turn_id: str, kind: SignalKind) -> bool:
        """Return whether the owner has not taken the signal yet.

        Raises:
            StorageUnavailable: Redis is away.
        """
        return bool(self._call(self._is_waiting, turn_id, kind))

    def take(self, turn_ids: set[str]) -> list[tuple[str, str]]:
        """Return and remove the signals to these turns, which this process runs.

        Raises:
            StorageUnavailable: Redis is away.
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
        """Call ``changed``, in the hub's thread, when there may be signals; return how to stop.

        Follows the stream of the process under whichever name it has.
        """
        watch = _Watch(self._hub, changed)
        with self._lock:
            if not self._is_told_of_names:
                self._owners.when_condemned(self._follow_again)
                self._is_told_of_names = True
            self._watches.append(watch)
        self._begin_to_follow(watch)

        def stop() -> None:
            with self._lock:
                self._watches.remove(watch)
            watch.stop()

        return stop

    def sweep(self, older_than_seconds: float) -> None:
        """Do nothing: Redis forgets by itself what nobody takes."""

    def _follow_again(self, _lost: str) -> None:
        """Follow the stream of this process's new name: its next turns are found there."""
        for watch in list(self._watches):
            self._begin_to_follow(watch)

    def _begin_to_follow(self, watch: _Watch) -> None:
        """Follow in a thread: the name may have to be asked for, and this is a loop's thread."""
        threading.Thread(
            target=self._follow, args=(watch,), name="signals-follow", daemon=True
        ).start()

    def _follow(self, watch: _Watch) -> None:
        """Follow the stream of the name that the process has, until it has that name still."""
        while not watch.is_over.is_set():
            try:
                if not watch.follow(self._stream(self._owners.mine())):
                    return
            except StorageError:  # it has none while Redis is away, and runs no turn either
                watch.is_over.wait(AGAIN_SECONDS)

    def _stream(self, worker: str) -> str:
        return self._connection.root_key("sig", worker)

    def _call(self, script: Callable[..., Any], turn_id: str, kind: str, *more: int) -> Any:
        with self._connection.translated():
            return script(
                keys=[self._connection.root_key("m", turn_id)],
                args=[self._stream(""), turn_id, kind, VERSION, *more],
            )
