"""Looks at what a cluster keeps, past its nodes: sessions, claims, journals that have no end."""

import json
from contextlib import suppress
from typing import Any

from obstore.store import S3Store

from tests.cluster.nodes import Cluster
from tests.cluster.servers import BUCKET, KEYS

PREFIXES = ("mochi:", "mochi:a:", "mochi:e:")
"""The keys of people's, agents' and ephemeral sessions."""


class Inspector:
    """Reads Redis and the store of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.redis = cluster.redis.client()
        self._prefix = f"{cluster.prefix}/"
        self._store = S3Store(
            BUCKET,
            config={
                "endpoint": cluster.store.url,
                "region": "us-east-1",
                "access_key_id": KEYS["AWS_ACCESS_KEY_ID"],
                "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"],
            },
            client_options={"allow_http": True},
        )

    def close(self) -> None:
        """Close its connections."""
        self.redis.close()

    def session(self, session_id: str) -> dict[str, Any]:
        """Return a session as the store has it."""
        found: dict[str, Any] = json.loads(self.read(f"sessions/{session_id}.json"))
        return found

    def objects(self) -> list[str]:
        """Return the keys of all objects of the cluster, without its own prefix."""
        return [
            item["path"].removeprefix(self._prefix)
            for page in self._store.list(self._prefix)
            for item in page
        ]

    def claimed(self) -> list[str]:
        """Return the sessions whose object says that a turn runs."""
        found = []
        for name in self.objects():
            if name.endswith(".json") and "sessions/" in name:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    if "turn" in json.loads(self.read(name)):
                        found.append(name)
        return found

    def read(self, name: str) -> bytes:
        """Return an object."""
        return bytes(self._store.get(self._prefix + name).bytes())

    def untidy(self) -> list[object]:
        """Return what is left of turns that should have ended: claims and open journals."""
        left: list[object] = [f"claim in {name}" for name in self.claimed()]
        for prefix in PREFIXES:
            left += [f"{prefix}unended {turn}" for turn in self.redis.smembers(f"{prefix}unended")]
        of_owners = self.redis.smembers("mochi:owners:unended")
        return [*left, *of_owners, *self.redis.hgetall("mochi:owners:claimed").items()]

    def condemned(self) -> set[str]:
        """Return the ids of processes that were given up for dead."""
        return {key.removeprefix("mochi:dead:") for key in self.redis.scan_iter("mochi:dead:*")}

    def living(self) -> set[str]:
        """Return the ids of processes whose lease has not run out."""
        return {key.removeprefix("mochi:w:") for key in self.redis.scan_iter("mochi:w:*")}

    def owner_of(self, turn_id: str) -> str:
        """Return the process that runs a turn, or the one that ended it for that."""
        return self.redis.hget(f"mochi:m:{turn_id}", "worker") or ""
