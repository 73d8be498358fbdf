"""Connects a process to Redis or Valkey, and says in typed errors what is wrong with it."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from sessions_app.errors import StorageFull, StorageUnavailable
from sessions_app.store.redis.url import RedisUrl, masked, parse_redis_url

logger = logging.getLogger(__name__)

ROOT = "mochi:"
"""The prefix of every key. Those of agents' sessions have ``a:`` behind it, those of sessions that
are not saved ``e:``."""
MOST_CONNECTIONS = 64

_REASON = re.compile(
    r"(?:^|-)(OOM|READONLY|LOADING|BUSY|MISCONF|CLUSTERDOWN|MASTERDOWN|NOREPLICAS) "
)
"""Answers of a server that is not at fault with us; those of a script's command are in its own."""


class RedisConnection:
    """Holds the connections of one process to a Redis or Valkey server.

    It connects on first use, and anew after a fork. Its calls block: make them in threads.

    Args:
        url: The server.
        prefix: What all keys begin with.
        replicas: How many replicas must have a write before it is confirmed.
        timeout_seconds: For how long an answer is waited for.

    Attributes:
        root: What the keys begin with that all storages share.
        shown: The server's URL without its password.
        shared: Whose connections these are; None if they are its own.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = ROOT,
        replicas: int = 0,
        timeout_seconds: float = 1.0,
    ) -> None:
        self.prefix = self.root = prefix
        self.replicas = replicas
        self.timeout_seconds = timeout_seconds
        self.shown = masked(url)
        self.shared: RedisConnection | None = None
        self._url = url

    @cached_property
    def client(self) -> redis.Redis:
        """The client, which may be used by any thread."""
        return self.shared.client if self.shared is not None else self._connect()

    def under(self, prefix: str) -> "RedisConnection":
        """Return the same connections with keys that have another prefix behind the root's."""
        other = copy(self)
        other.__dict__.pop("client", None)
        other.prefix = self.root + prefix
        other.shared = self.shared or self
        return other

    def key(self, *parts: str) -> str:
        """Return the key of what belongs to one storage."""
        return self.prefix + ":".join(parts)

    def root_key(self, *parts: str) -> str:
        """Return the key of what all storages share."""
        return self.root + ":".join(parts)

    def script(self, lua: str) -> Callable[..., Any]:
        """Return a script as a function of ``keys`` and ``args``, which the server runs at once."""
        return self.client.register_script(lua)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise what goes wrong with the server as errors of ours.

        Raises:
            StorageFull: The server has no memory left.
            StorageUnavailable: It can't be reached, or takes no writes now.
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

    def confirm(self) -> None:
        """Wait until as many replicas as were asked for have everything that was written so far.

        The server's own disk is not waited for: it is synced once a second, and that is what one
        who approves a call would wait (docs/decisions/0068).

        Raises:
            StorageUnavailable: Too few have it in time; what was written may be lost.
        """
        if not self.replicas:
            return
        milliseconds = int(self.timeout_seconds * 500)
        with self.translated(), self.client.pipeline(transaction=False) as pipeline:
            # It waits for the writes of its own connection. This one is behind those of all others.
            pipeline.set(self.root_key("confirm"), b"1", px=1000)
            pipeline.execute_command("WAIT", self.replicas, milliseconds)
            _, replicas = pipeline.execute()
        if replicas < self.replicas:
            raise StorageUnavailable("Too few replicas of Redis took a write in time.")

    def address(self) -> RedisUrl:
        """Return where the server is now, for a connection of one's own; asks the Sentinels.

        Raises:
            StorageUnavailable: No Sentinel knows it.
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
        """Close the connections; a later call opens others."""
        if "client" in self.__dict__ and self.shared is None:
            self.client.close()

    def _connect(self) -> redis.Redis:
        url = parse_redis_url(self._url)
        options: dict[str, Any] = {
            "db": url.database,
            "username": url.username,
            "password": url.password,
            "max_connections": MOST_CONNECTIONS,
            **self._patience(),
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
        # Said for the Sentinels themselves, too: or each that is away would be asked for seconds.
        return Sentinel(hosts, sentinel_kwargs=self._patience(), **self._patience())

    def _patience(self) -> dict[str, Any]:
        """Return the options of each connection. Nothing is asked twice: it may have been done."""
        return {
            "socket_timeout": self.timeout_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "retry": Retry(NoBackoff(), 0),
        }

    def _unavailable(self, error: Exception) -> StorageUnavailable:
        logger.warning("Redis can't be reached", extra={"server": self.shown, "reason": str(error)})
        return StorageUnavailable("Redis can't be reached just now; try again in a moment.")
