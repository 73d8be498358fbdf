"""Records as objects: what others write is seen at once, and nothing is read twice."""

from collections.abc import Mapping

from cluster_app.objects.records import ObjectRecords
from cluster_app.objects.store import ObjectStore
from tests.object_server import Answer, ObjectServer, Request, Serve


def reads(server: ObjectServer) -> list[str]:
    """Return the names of the records that were read."""
    return [
        request.path.rpartition("/")[2]
        for request in server.requests
        if request.method == "GET" and "list-type" not in request.query
    ]


def everything(records: ObjectRecords) -> Mapping[str, object]:
    return records.read_all(lambda name: True)


def test_what_one_process_writes_another_reads_at_once(object_store: ObjectStore) -> None:
    one, other = ObjectRecords(object_store), ObjectRecords(object_store)
    one.put("a.md", b"first", exists=False)
    assert other.read("a.md") == everything(other)["a.md"] == b"first"
    one.put("a.md", b"second")
    assert other.read("a.md") == everything(other)["a.md"] == b"second"


def test_all_are_read_again_but_only_what_changed(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one, other = ObjectRecords(object_store), ObjectRecords(object_store)
    for name in ("a.md", "b.md"):
        one.put(name, b"first")
    everything(other)
    one.put("b.md", b"second")
    object_server.forget_requests()
    assert everything(other)["b.md"] == b"second"
    assert reads(object_server) == ["b.md"]


def test_a_record_that_another_process_changes_meanwhile_is_replaced_all_the_same(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one, other = ObjectRecords(object_store), ObjectRecords(object_store)
    one.put("a.md", b"first", exists=False)
    others = [b"second"]

    def be_slower(request: Request, serve: Serve) -> Answer:
        if request.if_match and others:
            other.put("a.md", others.pop())
        return serve()

    with object_server.meddled(be_slower):
        assert one.put("a.md", b"third", exists=True)
    assert one.read("a.md") == b"third"


def test_a_put_whose_answer_gets_lost_is_made(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    lost = ["answer"]

    def lose(request: Request, serve: Serve) -> Answer | None:
        answer = serve()
        return None if request.method == "PUT" and lost and lost.pop() else answer

    with object_server.meddled(lose):
        ObjectRecords(object_store).put("a.md", b"text")
    assert lost == []
    assert object_store.get("a.md").data == b"text"
