"""What was set aside goes with its session, whoever set it aside and however full Redis is."""

from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.quarantine import Quarantine
from tests.redis_server import running_redis

SESSION, OTHER_SESSION = "a1b2c3d4e5", "0123456789"
TURN = "0199f3a2b4c50000abcd"


def test_what_an_earlier_release_set_aside_goes_with_its_session_too(
    redis_connection: RedisConnection,
) -> None:
    client, key = redis_connection.client, redis_connection.key
    client.rpush(key("broken", SESSION, TURN), b"no entry\n")
    client.xadd(key("broken", SESSION, TURN, "copy"), {"l": b"a line\n"})
    client.rpush(key("broken", OTHER_SESSION, TURN), b"of another session\n")
    Quarantine(redis_connection).discard(SESSION)
    another = Quarantine(redis_connection)
    assert list(another.all()) == [key("broken", OTHER_SESSION, TURN)]
    another.discard(OTHER_SESSION)
    assert list(another.all()) == []
    assert list(client.scan_iter(key("aside", "*"))) == []


def test_all_keys_are_looked_through_once(redis_connection: RedisConnection) -> None:
    quarantine = Quarantine(redis_connection)
    quarantine.discard(SESSION)
    redis_connection.client.config_resetstat()
    for session_id in (SESSION, OTHER_SESSION):
        quarantine.discard(session_id)
        Quarantine(redis_connection).discard(session_id)
    assert "cmdstat_scan" not in redis_connection.client.info("commandstats")


def test_what_was_set_aside_can_be_deleted_from_a_redis_that_is_full() -> None:
    with running_redis() as url:
        connection = RedisConnection(url)
        connection.client.rpush(connection.key("broken", SESSION, TURN), b"no entry\n")
        connection.client.config_set("maxmemory", 1)
        quarantine = Quarantine(connection)
        quarantine.discard(SESSION)
        assert list(quarantine.all()) == []
        connection.close()
