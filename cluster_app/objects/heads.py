"""Reads the index entries of objects from their store."""

from cluster_app.objects.indexed import SUFFIX, Indexed, from_head, from_whole
from cluster_app.objects.store import ObjectMissing, ObjectStore, ObjectTooLarge
from sessions_app.store.envelope import is_tombstone
from sessions_app.store.listing import HEAD_SIZE


def read_indexed(store: ObjectStore, session_id: str) -> Indexed | None:
    """Return the index entry of a session's object, or None if there is no object.

    Reads only the beginning of the object if that suffices.
    """
    key = session_id + SUFFIX
    try:
        head = store.head_bytes(key, HEAD_SIZE)
        if is_tombstone(head.data):
            return None
        known = from_head(head.data, session_id, head.tag.etag)
        if known is not None:
            return known
        whole = head if len(head.data) < HEAD_SIZE else store.get(key)
    except ObjectTooLarge:
        whole = head  # too large, reported as unreadable
    except ObjectMissing:
        return None
    return from_whole(whole.data, session_id, whole.tag.etag)
