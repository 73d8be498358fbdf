"""Redis fails over to a replica, which may not have everything that was acknowledged."""

import random
from contextlib import contextmanager

from tests.cluster.invariants import check_same_everywhere, check_session
from tests.cluster.nodes import Listener
from tests.cluster.relay import Relay
from tests.cluster.servers import RedisServer

WORDS = [f"word{n} " for n in range(100)]


class Pair:
    """A primary and its replica; the way between them can be cut."""

    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.directory = directory
        self.between = Relay(cluster.redis.address)
        self.replica = RedisServer(directory, "--replicaof", "127.0.0.1", str(self.between.port))

    def entries(self, server, session_id):
        with server.client() as client:
            [key] = client.scan_iter(f"mochi:j:{session_id}:*", count=10_000)
            return client.xlen(key)

    def is_linked(self):
        with self.replica.client() as client:
            return client.info("replication")["master_link_status"] == "up"

    def fail_over(self):
        """Let the primary die, and everybody be sent to the replica."""
        self.cluster.redis.kill()
        with self.replica.client() as client:
            client.replicaof("NO", "ONE")
        for node in self.cluster.nodes:
            node.redis.target = self.replica.address
            node.redis.drop()

    def close(self):
        self.replica.kill()
        self.between.close()


@contextmanager
def cluster_with_replica(make_cluster, directory, eventually):
    cluster = make_cluster(nodes=2, MOCHI_JOURNAL_TIMEOUT_SECONDS="60")
    pair = Pair(cluster, directory)
    try:
        eventually(pair.is_linked)
        cluster.start()
        yield pair
    finally:
        pair.close()


def test_failover_to_a_replica_that_lags_leaves_no_gap_unseen(
    make_cluster, tmp_path, eventually, script, inspect_of
):
    """Redis fails over to a replica that lags behind: what is missing there is sent again by the
    turns that run. No stream has a gap that is not told of.
    """
    with cluster_with_replica(make_cluster, tmp_path / "replica", eventually) as pair:
        owner, other = pair.cluster.nodes
        session_id = other.chat().new_session()
        question = script(WORDS, words_per_second=50)
        turn = Listener(owner.chat(), session_id, {"message": question})
        turn.wait_for("content_delta", 5)
        pair.between.cut()
        had = pair.entries(pair.cluster.redis, session_id)
        eventually(lambda: pair.entries(pair.cluster.redis, session_id) > had + 5)
        lag = pair.entries(pair.cluster.redis, session_id) - pair.entries(pair.replica, session_id)
        assert lag > 0
        pair.fail_over()
        events = turn.wait()
        assert events[-2].name == "message_complete", turn.names
        assert turn.text == "".join(WORDS).rstrip()
        check_session(pair.cluster, session_id, turn, question=question)
        check_same_everywhere(pair.cluster.nodes, session_id, random.Random(7))
        pair.cluster.redis.address = pair.replica.address
        inspector = inspect_of(pair.cluster)
        eventually(lambda: inspector.untidy() == [])
