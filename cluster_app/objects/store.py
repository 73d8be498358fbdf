"""Reads and writes objects of a bucket, with conditional writes.

Only this module and ``connection`` use ``obstore``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError

from cluster_app.objects.connection import Connection, place_of
from sessions_app.errors import StorageError, StorageFull, StorageUnavailable

if TYPE_CHECKING:
    from obstore import GetOptions

LARGE_BYTES = 1 << 20
"""Larger objects are sent with a longer timeout than ``timeout_seconds``."""
LARGEST_BYTES = 80 << 20
"""The read limit, above the largest session that is ever written."""

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
    """The object is larger than ``LARGEST_BYTES``."""


class BucketMissing(StorageUnavailable):
    """There is no bucket with the name in the URL, or no container of Azure."""


class ObjectExists(Exception):
    """The key is taken."""


class ObjectChanged(Exception):
    """The object does not have the expected tag: it was replaced or removed."""


class OutcomeUnclear(StorageUnavailable):
    """It is unknown whether a write was applied, now or later; read the object to find out."""


class Tag(msgspec.Struct, frozen=True):
    """Identifies the content of an object: equal content may have equal tags.

    Attributes:
        etag: The ETag, as in listings.
        version: The version that some stores compare instead.
    """

    etag: str
    version: str | None = None


class StoredObject(msgspec.Struct, frozen=True, eq=False):
    """The content of an object, or its beginning, with its tag."""

    data: bytes
    tag: Tag


class ListedObject(msgspec.Struct, frozen=True):
    """An object in a listing."""

    key: str
    etag: str
    size: int
    modified_at: float

    def has_tag(self, etag: str) -> bool:
        """Return whether this is its ETag; quotes are ignored, which some listings leave out."""
        return self.etag.strip('"') == etag.strip('"')


class ObjectStore:
    """Accesses the objects under a URL.

    URLs are ``s3://bucket/prefix?endpoint=...&region=...``, ``az://container/prefix?account=...``
    or ``gs://bucket/prefix``. Credentials come from the vendors' own environment variables.

    Connections are opened on first use, and again in a forked child. Calls block and belong in
    threads. All raise ``StorageUnavailable`` if the store does not respond or refuses the request.

    Args:
        url: The URL.
        timeout_seconds: The response timeout.
        below: A further prefix of all keys, after that of the URL; ends with "/".
        connection: An existing connection to the same bucket, to be shared.

    Raises:
        ValueError: The URL is invalid.
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

    @property
    def last_write_failed(self) -> bool:
        """Return whether the store failed the last write of this process.

        A write whose condition was not met is no failure.
        """
        return self._connection.last_write_failed

    def under(self, prefix: str) -> "ObjectStore":
        """Return the store for keys below a prefix, with the same connection."""
        below = f"{self._below}{prefix.strip('/')}/"
        return ObjectStore(self._url, below=below, connection=self._connection)

    def get(self, key: str) -> StoredObject:
        """Return an object; raises ``ObjectMissing``."""
        with self._translated(key):
            return self._read(key)

    def get_if_changed(self, key: str, known: Tag) -> StoredObject | None:
        """Return an object, or None if it still has this tag; raises ``ObjectMissing``."""
        with self._translated(key):
            try:
                return self._read(key, if_none_match=known.etag)
            except NotModifiedError:
                return None

    def head_bytes(self, key: str, size: int) -> StoredObject:
        """Return up to ``size`` bytes from the beginning; raises ``ObjectMissing``."""
        with self._translated(key):
            try:
                return self._read(key, range=(0, size))
            except BaseError as error:
                if _status_of(error) != _NO_RANGE:
                    raise
                return self._read(key)  # an empty object satisfies no byte range

    def get_part(self, key: str, start: int, length: int | None) -> tuple[bytes, int]:
        """Return a byte range of an object, and its whole size; raises ``ObjectMissing``.

        The range is shorter than ``length`` at the end of the object, and empty after it.
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
        return b"", len(self.get(key).data)  # the range starts after the end

    def put_new(self, key: str, data: bytes | memoryview) -> Tag:
        """Create an object (If-None-Match).

        Raises:
            ObjectExists: The key is taken.
            OutcomeUnclear: It is unknown whether the object was written.
        """
        with self._writing(key):
            try:
                return self._put(key, data, "create")
            except (AlreadyExistsError, PreconditionError) as error:
                if _status_of(error) == "409" and "BlobAlreadyExists" not in str(error):
                    raise OutcomeUnclear(f"Another write of {key} is under way.") from error
                raise ObjectExists(key) from error

    def put_if(self, key: str, data: bytes, tag: Tag) -> Tag:
        """Replace an object that has this tag (If-Match).

        Raises:
            ObjectChanged: It has another tag, is missing, or is being written concurrently.
            OutcomeUnclear: It is unknown whether the object was written.
        """
        expected = {"e_tag": tag.etag}
        if tag.version is not None:
            expected["version"] = tag.version
        with self._writing(key):
            try:
                return self._put(key, data, expected)
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
                if _has_no_bucket(error):
                    raise
                raise ObjectChanged(key) from error

    def put(self, key: str, data: bytes | memoryview) -> Tag:
        """Create or replace an object; raises ``OutcomeUnclear``."""
        with self._writing(key):
            return self._put(key, data, "overwrite")

    def copy(self, key: str, to: str) -> None:
        """Copy an object to another key; raises ``ObjectMissing`` or ``OutcomeUnclear``."""
        with self._writing(key):
            try:
                obstore.copy(self._connection.patient(), self._prefix + key, self._prefix + to)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise
                raise ObjectMissing(key) from error

    def written_at(self, key: str) -> float | None:
        """Return when an object was written, in seconds since 1970; None if it is missing."""
        with self._translated(key):
            try:
                meta = obstore.head(self._connection.quick(), self._prefix + key)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise
                return None
        return meta["last_modified"].timestamp()

    def delete(self, key: str) -> None:
        """Remove an object if it exists."""
        with self._translated(key):
            try:
                obstore.delete(self._connection.quick(), self._prefix + key)
            except FileNotFoundError as error:
                if _has_no_bucket(error):
                    raise

    def list(self, prefix: str = "") -> Iterator[Sequence[ListedObject]]:
        """Yield pages of the objects below a prefix, which ends with "/"."""
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

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the names of the folders below a prefix, which ends with "/"."""
        start = self._prefix + prefix
        with self._translated(prefix):
            found = obstore.list_with_delimiter(self._connection.quick(), start)
        return sorted(each.rstrip("/").removeprefix(start) for each in found["common_prefixes"])

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
        # Never as a multipart upload, which supports no conditions.
        written = obstore.put(store, self._prefix + key, data, mode=mode, use_multipart=False)
        return _tag_of(written, connection.compares_versions)

    @contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        """Translate the errors of a write, and note whether the store took it."""
        has_failed = False
        try:
            with self._translated(key, writes=True):
                yield
        except StorageError:
            has_failed = True
            raise
        finally:
            self._connection.last_write_failed = has_failed

    @contextmanager
    def _translated(self, key: str, *, writes: bool = False) -> Iterator[None]:
        """Translate the library's errors to the project's."""
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            if _has_no_bucket(error):
                raise BucketMissing(
                    f"There is no bucket for {self.name}: make it first, or correct its name."
                ) from error
            status = _status_of(error)
            if status == _FULL:
                raise StorageFull(f"The object store is full: {_reason_of(error)}") from error
            unclear = status is None or status.startswith(_UNCLEAR_STATUSES)
            if writes and unclear and _NO_CONNECTION not in str(error):
                raise OutcomeUnclear(
                    f"The object store did not say whether {key} was written: {_reason_of(error)}"
                ) from error
            raise StorageUnavailable(f"The object store failed: {_reason_of(error)}") from error


def _status_of(error: Exception) -> str | None:
    """Return the HTTP status of the response; None without a complete response."""
    found = _STATUS.search(str(error))
    return found[1] if found else None


def _reason_of(error: Exception) -> str:
    """Return the error as one line, without request signatures."""
    text = " ".join(str(error).partition(_DEBUG)[0].split())
    return _QUERY.sub("", text)[:300]


def _has_no_bucket(error: Exception) -> bool:
    """Return whether the bucket is missing, rather than an object."""
    return _NO_BUCKET.search(str(error)) is not None


def _tag_of(meta: Mapping[str, Any], compares_versions: bool) -> Tag:
    if not meta["e_tag"]:
        raise StorageUnavailable("The object store gives objects no ETag, so it can't be used.")
    return Tag(meta["e_tag"], meta["version"] if compares_versions else None)
