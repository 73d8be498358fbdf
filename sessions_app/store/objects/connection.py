"""Connects to the bucket that a URL names.

The library's own retries are off: a write that was applied and whose answer got lost would come
back as somebody else's (docs/decisions/0066).
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


class Place(msgspec.Struct, frozen=True):
    """A bucket, as a URL names it."""

    kind: str
    bucket: str
    prefix: str
    options: Mapping[str, str]


class Connection:
    """The library's stores of one bucket, which a forked child makes anew."""

    def __init__(self, place: Place, timeout_seconds: float) -> None:
        self._place = place
        self._timeout = timeout_seconds
        self.compares_versions = place.kind == "gs"
        self._begin()

    def quick(self) -> Any:
        """Return the store for what is answered soon, if at all."""
        return self._made("quick", read_timeout=timedelta(seconds=self._timeout))

    def patient(self) -> Any:
        """Return the store for large objects, whose answer can't come before they are sent."""
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


def place_of(url: str) -> Place:
    """Return what a URL says; it is not quoted in errors, as it may hold what must stay secret."""
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
    return Place(parts.scheme, parts.netloc, f"{path}/" if path else "", options)
