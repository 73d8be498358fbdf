"""Queues tasks for the workers of several machines, in Redis (docs/decisions/0070).

A call waits in a sorted set until it is due, because the list that workers pop from has no delays;
then a supervisor moves it to the list. While a worker runs a call, a second sorted set has it with
the expiry of the worker's lease; expired calls are queued again. Times are those of the Redis
server. The data are expendable, because due calls can be found again from the sessions.
"""

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

HOLD_SECONDS = 15.0
"""The length of a call's lease, which is renewed three times in it."""

LOOK_SECONDS = 30
"""The interval of searches for lost tasks, each by one of all supervisors."""

WORKER_SECONDS = 10.0
"""The time for which a worker counts as alive after its last heartbeat, sent every second."""

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

    Until they are due, Redis has only the arguments of calls, so write access to it does not allow
    choosing the code to run. Tasks popped by workers are signed (``MOCHI_SECRET_KEY``).

    Args:
        connection: The Redis connection.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection

    def add(self, function: str, *arguments: str, delay_seconds: float) -> bool:
        """Queue calls after a delay; restart the delay of a call that is waiting already."""
        try:
            due = self._due(function)
            self._connection.run(_ADD, due, args=[delay_seconds, *arguments])
        except StorageError as error:
            logger.debug("nothing was queued: %s", error)
            return False
        return True

    def hold(self, function: str, argument: str) -> bool:
        """Lease a call to this worker while it runs; return False if another one has it."""
        held = self._held(function)
        return bool(self._connection.run(_HOLD, held, args=[argument, HOLD_SECONDS]))

    def renew(self, function: str, argument: str) -> None:
        """Renew the lease of a call."""
        self._connection.run(_RENEW, self._held(function), args=[argument, HOLD_SECONDS])

    def release(self, function: str, argument: str) -> None:
        """End the lease of a call."""
        with self._connection.translated():
            self._connection.client.zrem(self._held(function), argument)

    def queue_due(self, function: str) -> int:
        """Move due calls, and those of dead workers, to the workers' list; return how many. Blocks.

        Safe to run concurrently: each call is moved by one supervisor.
        """
        keys = [self._due(function), self._held(function)]
        names = self._connection.run(_DUE, *keys, args=[MOVED_AT_ONCE])
        return sum(self._queue(function, as_text(name)) for name in dict.fromkeys(names))

    def is_time_to_look(self, function: str) -> bool:
        """Return whether this supervisor, among all, is to search for lost tasks now. Blocks."""
        key = self._connection.root_key("looked", function)
        with self._connection.translated():
            return bool(self._connection.client.set(key, 1, nx=True, ex=LOOK_SECONDS))

    def _queue(self, function: str, name: str) -> int:
        """Sign and move a call to the workers' list; return 0 if another process was faster."""
        from django_q.tasks import async_task  # noqa: PLC0415 - not before the first task

        keys = [self._due(function), self._held(function), list_key(self._connection)]
        broker = _Moving(lambda task: self._connection.run(_MOVE, *keys, args=[name, task]))
        async_task(function, name, broker=broker)
        return broker.moved

    def _due(self, function: str) -> str:
        return self._connection.root_key("due", function)

    def _held(self, function: str) -> str:
        return self._connection.root_key("held", function)


class _Moving:
    """A broker that receives a task signed by django-q2 and passes it on."""

    list_key = "queue"
    moved = 0

    def __init__(self, move: Callable[[str], int]) -> None:
        self._move = move

    def enqueue(self, task: str) -> int:
        self.moved = int(self._move(task))
        return self.moved


class SharedQueueChores:
    """Runs a supervisor's chores each second: moves due calls, and regularly finds lost ones.

    A shared queue is never emptied, so a new worker leaves what is due as it is.

    Args:
        queue: The queue.
        function: The function whose calls are managed.
        find_overdue: Queues lost calls again.
        at_start: Further functions, each with what queues its lost calls for a new worker.
    """

    def __init__(
        self,
        queue: RedisTaskQueue,
        function: str,
        find_overdue: Callable[[], object],
        *,
        at_start: Mapping[str, Callable[[], object]] = MappingProxyType({}),
    ) -> None:
        self._queue = queue
        self._function = function
        self._find_overdue = find_overdue
        self._at_start = at_start
        self._is_away = False

    def __call__(self, *, worker_is_new: bool) -> None:
        """Run the chores; log an outage of the queue once."""
        try:
            for function in (self._function, *self._at_start):
                self._queue.queue_due(function)
            for find in self._at_start.values() if worker_is_new else ():
                find()
            if self._queue.is_time_to_look(self._function):
                self._find_overdue()
        except StorageError as error:
            if not self._is_away:
                logger.warning("the queue of tasks can't be used: %s", error.message)
            self._is_away = True
        else:
            self._is_away = False


def list_key(connection: RedisConnection) -> str:
    """Return the key of the list that workers pop from."""
    return connection.root_key("queue")


def note_worker(connection: RedisConnection) -> Callable[[str], Any]:
    """Return a function that records a heartbeat of the worker with an id."""
    key = connection.root_key("workers")
    return lambda worker: connection.run(_BEAT, key, args=[worker, WORKER_SECONDS])


def count_workers(connection: RedisConnection) -> int:
    """Return the number of living workers on all machines, some seconds late. Blocks."""
    workers = connection.root_key("workers")
    return int(connection.run(_ALIVE, workers, args=[WORKER_SECONDS]))


def as_text(found: bytes | str) -> str:
    """Return what was read from Redis as text, however its client is set up."""
    return found.decode() if isinstance(found, bytes) else found
