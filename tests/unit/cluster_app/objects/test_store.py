"""Objects are written on conditions, and what went wrong has a name."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cluster_app.objects.store import (
    LARGE_BYTES,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    OutcomeUnclear,
    Tag,
)
from sessions_app.errors import StorageFull, StorageUnavailable
from tests.object_server import REGION, Answer, ObjectServer, Request, Serve, refusal


def test_an_object_is_read_as_it_was_written(object_store: ObjectStore) -> None:
    tag = object_store.put_new("a/key.json", b"text")
    found = object_store.get("a/key.json")
    assert (found.data, found.tag) == (b"text", tag)


def test_a_missing_object_is_missing(object_store: ObjectStore) -> None:
    for call in (
        lambda: object_store.get("key"),
        lambda: object_store.get_if_changed("key", Tag('"tag"')),
        lambda: object_store.head_bytes("key", 100),
    ):
        with pytest.raises(ObjectMissing):
            call()
    object_store.delete("key")


def test_a_known_object_is_not_sent_again(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    first = object_store.put_new("key", b"first")
    assert object_store.get_if_changed("key", first) is None
    second = object_store.put_if("key", b"second", first)
    found = object_store.get_if_changed("key", first)
    assert found is not None
    assert (found.data, found.tag) == (b"second", second)
    assert object_server.requests[-1].if_none_match == first.etag


def test_a_key_is_taken_once(object_store: ObjectStore) -> None:
    object_store.put_new("key", b"first")
    with pytest.raises(ObjectExists):
        object_store.put_new("key", b"second")
    assert object_store.get("key").data == b"first"


def test_only_who_knows_the_object_replaces_it(object_store: ObjectStore) -> None:
    first = object_store.put_new("key", b"first")
    object_store.put_if("key", b"second", first)
    with pytest.raises(ObjectChanged):
        object_store.put_if("key", b"third", first)
    with pytest.raises(ObjectChanged):
        object_store.put_if("nothing", b"third", first)
    assert object_store.get("key").data == b"second"


def test_an_object_is_replaced_whatever_is_there(object_store: ObjectStore) -> None:
    object_store.put("key", b"first")
    object_store.put("key", b"second")
    assert object_store.get("key").data == b"second"


def test_a_deleted_object_is_gone(object_store: ObjectStore) -> None:
    object_store.put_new("key", b"text")
    object_store.delete("key")
    with pytest.raises(ObjectMissing):
        object_store.get("key")


def test_only_the_beginning_is_read(object_store: ObjectStore) -> None:
    tag = object_store.put_new("key", b"0123456789")
    head = object_store.head_bytes("key", 4)
    assert (head.data, head.tag) == (b"0123", tag)
    assert object_store.head_bytes("key", 100).data == b"0123456789"


def test_an_empty_object_has_an_empty_beginning(object_store: ObjectStore) -> None:
    object_store.put_new("key", b"")
    assert object_store.head_bytes("key", 4).data == b""


def test_folders_are_listed_without_what_is_in_them(object_store: ObjectStore) -> None:
    assert object_store.folders("users/") == []
    for key in ("users/bob/sessions/a.json", "users/anna/b", "users/anna/sessions/c", "users/file"):
        object_store.put(key, b"")
    object_store.put("sessions/d", b"")
    assert object_store.folders("users/") == ["anna", "bob"]
    assert object_store.under("users/anna").folders("") == ["sessions"]


def test_all_objects_under_a_prefix_are_listed(object_store: ObjectStore) -> None:
    tags = {f"sessions/{n}": object_store.put_new(f"sessions/{n}", b"text") for n in range(3)}
    object_store.put_new("sessions2/x", b"other")
    listed = [item for page in object_store.list("sessions/") for item in page]
    assert {item.key: Tag(item.etag) for item in listed} == tags
    assert {item.size for item in listed} == {4}
    assert len([item for page in object_store.list() for item in page]) == 4
    assert list(object_store.list("nothing/")) == []


def test_what_is_under_a_prefix_has_the_shorter_keys(object_store: ObjectStore) -> None:
    agents = object_store.under("agents").under("sessions/")
    agents.put_new("key", b"text")
    assert object_store.get("agents/sessions/key").data == b"text"
    assert [item.key for page in agents.list() for item in page] == ["key"]
    assert agents.name == f"{object_store.name}agents/sessions/"


def test_a_large_object_goes_in_one_piece(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    data = b"x" * (LARGE_BYTES * 6)
    tag = object_store.put_new("key", data)
    assert [request.method for request in object_server.requests if request.writes] == ["PUT"]
    object_store.put_if("key", data + b"y", tag)
    assert object_store.get("key").data == data + b"y"


@pytest.mark.parametrize("status", ["500 Internal Server Error", "503 Slow Down"])
def test_an_error_of_the_store_leaves_a_write_unclear(
    object_store: ObjectStore, object_server: ObjectServer, status: str
) -> None:
    tag = object_store.put_new("key", b"first")
    with object_server.meddled(lambda request, serve: refusal(status)):
        for write in writes(object_store, tag):
            with pytest.raises(OutcomeUnclear):
                write()
        with pytest.raises(StorageUnavailable) as raised:
            object_store.get("key")
    assert not isinstance(raised.value, OutcomeUnclear)
    assert raised.value.retryable


def test_a_write_whose_answer_got_lost_is_unclear_and_is_not_repeated(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    tag = object_store.put_new("key", b"first")

    def lose(request: Request, serve: Serve) -> Answer | None:
        serve()
        return None

    with object_server.meddled(lose), pytest.raises(OutcomeUnclear):
        object_store.put_if("key", b"second", tag)
    assert object_store.get("key").data == b"second"
    swaps = [request.if_match for request in object_server.requests if request.if_match]
    assert swaps == [tag.etag]


def test_a_write_beside_another_one_is_a_conflict(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    """Amazon answers 409 while another write is under way, which says nothing of its outcome."""
    tag = object_store.put_new("key", b"first")
    with object_server.meddled(lambda request, serve: refusal("409 Conflict")):
        with pytest.raises(ObjectChanged):
            object_store.put_if("key", b"second", tag)
        with pytest.raises(OutcomeUnclear):
            object_store.put_new("other", b"second")


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "400 Bad Request"])
def test_a_refusal_is_no_unclear_outcome(
    object_store: ObjectStore, object_server: ObjectServer, status: str
) -> None:
    tag = object_store.put_new("key", b"first")
    with object_server.meddled(lambda request, serve: refusal(status)):
        for call in (*writes(object_store, tag), lambda: object_store.get("key")):
            with pytest.raises(StorageUnavailable) as raised:
                call()
            assert not isinstance(raised.value, OutcomeUnclear)
            assert status.split(maxsplit=1)[0] in raised.value.message


def test_a_full_store_is_a_full_disk(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    with (
        object_server.meddled(lambda request, serve: refusal("507 Insufficient Storage")),
        pytest.raises(StorageFull),
    ):
        object_store.put_new("key", b"text")


def test_nobody_there_is_no_unclear_outcome(object_url: str) -> None:
    with socket.socket() as bound:  # and not listening
        bound.bind(("127.0.0.1", 0))
        store = ObjectStore(f"s3://bucket?endpoint=http://127.0.0.1:{bound.getsockname()[1]}")
        calls = (*writes(store, Tag('"tag"')), lambda: store.get("key"), lambda: [*store.list()])
        for call in calls:
            with pytest.raises(StorageUnavailable) as raised:
                call()
            assert not isinstance(raised.value, OutcomeUnclear)


def test_a_store_that_says_nothing_is_away_after_a_while(
    object_url: str, object_server: ObjectServer
) -> None:
    store = ObjectStore(object_url, timeout_seconds=0.2)
    patient = ObjectStore(object_url)
    tag = patient.put_new("key", b"first")
    enough = threading.Event()

    def wait(request: Request, serve: Serve) -> Answer:
        enough.wait(30)
        return serve()

    with object_server.meddled(wait):
        with pytest.raises(StorageUnavailable):
            store.get("key")
        with pytest.raises(OutcomeUnclear):
            store.put_if("key", b"second", tag)
        enough.set()


def test_a_missing_bucket_is_told(object_url: str, object_server: ObjectServer) -> None:
    store = ObjectStore(f"s3://nothing/prefix?endpoint={object_server.url}&region={REGION}")
    for call in (
        *writes(store, Tag('"tag"')),
        lambda: store.get("key"),
        lambda: [*store.list()],
        lambda: store.delete("key"),
    ):
        with pytest.raises(StorageUnavailable, match="no bucket for s3://nothing/prefix/"):
            call()


@pytest.mark.parametrize(
    "url",
    [
        "http://bucket/prefix",
        "s3:///prefix",
        "bucket",
        "s3://bucket?secret=hidden",
        "s3://key:hidden@bucket/prefix",
    ],
)
def test_an_unknown_url_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ValueError, match="object store") as raised:
        ObjectStore(url)
    assert "hidden" not in str(raised.value)


def test_every_vendors_url_is_known() -> None:
    for url in ("gs://bucket/p", "az://container/p?account=a", "s3://bucket/p?region=r"):
        assert ObjectStore(url).name == f"{url.partition('?')[0]}/"


def test_a_forked_child_opens_connections_of_its_own(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_store.put_new("key", b"text")
    before = object_store._connection.quick()
    monkeypatch.setattr("cluster_app.objects.connection.os.getpid", lambda: -1)
    assert object_store._connection.quick() is not before


class Vendor(ThreadingHTTPServer):
    """A server that accepts everything, and shows the conditions that it was told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Accepts)
        self.told: list[tuple[str, ...]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Accepts(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Vendor

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        conditions = [
            f"{name.lower()}: {value}"
            for name, value in self.headers.items()
            if "if-" in name.lower()
        ]
        self.server.told.append((self.path, *conditions))
        self.send_response(201 if self.command == "PUT" else 200)
        for name, value in {
            "ETag": '"tag"',
            "x-goog-generation": "42",
            "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT",
            "Content-Length": "0",
        }.items():
            self.send_header(name, value)
        self.end_headers()

    do_GET = do_PUT = answer  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with Vendor() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def write_and_replace(store: ObjectStore) -> None:
    store.get_if_changed("key", store.put_if("key", b"2", store.put_new("key", b"1")))


def test_azure_is_told_the_conditions_that_amazon_is_told(
    vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    write_and_replace(ObjectStore(f"az://container/p?account=me&endpoint={vendor.url}/me"))
    path = "/me/container/p/key"
    assert vendor.told == [
        (path, "if-none-match: *"),
        (path, 'if-match: "tag"'),
        (path, 'if-none-match: "tag"'),
    ]


def test_google_is_told_generations(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    account = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    write_and_replace(ObjectStore(f"gs://bucket/p?endpoint={vendor.url}"))
    path = "/bucket/p%2Fkey"
    assert vendor.told == [
        (path, "x-goog-if-generation-match: 0"),
        (path, "x-goog-if-generation-match: 42"),
        (path, 'if-none-match: "tag"'),
    ]


def writes(store: ObjectStore, tag: Tag) -> list[Callable[[], object]]:
    return [
        lambda: store.put_new("new", b"text"),
        lambda: store.put_if("key", b"text", tag),
        lambda: store.put("other", b"text"),
    ]
