"""Attachments that are objects: a sweep and whoever uses a file again see each other."""

import contextlib
import tempfile
import time
from collections.abc import Callable

import pytest

from cluster_app.objects.attachments import ObjectAttachmentStore
from cluster_app.objects.store import ObjectStore
from sessions_app.attachments.service import keep
from sessions_app.errors import AttachmentNotFound, StorageUnavailable
from tests.object_server import Answer, ObjectServer, Request, Serve, refusal

TEXT = b"a text"
UNKNOWN = f"sha256:{'0' * 64}"


@pytest.fixture
def store(object_store: ObjectStore) -> ObjectAttachmentStore:
    return ObjectAttachmentStore(object_store, now=lambda: time.time() + 1)


def kept(store: ObjectAttachmentStore) -> str:
    return keep(store, TEXT, name=None, max_bytes=1000).id


def swept(store: ObjectAttachmentStore) -> int:
    return store.sweep(lambda: (), older_than_seconds=0)


def is_there(store: ObjectAttachmentStore, attachment_id: str) -> bool:
    try:
        return store.read(attachment_id) == TEXT
    except AttachmentNotFound:
        return False


def renewed(store: ObjectAttachmentStore, attachment_id: str) -> bool:
    try:
        store.renew([attachment_id])
    except AttachmentNotFound:
        return False
    return True


USES: dict[str, Callable[[ObjectAttachmentStore, str], bool]] = {
    "referred to": renewed,
    "uploaded": lambda store, _: bool(kept(store)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("step", range(7))
def test_what_is_used_between_any_two_steps_of_a_sweep_is_there_or_refused(
    store: ObjectAttachmentStore,
    object_server: ObjectServer,
    use: Callable[[ObjectAttachmentStore, str], bool],
    step: int,
) -> None:
    attachment_id, requests, used = kept(store), [0], [False]

    def between(request: Request, serve: Serve) -> Answer:
        requests[0] += 1
        if requests[0] == step + 2:  # the first lists what is there
            used[0] = use(store, attachment_id)
        return serve()

    with object_server.meddled(between):
        swept(store)
    assert is_there(store, attachment_id) or not used[0]


@pytest.mark.parametrize("step", range(1, 12))
def test_who_uses_a_file_at_any_moment_of_which_it_is_swept_has_it_or_is_refused(
    store: ObjectAttachmentStore, object_server: ObjectServer, step: int
) -> None:
    attachment_id, requests = kept(store), [0]

    def between(request: Request, serve: Serve) -> Answer:
        requests[0] += 1
        if requests[0] == step:
            swept(store)
        return serve()

    with object_server.meddled(between):
        used = renewed(store, attachment_id)
    assert is_there(store, attachment_id) == used
    with object_server.meddled(between):
        assert kept(store) == attachment_id
    assert is_there(store, attachment_id)


@pytest.mark.parametrize("step", range(2, 9))
def test_a_sweep_that_dies_loses_nothing_that_is_used(
    store: ObjectAttachmentStore, object_server: ObjectServer, object_store: ObjectStore, step: int
) -> None:
    attachment_id, requests, used = kept(store), [0], [False]

    def dying(request: Request, serve: Serve) -> Answer:
        requests[0] += 1
        if requests[0] == step:
            with object_server.meddled(lambda _, serve: serve()):
                used[0] = renewed(store, attachment_id)
        return serve() if requests[0] < step else refusal("503 Slow Down")

    with object_server.meddled(dying), contextlib.suppress(StorageUnavailable):
        swept(store)
    store.sweep(lambda: {attachment_id}, older_than_seconds=0)
    assert is_there(store, attachment_id) or not used[0]
    for _ in range(2):
        swept(store)
    assert list(object_store.list()) == []


def test_a_machine_without_a_place_for_temporary_files_says_so(
    store: ObjectAttachmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(StorageUnavailable, match="TMPDIR"):
        kept(store)


def test_a_mark_of_what_was_never_there_goes_with_a_sweep(
    store: ObjectAttachmentStore, object_store: ObjectStore
) -> None:
    assert not renewed(store, UNKNOWN)
    assert swept(store) == 0
    assert list(object_store.list()) == []


def test_a_sweep_leaves_nothing_behind(
    store: ObjectAttachmentStore, object_store: ObjectStore
) -> None:
    assert renewed(store, kept(store))
    assert swept(store) == 1
    assert list(object_store.list()) == []


@pytest.mark.parametrize("damaged", [b"A TEXT", b"a tex", b"a text and more", b"x"])
def test_a_damaged_file_is_replaced_when_it_is_sent_again(
    store: ObjectAttachmentStore, object_store: ObjectStore, damaged: bytes
) -> None:
    found = keep(store, TEXT, name=None, max_bytes=1000)
    digest = found.id.removeprefix("sha256:")
    object_store.put(f"{digest[:2]}/{digest}", damaged)
    keep(store, TEXT, name=None, max_bytes=1000)
    assert store.read(found.id) == TEXT
