"""Detects which processes of all machines are alive, by leases that they renew in Redis.

Every process has one lease, which a thread renews by heartbeats three times per lease length. A
process whose lease has expired is declared dead for good by the next process that checks: the
script that finds no lease writes a tombstone. A process that finds its own tombstone ends its turns
and takes a new id. So a verdict never flips, however long a process was frozen.

No process is declared dead because Redis was unreachable or lost its data: a process may declare
others dead only after having held its own lease for a full length without a break on the same
server run. Redis measures leases, and each process its own silence; clocks of different machines
are never compared (docs/decisions/0064).
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError

logger = logging.getLogger(__name__)

BEATS = 3
"""The number of heartbeats per lease length."""
RETRIES = 4
"""The number of retries of a failed heartbeat before the next one is due."""
TOMBSTONE_SECONDS = 86_400
MOST_SILENT_SECONDS = TOMBSTONE_SECONDS / 2
"""The silence after which a process declares itself dead: its tombstone could have expired."""
MOST_KNOWN_DEAD = 10_000

_RUN_ID = "local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')\n"
_NOW = "local time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000)\n"

_BEAT = (
    _RUN_ID
    + _NOW
    + """
if redis.call('EXISTS', KEYS[2]) == 1 then return {0, run} end
-- Needs no memory, and so it renews a lease in a Redis that is full, too.
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 1 then return {1, run} end
redis.call('SET', KEYS[1], string.format('%.0f', now), 'PX', ARGV[1])
return {1, run}
"""
)
"""Renew a lease. Keys: lease, tombstone. Arguments: milliseconds. Returns 0 with a tombstone.

The value of a lease is the time since when it has existed without a break."""

_LOOK = (
    """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
"""
    + _RUN_ID
    + _NOW
    + """
local since = tonumber(redis.call('GET', KEYS[3]) or '')
if run ~= ARGV[2] or not since or now - since < tonumber(ARGV[1]) then return 2 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[3])
return 0
"""
)
"""Check another process. Keys: its lease, its tombstone, the caller's lease. Arguments: lease
length in ms, the server run known to the caller, TTL of tombstones in s. Returns 0 for dead, 1 for
alive, 2 for unknown."""

_CONDEMN = """
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
"""


def _boot_time() -> float:
    """Return a monotonic time in seconds that includes suspension, if the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseOwners:
    """Detects living processes by leases; implements ``Owners``.

    All storages of a process share one instance. Nothing is sent before an id is needed.

    Args:
        connection: The Redis connection.
        lease_seconds: The length of a lease.
        name: The prefix of this process's ids; generated if empty.
        clock: Measures this process's silence, in seconds.
        in_background: Whether a thread renews the lease; if not, call ``beat``.
    """

    def __init__(
        self,
        connection: RedisConnection,
        lease_seconds: float = 6.0,
        *,
        name: str = "",
        clock: Callable[[], float] = _boot_time,
        in_background: bool = True,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._connection = connection
        self._milliseconds = round(lease_seconds * 1000)
        self._names = {os.getpid(): name}
        self._clock = clock
        self._in_background = in_background
        self._condemned_calls: set[Callable[[str], None]] = set()
        self._dead: dict[str, None] = {}
        self._of_processes: dict[int, _LeaseState] = {}

    def mine(self) -> str:
        """Return the id of this process, which other processes consider alive from now on.

        Raises:
            StorageUnavailable: The process can't get an id, or could not renew its lease.
            StorageFull: Redis is out of memory.
        """
        life = self._current()
        while (owner := life.owner) is None or not life.holds():
            self.beat(is_first=True)
            if self._in_background:
                life.start_heartbeats(self._beat_or_wait)
        return owner

    def lives(self, owner: str) -> bool:
        """Return whether the process with this id is alive.

        Also returns True while that is unknown: Redis is unreachable, or was so less than a lease
        length ago.
        """
        if not owner or owner in self._dead:
            return False
        life = self._current()
        if owner == life.owner:
            return True
        try:
            verdict = self._connection.run(
                _LOOK,
                *self._keys(owner),
                self._keys(life.owner or "")[0],
                args=[self._milliseconds, life.run, TOMBSTONE_SECONDS],
            )
        except StorageError:
            life.note_outage()
            return True
        if verdict == _UNKNOWN and life.owner is None:
            self._get_lease()
        if verdict != _DEAD:
            return True
        if len(self._dead) >= MOST_KNOWN_DEAD:
            self._dead.clear()
        self._dead[owner] = None
        return False

    def holds(self) -> bool:
        """Return whether this process's lease was renewed in time, so others consider it alive."""
        life = self._of_processes.get(os.getpid())
        return life is None or life.holds()

    def when_condemned(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Register a callback, run in a thread, for ids of this process declared dead."""
        self._condemned_calls.add(call)
        return partial(self._condemned_calls.discard, call)

    def condemn(self, owner: str) -> None:
        """Declare a process dead that is known to be, without waiting for its lease to expire.

        Raises:
            StorageUnavailable, StorageFull: The tombstone can't be written.
        """
        self._connection.run(_CONDEMN, *self._keys(owner), args=[TOMBSTONE_SECONDS])
        self._dead[owner] = None

    def condemn_process(self, name: str) -> None:
        """Declare all ids of a process with this name dead; for the parent that saw it die."""
        for number in range(1, MOST_KNOWN_DEAD):
            owner = f"{name}-{number}"
            with self._connection.translated():
                was_dead = self._connection.client.exists(self._keys(owner)[1])
            self.condemn(owner)
            if not was_dead:
                return

    def release(self) -> None:
        """End the lease of this process for good, after all its turns were saved.

        Never raises: a lease that can't be ended now expires.
        """
        life = self._of_processes.pop(os.getpid(), None)
        if life is None:
            return
        life.stop()
        try:
            if life.owner is not None:
                self.condemn(life.owner)
        except StorageError as error:
            logger.warning("a lease could not be released", extra={"reason": error.message})

    def beat(self, *, is_first: bool = False) -> None:
        """Renew the lease of this process, or learn that it was declared dead.

        Args:
            is_first: Whether to take an id if there is none.

        Raises:
            StorageUnavailable, StorageFull: The lease could not be renewed.
        """
        life = self._current()
        with life.lock:  # replies are processed in their order
            lost = self._renew(life, is_first=is_first)
        if lost is not None:
            self._notify_condemned(lost)

    def _renew(self, life: "_LeaseState", *, is_first: bool) -> str | None:
        """Renew a lease; return the id if it was lost, else None."""
        owner = life.owner or (life.next_owner() if is_first else None)
        if owner is None:
            return None
        sent = self._clock()
        try:
            keys = self._keys(owner)
            is_alive, run = self._connection.run(_BEAT, *keys, args=[self._milliseconds])
        except StorageError:
            life.note_outage()
            raise
        if is_alive and not life.is_forgotten(sent):
            life.renewed(owner, sent, run)
            return None
        return life.lost()

    def _beat_or_wait(self) -> float:
        """Renew the lease; return the seconds until the next heartbeat."""
        between = self.lease_seconds / BEATS
        try:
            self.beat()
        except StorageError as error:
            logger.warning("the lease could not be renewed", extra={"reason": error.message})
            return between / RETRIES
        return between

    def _notify_condemned(self, owner: str) -> None:
        logger.error("this process was declared dead; its turns end", extra={"owner": owner})
        for call in tuple(self._condemned_calls):
            try:
                call(owner)
            except Exception:  # the other callbacks must run
                logger.exception("a turn could not be notified that its process was declared dead")

    def _get_lease(self) -> None:
        """Get a lease, which is required to declare others dead."""
        try:
            self.mine()
        except StorageError as error:
            logger.warning("no lease could be obtained", extra={"reason": error.message})

    def _keys(self, owner: str) -> tuple[str, str]:
        """Return the keys of an owner's lease and tombstone."""
        return self._connection.root_key("w", owner), self._connection.root_key("dead", owner)

    def _current(self) -> "_LeaseState":
        """Return the lease state of this process; a new one in a forked child."""
        life = self._of_processes.get(os.getpid())
        if life is None:
            name = self._names.pop(os.getpid(), "") or secrets.token_hex(8)
            life = self._of_processes.setdefault(
                os.getpid(), _LeaseState(name, self.lease_seconds, self._clock)
            )
        return life


_DEAD, _ALIVE, _UNKNOWN = range(3)


class _LeaseState:
    """The state of a lease as known to its process.

    Attributes:
        owner: The owner id; None before the first one, and after it was lost.
        lock: Held during a heartbeat.
    """

    def __init__(self, name: str, lease_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._number = 0
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._renewed_at = float("-inf")
        self._run = b""
        self._reliable_from = 0.0
        self._had_outage = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.owner: str | None = None
        self.lock = threading.Lock()

    @property
    def run(self) -> bytes:
        """The server run in which others may be declared dead; empty while none may be."""
        is_reliable = not self._had_outage and self._clock() >= self._reliable_from
        return self._run if is_reliable else b""

    def next_owner(self) -> str:
        """Return the id to be taken with the next first heartbeat."""
        return f"{self._name}-{self._number + 1}"

    def holds(self) -> bool:
        """Return whether the lease can't have expired, or there never was one."""
        return not self._number or self._clock() - self._renewed_at < self._lease_seconds

    def is_forgotten(self, now: float) -> bool:
        """Return whether the silence is so long that even a tombstone may have expired."""
        return self.owner is not None and now - self._renewed_at > MOST_SILENT_SECONDS

    def renewed(self, owner: str, at: float, run: bytes) -> None:
        """Record a heartbeat, sent at that time, that the server accepted."""
        if self._had_outage or run != self._run:
            self._reliable_from = at + self._lease_seconds if self._run else 0.0
        self._had_outage = False
        self._run = run
        self._renewed_at = at
        self._number += owner != self.owner
        self.owner = owner

    def lost(self) -> str | None:
        """Record that the id, or else the next one, is dead; return the lost id or None."""
        lost, self.owner = self.owner, None
        self._number += lost is None
        self._renewed_at = float("-inf")
        return lost

    def note_outage(self) -> None:
        """Record that the server was unreachable, perhaps for other processes, too."""
        self._had_outage = True

    def start_heartbeats(self, beat: Callable[[], float]) -> None:
        """Start a thread that renews the lease until it is stopped."""
        with self.lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(
                    target=self._run_heartbeats, args=(beat,), name="lease", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop renewing the lease; wait for the thread to end."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run_heartbeats(self, beat: Callable[[], float]) -> None:
        pause = self._lease_seconds / BEATS
        while not self._stopping.wait(pause):
            pause = beat()
