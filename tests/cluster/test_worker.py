"""Background workers: several, on one queue, and one of them may die."""

import psutil


def worker_of(node):
    """Return the first process of a node's background worker."""
    children = psutil.Process(node.server.process.pid).children(recursive=True)
    workers = [c for c in children if "mochi_project.background.worker" in c.cmdline()]
    [first] = [c for c in workers if c.ppid() not in {other.pid for other in workers}]
    return first


def has_worker(node):
    return node.chat().http.get("/health").json()["worker_alive"]


def summary_of(node, session_id):
    return node.chat().http.get(f"/sessions/{session_id}/summary").status_code == 200


def test_a_lost_summary_is_found(make_cluster, inspect_of, eventually):
    """A worker dies while it writes a summary: the session still says that one is due, and another
    worker writes it within 40 seconds.
    """
    cluster = make_cluster(
        nodes=2, MOCHI_BACKGROUND_WORKER="true", MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0"
    )
    cluster.start()
    node, other = cluster.nodes
    eventually(lambda: has_worker(node) and has_worker(other))
    inspector = inspect_of(cluster)
    session_id = node.chat().new_session()
    saves = [each.store.hold(rb'"summary": ?{') for each in cluster.nodes]
    node.chat().say(session_id, "Good morning!")
    eventually(lambda: any(save.reached.is_set() for save in saves))
    [victim] = [
        each for each, save in zip(cluster.nodes, saves, strict=True) if save.reached.is_set()
    ]
    worker_of(victim).kill()
    victim.store.drop()
    cluster.heal()
    eventually(lambda: summary_of(other, session_id), 100)
    assert summary_of(node, session_id)
    eventually(lambda: "summary_due" not in inspector.session(session_id)["metadata"])
