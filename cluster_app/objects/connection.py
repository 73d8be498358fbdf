"""Connects to the bucket of a URL.

The library's retries are off: if a conditional write was applied but its response lost, the retry
would fail as if another writer had been faster (docs/decisions/0066).
"""

import os
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import obstore

LONGEST_SECONDS = 60.0
_OPTIONS = {
    "s3": {"endpoint": "endpoint", "region": "region"},
    "az": {"endpoint": "endpoint", "account": "account_name"},
    "gs": {"endpoint": "base_url"},
}
_STORES = {"s3": "S3Store", "az": "AzureStore", "gs": "GCSStore"}


class StoreAddress(msgspec.Struct, frozen=True):
    """The parts of an object store's URL."""

    kind: str
    bucket: str
    prefix: str
    options: Mapping[str, str]


class Connection:
    """Holds the library's clients of one bucket; recreates them in a forked child.

    Attributes:
        last_write_failed: Whether the store failed the last write of this process.
    """

    def __init__(self, place: StoreAddress, timeout_seconds: float) -> None:
        self._place = place
        self._timeout = timeout_seconds
        self.compares_versions = place.kind == "gs"
        self.last_write_failed = False
        self._begin()

    def quick(self) -> Any:
        """Return the client with a short timeout, for all but large objects."""
        return self._made("quick", read_timeout=timedelta(seconds=self._timeout))

    def patient(self) -> Any:
        """Return the client with a long timeout, for large objects."""
        return self._made("patient")

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._stores: dict[str, Any] = {}

    def _made(self, name: str, **timeouts: timedelta) -> Any:
        if self._process != os.getpid():
            self._begin()
        store = self._stores.get(name)
        if store is not None:
            return store
        with self._lock:
            if name not in self._stores:
                self._stores[name] = self._make(timeouts)
            return self._stores[name]

    def _make(self, timeouts: Mapping[str, timedelta]) -> Any:
        place = self._place
        config = dict(place.options)
        if place.kind == "s3":
            config["conditional_put"] = "etag"
        make = getattr(obstore.store, _STORES[place.kind])
        return make(
            place.bucket,
            config=config,
            client_options={
                "allow_http": any(url.startswith("http:") for url in config.values()),
                "connect_timeout": timedelta(seconds=self._timeout),
                "timeout": timedelta(seconds=max(LONGEST_SECONDS, self._timeout)),
                **timeouts,
            },
            retry_config={"max_retries": 0},
        )


def place_of(url: str) -> StoreAddress:
    """Parse a URL; errors do not quote it, since it may contain secrets."""
    parts = urlsplit(url)
    if parts.scheme not in _OPTIONS or not parts.hostname:
        raise ValueError(
            "an object store's URL is s3://bucket/prefix, az://container/prefix or "
            "gs://bucket/prefix"
        )
    if "@" in parts.netloc:
        raise ValueError(
            "an object store's URL holds no keys: set the vendor's own variables, "
            "such as AWS_ACCESS_KEY_ID"
        )
    allowed = _OPTIONS[parts.scheme]
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in allowed:
            known = ", ".join(sorted(allowed))
            raise ValueError(f"an object store's URL may have the options {known}, not {name!r}")
        options[allowed[name]] = value
    path = parts.path.strip("/")
    return StoreAddress(parts.scheme, parts.netloc, f"{path}/" if path else "", options)
