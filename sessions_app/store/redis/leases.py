"""Detects which processes of all machines are alive, by leases that they renew in Redis.

Every process has one lease, which a thread of its own renews three times in its length. One that
could not renew it in time is given up by whoever looks next, and for ever: the same script that
finds no lease leaves a tombstone, and a process that meets its own ends what it does and takes
another id. So no verdict flips, however long a process was frozen.

Nobody is given up because Redis was away, or has forgotten: then everybody comes back at another
moment. Only a process condemns others that itself has had its lease for a whole length of one,
without a break, on this very server. Redis measures leases, and a process its own silence; no
clock is compared with another one (docs/decisions/0064).
"""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from sessions_app.errors import StorageError
from sessions_app.store.redis.connection import RedisConnection

logger = logging.getLogger(__name__)

BEATS = 3
"""The times that a lease is renewed in its length."""
RETRIES = 4
"""The times that a beat is tried again, while Redis is away, in the pause between two."""
TOMBSTONE_SECONDS = 86_400
MOST_SILENT_SECONDS = TOMBSTONE_SECONDS / 2
"""After which silence a process gives itself up: its tombstone could be forgotten already."""
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
"""Renew a lease. Keys: lease, tombstone. Arguments: milliseconds. 0: its tombstone is there.

The value of a lease is the time since which it is there without a break."""

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
"""Look at another process. Keys: its lease, its tombstone, the asker's lease. Arguments:
milliseconds, the run that the asker knows, seconds of a tombstone. 0 dead, 1 alive, 2 unknown."""

_CONDEMN = """
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
"""


def _boot_time() -> float:
    """Return seconds that go on while the machine sleeps, where the system can tell."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseOwners:
    """The processes that have a lease under the root of a connection's keys.

    All storages of a process share one. Nothing is sent before an id is asked for.

    Args:
        connection: To the server that keeps the leases.
        lease_seconds: After which silence a process is dead.
        name: What the ids of this process begin with; one of its own if empty.
        clock: Measures this process's silence.
        in_background: Whether a thread renews the lease. If not, ``beat`` is to be called.
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
        self._leases = _Leases(connection, lease_seconds)
        self._names = {os.getpid(): name}
        self._clock = clock
        self._in_background = in_background
        self._condemned_calls: list[Callable[[str], None]] = []
        self._dead: dict[str, None] = {}
        self._of_processes: dict[int, _Life] = {}

    def mine(self) -> str:
        """Return the id of this process, which others take for living from now on.

        Raises:
            StorageUnavailable: It has none, and can't get one now, or could not renew its lease.
            StorageFull: Redis is full.
        """
        life = self._life()
        while (owner := life.owner) is None or not life.holds():
            self.beat(is_first=True)
            if self._in_background:
                life.keep_beating(self._beat_or_wait)
        return owner

    def lives(self, owner: str) -> bool:
        """Return whether the process with this id lives.

        True, too, while nobody can tell: when Redis is away, and for a lease after it was.
        """
        if not owner or owner in self._dead:
            return False
        life = self._life()
        if owner == life.owner:
            return True
        try:
            verdict = self._leases.look(owner, life.owner or "", life.run)
        except StorageError:
            life.doubt()
            return True
        if verdict == _UNKNOWN and life.owner is None:
            self._begin_to_live()
        if verdict != _DEAD:
            return True
        if len(self._dead) >= MOST_KNOWN_DEAD:
            self._dead.clear()
        self._dead[owner] = None
        return False

    def holds(self) -> bool:
        """Return whether others take this process for living, as its lease was renewed in time."""
        life = self._of_processes.get(os.getpid())
        return life is None or life.holds()

    def when_condemned(self, call: Callable[[str], None]) -> None:
        """Have ``call`` called, in a thread, with an id of this process that others gave up."""
        self._condemned_calls.append(call)

    def sweep(self) -> int:
        """Remove nothing: leases and tombstones go by themselves."""
        return 0

    def condemn(self, owner: str) -> None:
        """Give up a process that is known to be dead, without waiting for its lease's end.

        Raises:
            StorageUnavailable, StorageFull: It can't be written down now.
        """
        self._leases.condemn(owner)
        self._dead[owner] = None

    def condemn_process(self, name: str) -> None:
        """Give up all ids of a process that had this name, as its parent does that saw it die."""
        for number in range(1, MOST_KNOWN_DEAD):
            owner = f"{name}-{number}"
            was_dead = self._leases.is_dead(owner)
            self.condemn(owner)
            if not was_dead:
                return

    def release(self) -> None:
        """Give up the lease of this process, whose turns are all saved, and renew it no more.

        Does not fail: a lease that can't be given up now ends by itself.
        """
        life = self._of_processes.pop(os.getpid(), None)
        if life is None:
            return
        life.stop()
        try:
            if life.owner is not None:
                self.condemn(life.owner)
        except StorageError as error:
            logger.warning("a lease could not be given up", extra={"reason": error.message})

    def beat(self, *, is_first: bool = False) -> None:
        """Renew the lease of this process, or find that others gave it up.

        Args:
            is_first: Whether it shall get an id if it has none.

        Raises:
            StorageUnavailable, StorageFull: That is not known now.
        """
        life = self._life()
        with life.lock:  # answers are heard in the order in which they were given
            lost = self._renew(life, is_first=is_first)
        if lost is not None:
            self._tell_condemned(lost)

    def _renew(self, life: "_Life", *, is_first: bool) -> str | None:
        """Renew a lease; return the id that was lost instead."""
        owner = life.owner or (life.next_owner() if is_first else None)
        if owner is None:
            return None
        sent = self._clock()
        try:
            is_alive, run = self._leases.beat(owner)
        except StorageError:
            life.doubt()
            raise
        if is_alive and not life.is_forgotten(sent):
            life.renewed(owner, sent, run)
            return None
        return life.lost()

    def _beat_or_wait(self) -> float:
        """Renew the lease; return the seconds until it shall be done again."""
        between = self.lease_seconds / BEATS
        try:
            self.beat()
        except StorageError as error:
            logger.warning("the lease could not be renewed", extra={"reason": error.message})
            return between / RETRIES
        return between

    def _tell_condemned(self, owner: str) -> None:
        logger.error("others gave this process up; its turns end", extra={"owner": owner})
        for call in list(self._condemned_calls):
            try:
                call(owner)
            except Exception:  # the others must be told
                logger.exception("a turn could not be told that its process was given up")

    def _begin_to_live(self) -> None:
        """Get a lease, without which nobody can be condemned."""
        try:
            self.mine()
        except StorageError as error:
            logger.warning("no lease could be had", extra={"reason": error.message})

    def _life(self) -> "_Life":
        """Return what this process, which may be a fork, knows of its lease."""
        life = self._of_processes.get(os.getpid())
        if life is None:
            name = self._names.pop(os.getpid(), "") or secrets.token_hex(8)
            life = self._of_processes.setdefault(
                os.getpid(), _Life(name, self.lease_seconds, self._clock)
            )
        return life


_DEAD, _ALIVE, _UNKNOWN = range(3)


class _Leases:
    """The leases and tombstones in Redis."""

    def __init__(self, connection: RedisConnection, lease_seconds: float) -> None:
        self._connection = connection
        self._milliseconds = round(lease_seconds * 1000)
        self._beat = connection.script(_BEAT)
        self._look = connection.script(_LOOK)
        self._condemn = connection.script(_CONDEMN)

    def beat(self, owner: str) -> tuple[bool, bytes]:
        """Renew a lease; return whether its owner lives, and which run of the server says so."""
        with self._connection.translated():
            alive, run = self._beat(keys=self._keys(owner), args=[self._milliseconds])
        return bool(alive), run

    def look(self, owner: str, asker: str, run: bytes) -> int:
        """Return the verdict on an owner; who has no lease in this run gives nobody up."""
        keys = [*self._keys(owner), self._keys(asker)[0]]
        with self._connection.translated():
            return int(self._look(keys=keys, args=[self._milliseconds, run, TOMBSTONE_SECONDS]))

    def condemn(self, owner: str) -> None:
        with self._connection.translated():
            self._condemn(keys=self._keys(owner), args=[TOMBSTONE_SECONDS])

    def is_dead(self, owner: str) -> bool:
        with self._connection.translated():
            return bool(self._connection.client.exists(self._keys(owner)[1]))

    def _keys(self, owner: str) -> Sequence[str]:
        return self._connection.root_key("w", owner), self._connection.root_key("dead", owner)


class _Life:
    """The lease of one process, as far as that process knows.

    Attributes:
        owner: Its id; None before the first one, and after it was lost.
        lock: Held while the server is asked to renew it.
    """

    def __init__(self, name: str, lease_seconds: float, clock: Callable[[], float]) -> None:
        self._name = name
        self._number = 0
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._renewed_at = float("-inf")
        self._run = b""
        self._sure_from = 0.0
        self._is_in_doubt = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.owner: str | None = None
        self.lock = threading.Lock()

    @property
    def run(self) -> bytes:
        """The run of the server on which others may be condemned; empty while nobody may be."""
        is_sure = not self._is_in_doubt and self._clock() >= self._sure_from
        return self._run if is_sure else b""

    def next_owner(self) -> str:
        """Return the id that it gets when the server takes a first beat of it."""
        return f"{self._name}-{self._number + 1}"

    def holds(self) -> bool:
        """Return whether the lease, if there ever was one, can't have run out."""
        return not self._number or self._clock() - self._renewed_at < self._lease_seconds

    def is_forgotten(self, now: float) -> bool:
        """Return whether it was silent for so long that even its tombstone may be gone."""
        return self.owner is not None and now - self._renewed_at > MOST_SILENT_SECONDS

    def renewed(self, owner: str, at: float, run: bytes) -> None:
        """Note that the server took a beat that was sent then."""
        if self._is_in_doubt or run != self._run:
            self._sure_from = at + self._lease_seconds if self._run else 0.0
        self._is_in_doubt = False
        self._run = run
        self._renewed_at = at
        self._number += owner != self.owner
        self.owner = owner

    def lost(self) -> str | None:
        """Note that others gave the id up, or that nobody may take the next one; return the id."""
        lost, self.owner = self.owner, None
        self._number += lost is None
        self._renewed_at = float("-inf")
        return lost

    def doubt(self) -> None:
        """Note that the server was away: nobody else may have reached it."""
        self._is_in_doubt = True

    def keep_beating(self, beat: Callable[[], float]) -> None:
        """Renew the lease in a thread of its own until it is stopped."""
        with self.lock:
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(
                    target=self._beat_on, args=(beat,), name="lease", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Renew the lease no more, from when this returns on."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _beat_on(self, beat: Callable[[], float]) -> None:
        pause = self._lease_seconds / BEATS
        while not self._stopping.wait(pause):
            pause = beat()
