"""Stores user-written documents as objects."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cluster_app.objects.store import (
    ListedObject,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
    StoredObject,
)
from cluster_app.objects.tags import same_tag
from sessions_app.errors import StorageUnavailable
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.documents import MAX_DOCUMENT_BYTES

READERS = 16
TRIES = 20


class ObjectDocuments:
    """Stores documents as objects; implements ``Documents``.

    Other processes see writes immediately: cached content is used only if the store confirms that
    it is unchanged.

    Args:
        store: The object store; keys are the names of documents.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, StoredObject] = {}  # of the last snapshot

    def list(self) -> Sequence[str]:
        """Return all names."""
        return sorted(self._listed())

    def read(self, name: str) -> bytes:
        """Return an object's content."""
        return _checked(name, self._get(name).data)

    def snapshot(self) -> "Snapshot":
        """Return all current documents; fetch only those that changed since the last snapshot."""
        listed = self._listed()
        fitting = {name for name, item in listed.items() if item.size <= MAX_DOCUMENT_BYTES}
        found = {
            name: item
            for name, item in self._known.items()
            if name in fitting and same_tag(item.tag.etag, listed[name].etag)
        }
        wanted = sorted(fitting - found.keys())
        with ThreadPoolExecutor(READERS) as readers:
            read = zip(wanted, readers.map(self._get_if_there, wanted), strict=True)
            found |= {name: item for name, item in read if item is not None}
        self._known = found
        return Snapshot(
            {name: item.data for name, item in found.items()},
            too_large=listed.keys() - fitting,
        )

    def create(self, name: str, data: bytes) -> None:
        """Create an object; raises ``FileExistsError``."""
        try:
            self._store.put_new(name, data)
        except ObjectExists as error:
            raise FileExistsError(name) from error

    def replace(self, name: str, data: bytes) -> None:
        """Replace an existing object."""
        for _ in range(TRIES):
            known = self._get(name)
            try:
                self._store.put_if(name, data, known.tag)
            except ObjectChanged:
                continue
            return
        raise StorageUnavailable(f"{name} is being changed all the time. Try again.")

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object."""
        put_whole(self._store, name, data)

    def delete(self, name: str) -> None:
        """Remove an object."""
        try:
            self._store.head_bytes(name, 1)
        except ObjectMissing as error:
            raise FileNotFoundError(name) from error
        self._store.delete(name)

    def _listed(self) -> Mapping[str, ListedObject]:
        return {
            item.key: item for page in self._store.list() for item in page if "/" not in item.key
        }

    def _get(self, name: str) -> StoredObject:
        try:
            return self._store.get(name)
        except ObjectMissing as error:
            raise FileNotFoundError(name) from error

    def _get_if_there(self, name: str) -> StoredObject | None:
        try:
            return self._store.get(name)
        except ObjectMissing:  # deleted since it was listed
            return None


class Snapshot:
    """Holds the documents of one point in time; implements ``DocumentReader``."""

    def __init__(self, data: Mapping[str, bytes], *, too_large: Collection[str]) -> None:
        self._data = data
        self._too_large = too_large

    def list(self) -> Sequence[str]:
        """Return all names in order."""
        return sorted((*self._data, *self._too_large))

    def read(self, name: str) -> bytes:
        """Return a document; raises ``FileNotFoundError`` or ``UnreadableFileError``."""
        if name in self._too_large:
            raise _too_large(name)
        try:
            return _checked(name, self._data[name])
        except KeyError as error:
            raise FileNotFoundError(name) from error


def put_whole(store: ObjectStore, key: str, data: bytes | memoryview) -> None:
    """Create or replace an object; retry once if the outcome of the write is unknown."""
    try:
        store.put(key, data)
    except OutcomeUnclear:
        store.put(key, data)


def _checked(name: str, data: bytes) -> bytes:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise _too_large(name)
    return data


def _too_large(name: str) -> UnreadableFileError:
    return UnreadableFileError(name, f"larger than {MAX_DOCUMENT_BYTES} bytes")
