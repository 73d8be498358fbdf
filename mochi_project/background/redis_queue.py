"""Queues tasks for the workers of several machines, in Redis (docs/decisions/0070).

A call waits in a sorted set until it is due, because the list that workers pop from knows no delay;
then a keeper moves it there. While a worker runs it, it is in a second sorted set, with the time at
which its worker counts as dead: what is found there then is queued again. Times are Redis' own. All
of it are hints: what is due is in the sessions, and is found there.
"""

import logging
from collections.abc import Callable
from typing import Any

from sessions_app.errors import StorageError
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

HOLD_SECONDS = 15.0
"""The time after its last renewal at which a hold ends; it is renewed three times in that."""

LOOK_SECONDS = 30
"""The time between two looks for tasks that got lost, by one of all keepers."""

WORKER_SECONDS = 10.0
"""The time for which a worker counts as living after it said so; it does each second."""

TICK_SECONDS = 1.0
MOVED_AT_ONCE = 50

_NOW = "local t = redis.call('TIME') local now = t[1] + t[2] / 1000000 "
_ADD = (
    _NOW
    + """
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
"""
)
_DUE = (
    _NOW
    + """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  found[#found + 1] = name
end
return found
"""
)
_MOVE = (
    _NOW
    + """
local moved = 0
for i = 1, 2 do
  local at = redis.call('ZSCORE', KEYS[i], ARGV[1])
  if at and tonumber(at) <= now then moved = redis.call('ZREM', KEYS[i], ARGV[1]) end
end
if moved == 1 then redis.call('RPUSH', KEYS[3], ARGV[2]) end
return moved
"""
)
_HOLD = (
    _NOW
    + """
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if at and tonumber(at) > now then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
return 1
"""
)
_RENEW = _NOW + "return redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])"
_BEAT = (
    _NOW
    + """
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
"""
)
_ALIVE = _NOW + "return redis.call('ZCOUNT', KEYS[1], now - ARGV[1], '+inf')"


class RedisTaskQueue:
    """Queues the tasks of all machines; implements ``TaskQueue``.

    Only names of calls are in Redis until they are due, never functions: whoever can write there
    chooses no code. What workers pop is signed (``MOCHI_SECRET_KEY``).

    Args:
        connection: To Redis.
    """

    is_shared = True

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._add = connection.script(_ADD)
        self._find_due = connection.script(_DUE)
        self._move = connection.script(_MOVE)
        self._hold = connection.script(_HOLD)
        self._renew = connection.script(_RENEW)

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Have calls of a function queued later; one that waits already waits from now on."""
        try:
            with self._connection.translated():
                self._add(keys=[self._due(function)], args=[delay_seconds, *arguments])
        except StorageError as error:
            logger.debug("nothing was queued: %s", error)
            return False
        return True

    def hold(self, function: str, argument: str) -> bool:
        """Keep a call to this worker while it runs, unless another worker has it."""
        with self._connection.translated():
            held = self._hold(keys=[self._held(function)], args=[argument, HOLD_SECONDS])
        return bool(held)

    def renew(self, function: str, argument: str) -> None:
        """Keep the call for some more seconds."""
        with self._connection.translated():
            self._renew(keys=[self._held(function)], args=[argument, HOLD_SECONDS])

    def release(self, function: str, argument: str) -> None:
        """End the hold."""
        with self._connection.translated():
            self._connection.client.zrem(self._held(function), argument)

    def queue_due(self, function: str) -> int:
        """Give the workers what is due, and what died with its worker; return how many. Blocks.

        Several keepers may do it at once: each call is moved by one of them.
        """
        with self._connection.translated():
            keys = [self._due(function), self._held(function)]
            names = self._find_due(keys=keys, args=[MOVED_AT_ONCE])
            return sum(self._queue(function, _text(name)) for name in dict.fromkeys(names))

    def is_time_to_look(self, function: str) -> bool:
        """Return whether this process shall look for lost tasks now, as one of all. Blocks."""
        key = self._connection.root_key("looked", function)
        with self._connection.translated():
            return bool(self._connection.client.set(key, 1, nx=True, ex=LOOK_SECONDS))

    def _queue(self, function: str, name: str) -> int:
        """Move a call to the workers' list, signed; return 0 if another keeper was quicker."""
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        keys = [self._due(function), self._held(function), list_key(self._connection)]
        broker = _Moving(lambda task: self._move(keys=keys, args=[name, task]))
        async_task(function, name, broker=broker)
        return broker.moved

    def _due(self, function: str) -> str:
        return self._connection.root_key("due", function)

    def _held(self, function: str) -> str:
        return self._connection.root_key("held", function)


class _Moving:
    """Stands for a broker where django-q2 signs a task and hands it on."""

    list_key = "queue"
    moved = 0

    def __init__(self, move: Callable[[str], int]) -> None:
        self._move = move

    def enqueue(self, task: str) -> int:
        self.moved = int(self._move(task))
        return self.moved


class SharedQueueChores:
    """Does what a keeper does each second: moves what is due, and now and then looks for more.

    A queue of several workers is never emptied, and a new worker says nothing about what the others
    do, so ``worker_is_new`` means nothing here.

    Args:
        queue: The queue.
        function: The function whose calls are looked after.
        find_overdue: Queues what got lost.
    """

    def __init__(
        self, queue: RedisTaskQueue, function: str, find_overdue: Callable[[], object]
    ) -> None:
        self._queue = queue
        self._function = function
        self._find_overdue = find_overdue
        self._is_away = False

    def __call__(self, *, worker_is_new: bool) -> None:  # noqa: ARG002 - of a queue of one's own
        """Do it; while the queue is away that is logged once."""
        try:
            self._queue.queue_due(self._function)
            if self._queue.is_time_to_look(self._function):
                self._find_overdue()
        except StorageError as error:
            if not self._is_away:
                logger.warning("the queue of summaries can't be used: %s", error.message)
            self._is_away = True
        else:
            self._is_away = False


def list_key(connection: RedisConnection) -> str:
    """Return the key of the list that workers pop from."""
    return connection.root_key("queue")


def note_worker(connection: RedisConnection) -> Callable[[str], Any]:
    """Return a function that notes that the worker with an id lives."""
    beat = connection.script(_BEAT)
    key = connection.root_key("workers")
    return lambda worker: beat(keys=[key], args=[worker, WORKER_SECONDS])


def count_workers(connection: RedisConnection) -> int:
    """Return how many workers live, on any machine; one that died does for seconds. Blocks."""
    with connection.translated():
        alive = connection.script(_ALIVE)
        return int(alive(keys=[connection.root_key("workers")], args=[WORKER_SECONDS]))


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name
