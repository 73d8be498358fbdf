"""Reads and writes objects of a bucket, with conditional writes.

The only module that knows ``obstore``, but for ``connection``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError

from sessions_app.errors import StorageFull, StorageUnavailable
from sessions_app.store.objects.connection import Connection, place_of

if TYPE_CHECKING:
    from obstore import GetOptions

LARGE_BYTES = 1 << 20
"""Larger objects may take longer than ``timeout_seconds`` to go there, though not without end."""
LARGEST_BYTES = 80 << 20
"""No object of ours is larger than a session may be; a larger one is not read into memory."""

_STATUS = re.compile(r"status code: (\d{3})")
_DEBUG = "\n\nDebug source:"
_NO_CONNECTION = "kind: Connect,"
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist")
_QUERY = re.compile(r"\?\S*")
_FULL = "507"
_NO_RANGE = "416"
_UNCLEAR_STATUSES = ("408", "409", "5")


class ObjectMissing(Exception):
    """There is no object with this key."""


class ObjectTooLarge(StorageUnavailable):
    """The object is larger than anything that is written here."""


class ObjectExists(Exception):
    """The key is taken."""


class ObjectChanged(Exception):
    """The object is no longer the one with this tag: it was replaced, or removed."""


class OutcomeUnclear(StorageUnavailable):
    """Nobody answered whether the write was made; read the object to know, also a while later."""


class Tag(msgspec.Struct, frozen=True):
    """Names the content of an object: equal content may have equal tags.

    Attributes:
        etag: What listings show of it, too.
        version: What some stores compare instead.
    """

    etag: str
    version: str | None = None


class StoredObject(msgspec.Struct, frozen=True, eq=False):
    """An object that was read, or its beginning."""

    data: bytes
    tag: Tag


class ListedObject(msgspec.Struct, frozen=True):
    """An object as listings show it."""

    key: str
    etag: str
    size: int
    modified_at: float


class ObjectStore:
    """Objects under a URL.

    ``s3://bucket/prefix?endpoint=...&region=...``, ``az://container/prefix?account=...``, or
    ``gs://bucket/prefix``; what gives access comes from the vendors' own environment variables.

    Nothing is opened before the first call; a forked child opens its own. Calls block for as long
    as the store takes, and are made in threads. All raise ``StorageUnavailable`` when the store
    does not answer or refuses.

    Args:
        url: Where the bucket is.
        timeout_seconds: After how long without an answer the store counts as away.
        below: What all keys are below, after the prefix in the URL; ends with "/".
        connection: Connections to the same bucket that there are already.

    Raises:
        ValueError: The URL is none of these.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        below: str = "",
        connection: Connection | None = None,
    ) -> None:
        place = place_of(url)
        self._url = url
        self._connection = connection or Connection(place, timeout_seconds)
        self._below = below
        self._prefix = f"{place.prefix}{below}"
        self.name = f"{place.kind}://{place.bucket}/{self._prefix}"

    def under(self, prefix: str) -> "ObjectStore":
        """Return the objects below, over the same connections."""
        below = f"{self._below}{prefix.strip('/')}/"
        return ObjectStore(self._url, below=below, connection=self._connection)

    def get(self, key: str) -> StoredObject:
        """Return an object; raises ``ObjectMissing``."""
        with self._translated(key):
            return self._read(key)

    def get_if_changed(self, key: str, known: Tag) -> StoredObject | None:
        """Return an object, or None where it still is the known one; raises ``ObjectMissing``."""
        with self._translated(key):
            try:
                return self._read(key, if_none_match=known.etag)
            except NotModifiedError:
                return None

    def head_bytes(self, key: str, size: int) -> StoredObject:
        """Return up to so many bytes from the beginning; raises ``ObjectMissing``."""
        with self._translated(key):
            try:
                return self._read(key, range=(0, size))
            except BaseError as error:
                if _status_of(error) != _NO_RANGE:
                    raise
                return self._read(key)  # an empty object has no first byte

    def get_part(self, key: str, start: int, length: int | None) -> tuple[bytes, int]:
        """Return bytes of an object from a place on, and its whole size; ``ObjectMissing``.

        There are fewer than ``length`` only at its end, and none behind it.
        """
        wanted = {"offset": start} if length is None else (start, start + max(length, 1))
        with self._translated(key):
            try:
                result = obstore.get(
                    self._connection.quick(),
                    self._prefix + key,
                    options=cast("GetOptions", {"range": wanted}),
                )
                return bytes(result.bytes())[:length], result.meta["size"]
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise
                raise ObjectMissing(key) from error
            except BaseError as error:
                if _status_of(error) != _NO_RANGE:
                    raise
        return b"", len(self.get(key).data)  # nothing begins there

    def put_new(self, key: str, data: bytes | memoryview) -> Tag:
        """Write a new object.

        Raises:
            ObjectExists: The key is taken.
            OutcomeUnclear: Nobody knows whether it was written.
        """
        with self._translated(key, writes=True):
            try:
                return self._put(key, data, "create")
            except (AlreadyExistsError, PreconditionError) as error:
                if _status_of(error) == "409" and "BlobAlreadyExists" not in str(error):
                    raise OutcomeUnclear(f"Another write of {key} is under way.") from error
                raise ObjectExists(key) from error

    def put_if(self, key: str, data: bytes, tag: Tag) -> Tag:
        """Replace the object that has this tag.

        Raises:
            ObjectChanged: It has another one by now, or is gone, or is just being written.
            OutcomeUnclear: Nobody knows whether it was written.
        """
        expected = {"e_tag": tag.etag}
        if tag.version is not None:
            expected["version"] = tag.version
        with self._translated(key, writes=True):
            try:
                return self._put(key, data, expected)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if _has_no_bucket(error):
                    raise
                raise ObjectChanged(key) from error

    def put(self, key: str, data: bytes | memoryview) -> Tag:
        """Write an object, whatever is there; ``OutcomeUnclear``."""
        with self._translated(key, writes=True):
            return self._put(key, data, "overwrite")

    def copy(self, key: str, to: str) -> None:
        """Write an object once more, under another key; ``ObjectMissing``, ``OutcomeUnclear``."""
        with self._translated(key, writes=True):
            try:
                obstore.copy(self._connection.patient(), self._prefix + key, self._prefix + to)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise
                raise ObjectMissing(key) from error

    def written_at(self, key: str) -> float | None:
        """Return when an object was written; None where there is none."""
        with self._translated(key):
            try:
                meta = obstore.head(self._connection.quick(), self._prefix + key)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise
                return None
        return meta["last_modified"].timestamp()

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        with self._translated(key):
            try:
                obstore.delete(self._connection.quick(), self._prefix + key)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise

    def list(self, prefix: str = "") -> Iterator[Sequence[ListedObject]]:
        """Yield all objects whose keys begin with a prefix, which ends with "/", in pages."""
        with self._translated(prefix):
            pages = obstore.list(self._connection.quick(), self._prefix + prefix)
        while True:
            with self._translated(prefix):
                page = next(pages, None)
            if page is None:
                return
            yield [
                ListedObject(
                    key=item["path"].removeprefix(self._prefix),
                    etag=item["e_tag"] or "",
                    size=item["size"],
                    modified_at=item["last_modified"].timestamp(),
                )
                for item in page
            ]

    def _read(self, key: str, **options: Any) -> StoredObject:
        try:
            result = obstore.get(
                self._connection.quick(), self._prefix + key, options=cast("GetOptions", options)
            )
            start, end = result.range
            if end - start > LARGEST_BYTES:
                raise ObjectTooLarge(f"{key} is larger than {LARGEST_BYTES} bytes.")
            data = bytes(result.bytes())
        except FileNotFoundError as error:
            if _has_no_bucket(error):
                raise
            raise ObjectMissing(key) from error
        return StoredObject(data, _tag_of(result.meta, self._connection.compares_versions))

    def _put(self, key: str, data: bytes | memoryview, mode: Any) -> Tag:
        connection = self._connection
        store = connection.patient() if len(data) > LARGE_BYTES else connection.quick()
        # In one piece always: a multipart upload has no conditions.
        written = obstore.put(store, self._prefix + key, data, mode=mode, use_multipart=False)
        return _tag_of(written, connection.compares_versions)

    @contextmanager
    def _translated(self, key: str, *, writes: bool = False) -> Iterator[None]:
        """Raise the project's errors for those of the library."""
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            if _has_no_bucket(error):
                raise StorageUnavailable(
                    f"There is no bucket for {self.name}: make it first."
                ) from error
            status = _status_of(error)
            if status == _FULL:
                raise StorageFull(f"The object store is full: {_told(error)}") from error
            unclear = status is None or status.startswith(_UNCLEAR_STATUSES)
            if writes and unclear and _NO_CONNECTION not in str(error):
                raise OutcomeUnclear(
                    f"The object store did not say whether {key} was written: {_told(error)}"
                ) from error
            raise StorageUnavailable(f"The object store failed: {_told(error)}") from error


def _status_of(error: Exception) -> str | None:
    """Return the status of the answer; None where there was no whole answer."""
    found = _STATUS.search(str(error))
    return found[1] if found else None


def _told(error: Exception) -> str:
    """Return what happened, in a line without what signs a request."""
    text = " ".join(str(error).partition(_DEBUG)[0].split())
    return _QUERY.sub("", text)[:300]


def _has_no_bucket(error: Exception) -> bool:
    """Return whether it is the bucket that is missing, not an object."""
    return _NO_BUCKET.search(str(error)) is not None


def _tag_of(meta: Mapping[str, Any], compares_versions: bool) -> Tag:
    if not meta["e_tag"]:
        raise StorageUnavailable("The object store gives objects no ETag, so it can't be used.")
    return Tag(meta["e_tag"], meta["version"] if compares_versions else None)
