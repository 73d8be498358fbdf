"""Leases of web processes, so long that none runs out: who is dead was told by somebody."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest
import redis

from tests.redis_server import running_redis

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def shared_redis():
    with running_redis("--appendonly", "no") as url:
        yield url


def test_a_web_process_that_died_is_given_up_at_once_and_one_that_stops_gives_itself_up(
    start, script, shared_redis
):
    server = start(
        *("--workers", "2"),
        MOCHI_JOURNAL_URL=shared_redis,
        MOCHI_SECRET_KEY=KEY,
        MOCHI_LEASE_SECONDS="600",
    )
    doomed, survivor = server.web_processes
    owner, witness = server.chat_with(doomed), server.chat_with(survivor)
    session_id = owner.new_session()
    message = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
    with ThreadPoolExecutor(1) as pool, owner.stream(session_id, message=message) as events:
        while next(events).data.get("content") != " an":
            pass
        following = pool.submit(witness.reattach, session_id)
        doomed.kill()
        psutil.wait_procs([doomed], timeout=60)
        with pytest.raises(httpx.TransportError):
            list(events)
        ended = following.result(timeout=100)

    assert [event.name for event in ended][-2:] == ["error", "done"]
    assert ended[-2].data["code"] == "TURN_INTERRUPTED"
    last = witness.messages(session_id)[-1]
    assert (last["content"], last["interrupted"]) == ("Half an", True)

    assert witness.say(session_id, script("On."))[-1].name == "done"
    with redis.Redis.from_url(shared_redis) as client:
        assert client.keys("mochi:w:*")
        server.stop()
        assert client.keys("mochi:w:*") == []
