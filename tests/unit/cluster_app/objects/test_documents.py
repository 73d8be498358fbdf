"""Documents as objects: what others write is seen at once, and nothing is read twice."""

from cluster_app.objects.documents import ObjectDocuments
from cluster_app.objects.store import ObjectStore
from tests.object_server import Answer, ObjectServer, Request, Serve


def reads(server: ObjectServer) -> list[str]:
    """Return the names of the documents that were read."""
    return [
        request.path.rpartition("/")[2]
        for request in server.requests
        if request.method == "GET" and "list-type" not in request.query
    ]


def test_what_one_process_writes_another_reads_at_once(object_store: ObjectStore) -> None:
    one, other = ObjectDocuments(object_store), ObjectDocuments(object_store)
    one.create("a.md", b"first")
    assert other.read("a.md") == other.snapshot().read("a.md") == b"first"
    one.put("a.md", b"second")
    assert other.read("a.md") == other.snapshot().read("a.md") == b"second"


def test_a_snapshot_reads_only_what_changed(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one, other = ObjectDocuments(object_store), ObjectDocuments(object_store)
    for name in ("a.md", "b.md"):
        one.create(name, b"first")
    other.snapshot()
    one.put("b.md", b"second")
    object_server.forget_requests()
    assert other.snapshot().read("b.md") == b"second"
    assert reads(object_server) == ["b.md"]


def test_a_document_that_another_process_changes_meanwhile_is_replaced_all_the_same(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    one, other = ObjectDocuments(object_store), ObjectDocuments(object_store)
    one.create("a.md", b"first")
    others = [b"second"]

    def be_slower(request: Request, serve: Serve) -> Answer:
        if request.if_match and others:
            other.put("a.md", others.pop())
        return serve()

    with object_server.meddled(be_slower):
        one.replace("a.md", b"third")
    assert one.read("a.md") == b"third"


def test_a_put_whose_answer_gets_lost_is_made(
    object_store: ObjectStore, object_server: ObjectServer
) -> None:
    lost = ["answer"]

    def lose(request: Request, serve: Serve) -> Answer | None:
        answer = serve()
        return None if request.method == "PUT" and lost and lost.pop() else answer

    with object_server.meddled(lose):
        ObjectDocuments(object_store).put("a.md", b"text")
    assert lost == []
    assert object_store.get("a.md").data == b"text"
