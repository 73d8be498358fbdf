"""Connects a process to Redis or Valkey, and translates errors to typed ones."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from mochi_project.principal import DEFAULT_OWNER
from sessions_app.errors import StorageFull, StorageUnavailable
from sessions_app.store.redis_url import RedisUrl, masked, parse_redis_url

logger = logging.getLogger(__name__)

ROOT = "mochi:"
"""The prefix of every key, followed by ``o:{owner}:`` for other owners than the default one, and
then by ``a:`` for agents' sessions and ``e:`` for ephemeral ones."""
MOST_CONNECTIONS = 64

_REASON = re.compile(
    r"(?:^|-)(OOM|READONLY|LOADING|BUSY|MISCONF|CLUSTERDOWN|MASTERDOWN|NOREPLICAS) "
)
"""The error replies of a server that is temporarily unable to serve, also from within a script."""


class RedisConnection:
    """Holds the connections of one process to a Redis or Valkey server.

    It connects on first use, and again after a fork. Calls block: make them in threads.

    Args:
        url: The server's URL.
        prefix: The prefix of all keys.
        timeout_seconds: The reply timeout.

    Attributes:
        root: The prefix of keys that all storages and owners share.
        label: The owner and the part of the prefix after it, with which sessions are named in keys
            that all owners share; empty for the default owner, who has keys of its own.
        shown: The server's URL without its password.
        shared: The object whose connections this one uses; None if its own.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = ROOT,
        timeout_seconds: float = 1.0,
    ) -> None:
        self.prefix = self.root = prefix
        self.label = ""
        self.timeout_seconds = timeout_seconds
        self.shown = masked(url)
        self.shared: RedisConnection | None = None
        self._url = url
        self._scripts: dict[str, Callable[..., Any]] = {}  # shared by all owners' prefixes

    @cached_property
    def client(self) -> redis.Redis:
        """The client, which is thread-safe."""
        return self.shared.client if self.shared is not None else self._connect()

    def under(self, prefix: str, owner: str = DEFAULT_OWNER) -> "RedisConnection":
        """Return the same connections with another key prefix, added to the root's."""
        other = copy(self)
        other.__dict__.pop("client", None)
        other.label = "" if owner == DEFAULT_OWNER else f"{owner}:{prefix}"
        other.prefix = f"{self.root}o:{other.label}" if other.label else self.root + prefix
        other.shared = self.shared or self
        return other

    def key(self, *parts: str) -> str:
        """Return a key of this storage."""
        return self.prefix + ":".join(parts)

    def root_key(self, *parts: str) -> str:
        """Return a key that all storages share."""
        return self.root + ":".join(parts)

    def run(self, lua: str, *keys: str, args: Sequence[Any] = ()) -> Any:
        """Run a Lua script, atomically, and return its answer; raises as ``translated`` does."""
        if (script := self._scripts.get(lua)) is None:
            script = self._scripts.setdefault(lua, self.client.register_script(lua))
        with self.translated():
            return script(keys=keys, args=args)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Translate errors of the client library in the block.

        Raises:
            StorageFull: The server is out of memory.
            StorageUnavailable: The server can't be reached, or accepts no writes.
        """
        try:
            yield
        except redis.OutOfMemoryError as error:
            raise StorageFull("Redis is full.") from error
        except (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError) as error:
            raise self._unavailable(error) from error
        except redis.ResponseError as error:
            reason = _REASON.search(str(error))
            if reason is None:
                raise
            if reason[1] == "OOM":
                raise StorageFull("Redis is full.") from error
            raise self._unavailable(error) from error

    def now(self) -> datetime:
        """Return the time of the server, which all machines share, with a time zone.

        Each call asks it, so times are ordered across machines: a time read after reading a record
        is later than one read before writing that record.

        Raises:
            StorageUnavailable: The server can't be reached.
        """
        with self.translated():
            seconds, microseconds = self.client.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)

    def require_writes(self) -> None:
        """Write a small key, one for all processes.

        Raises:
            StorageFull: The server is out of memory.
            StorageUnavailable: The server can't be reached, or accepts no writes.
        """
        with self.translated():
            self.client.set(self.root_key("ready"), b"1", px=1000)

    def address(self) -> RedisUrl:
        """Return the current address of the primary, for a separate connection; queries Sentinels.

        Raises:
            StorageUnavailable: No Sentinel knows the primary.
        """
        url = parse_redis_url(self._url)
        if not url.name:
            return url
        with self.translated():
            host = self._sentinels(url).discover_master(url.name)
        return RedisUrl(
            hosts=(host,),
            username=url.username,
            password=url.password,
            database=url.database,
        )

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if "client" in self.__dict__ and self.shared is None:
            self.client.close()

    def _connect(self) -> redis.Redis:
        url = parse_redis_url(self._url)
        options: dict[str, Any] = {
            "db": url.database,
            "username": url.username,
            "password": url.password,
            "max_connections": MOST_CONNECTIONS,
            **self._timeouts(),
        }
        if url.name:
            client: redis.Redis = self._sentinels(url).master_for(url.name, **options)
            return client
        if url.path:
            return redis.Redis(unix_socket_path=url.path, **options)
        [(host, port)] = url.hosts
        return redis.Redis(host=host, port=port, ssl=url.tls, **options)

    def _sentinels(self, url: RedisUrl) -> Sentinel:
        hosts: Sequence[tuple[str, int]] = list(url.hosts)
        # The timeouts also apply to the Sentinels: each unreachable one would cost seconds.
        return Sentinel(hosts, sentinel_kwargs=self._timeouts(), **self._timeouts())

    def _timeouts(self) -> dict[str, Any]:
        """Return the timeouts of connections, without retries: a command may have been executed."""
        return {
            "socket_timeout": self.timeout_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "retry": Retry(NoBackoff(), 0),
        }

    def _unavailable(self, error: Exception) -> StorageUnavailable:
        logger.warning("Redis can't be reached", extra={"server": self.shown, "reason": str(error)})
        return StorageUnavailable("Redis can't be reached just now; try again in a moment.")
