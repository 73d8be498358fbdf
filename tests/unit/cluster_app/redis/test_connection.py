import os
import socket
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import redis

from cluster_app.redis.connection import RedisConnection
from sessions_app.errors import StorageError, StorageFull, StorageUnavailable
from tests.redis_server import running_redis


def test_parts_of_a_storage_have_keys_of_their_own(redis_connection: RedisConnection) -> None:
    agents = redis_connection.under("a:")
    agents.client.set(agents.key("x", "y"), "1")

    assert agents.key("x", "y") == f"{redis_connection.root}a:x:y"
    assert agents.root_key("x") == redis_connection.key("x")
    assert agents.client is redis_connection.client
    assert redis_connection.client.get(redis_connection.key("x", "y")) is None


def test_owners_have_keys_of_their_own_and_run_scripts(redis_connection: RedisConnection) -> None:
    anna, agents = redis_connection.under("", "anna"), redis_connection.under("a:", "anna")

    assert anna.key("x") == f"{redis_connection.root}o:anna:x"
    assert agents.key("x") == f"{redis_connection.root}o:anna:a:x"
    assert redis_connection.under("a:", "default").key("x") == f"{redis_connection.root}a:x"
    assert anna.root_key("x") == redis_connection.key("x")
    assert anna.run("return 1") == agents.run("return 1") == 1


def test_a_script_that_the_server_forgot_is_loaded_again(redis_connection: RedisConnection) -> None:
    double = "return ARGV[1] * 2"
    assert redis_connection.run(double, args=[2]) == 4
    redis_connection.client.script_flush()

    assert redis_connection.run(double, args=[3]) == 6


def test_a_server_that_is_away_is_unavailable_and_its_password_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        connection = RedisConnection(f"redis://me:secret@127.0.0.1:{port}/1")
        with pytest.raises(StorageUnavailable) as caught, connection.translated():
            connection.client.get("x")

    assert caught.value.retryable
    assert "secret" not in connection.shown + caplog.text + str(caught.value)


def test_a_server_that_is_full_is_a_full_disk() -> None:
    with running_redis("--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as url:
        connection = RedisConnection(url)
        with suppress(redis.OutOfMemoryError):
            connection.client.set("x", b"x" * 2_000_000)
        with pytest.raises(StorageFull), connection.translated():
            connection.client.set("y", "y")
        connection.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'. script: 1", StorageFull),
        ("Error running script: @user_script: 3: -OOM command not allowed", StorageFull),
        ("Error running script: @user_script: 3: -READONLY You can't write", StorageUnavailable),
        ("MISCONF Redis is configured to save RDB snapshots", StorageUnavailable),
        ("NOREPLICAS Not enough good replicas to write.", StorageUnavailable),
        ("BUSY Redis is busy running a script.", StorageUnavailable),
    ],
)
def test_a_server_that_can_not_do_it_just_now_says_so_from_scripts_too(
    redis_connection: RedisConnection, answer: str, error: type[StorageError]
) -> None:
    with pytest.raises(error), redis_connection.translated():
        raise redis.ResponseError(answer)


def test_what_is_wrong_with_a_command_is_no_matter_of_the_server(
    redis_connection: RedisConnection,
) -> None:
    with pytest.raises(redis.ResponseError), redis_connection.translated():
        redis_connection.client.execute_command("NONSENSE")


def test_a_child_has_connections_of_its_own(redis_connection: RedisConnection) -> None:
    client = redis_connection.client
    key = redis_connection.key("child")
    client.set(key, "0")
    child = os.fork()
    if child == 0:
        for _ in range(100):
            client.incr(key)
        os._exit(0)
    for _ in range(100):
        client.incr(key)
    os.waitpid(child, 0)

    assert client.get(key) == b"200"


def test_the_time_is_that_of_redis(
    redis_connection: RedisConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
    told = (int(noon.timestamp()), noon.microsecond)
    monkeypatch.setattr(redis_connection.client, "time", lambda: told)

    assert redis_connection.now() == noon


def test_a_real_redis_tells_a_time_with_its_zone_and_does_not_go_back(
    redis_connection: RedisConnection,
) -> None:
    other = redis_connection.under("a:")
    times = [(other if number % 2 else redis_connection).now() for number in range(10)]

    assert {moment.tzinfo for moment in times} == {UTC}
    assert times == sorted(times)
