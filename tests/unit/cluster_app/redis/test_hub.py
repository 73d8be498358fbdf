"""Following streams: what comes, what was there, a Redis that was away, and an idle hub."""

import os
import queue
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import redis

from cluster_app.redis import hub as module
from cluster_app.redis.connection import RedisConnection
from cluster_app.redis.hub import Hub


class Heard:
    """What a follower was called with; waits for it."""

    def __init__(self):
        self.calls = []
        self.changed = threading.Condition()

    def __call__(self, entries):
        with self.changed:
            self.calls.append([fields[1].decode() for _, fields in entries])
            self.changed.notify_all()

    @property
    def words(self):
        return [word for call in self.calls for word in call]

    def wait_for(self, is_so):
        with self.changed:
            assert self.changed.wait_for(lambda: is_so(self), 30), self.calls

    def wait_for_words(self, *words):
        self.wait_for(lambda heard: heard.words == list(words))


@pytest.fixture
def hub(redis_connection):
    return Hub(redis_connection)


@pytest.fixture
def say(redis_connection):
    def add(word, stream="s"):
        redis_connection.client.xadd(redis_connection.key(stream), {"w": word})

    return add


def follow(hub, connection, last_id, stream="s"):
    heard = Heard()
    return heard, hub.follow(connection.key(stream), last_id, heard)


def test_who_follows_from_the_end_is_told_when_that_has_begun(hub, redis_connection, say):
    say("old")
    heard, stop = follow(hub, redis_connection, "$")
    heard.wait_for(lambda heard: heard.calls == [[]])
    for word in ("a", "b", "c"):
        say(word)
    heard.wait_for_words("a", "b", "c")
    stop()


def test_a_stream_may_begin_later_and_several_are_followed(hub, redis_connection, say):
    heard, stop = follow(hub, redis_connection, "$")
    other, stop_other = follow(hub, redis_connection, "$", stream="t")
    heard.wait_for(lambda heard: heard.calls)
    other.wait_for(lambda heard: heard.calls)
    say("a")
    say("x", stream="t")
    heard.wait_for_words("a")
    other.wait_for_words("x")
    stop()
    stop_other()


def test_who_comes_later_may_begin_further_back_and_nobody_hears_twice(hub, redis_connection, say):
    first, stop_first = follow(hub, redis_connection, "0")
    for word in ("a", "b", "c"):
        say(word)
    first.wait_for_words("a", "b", "c")
    late, stop_late = follow(hub, redis_connection, "0")
    late.wait_for_words("a", "b", "c")
    say("d")
    late.wait_for_words("a", "b", "c", "d")
    first.wait_for_words("a", "b", "c", "d")
    stop_first()
    stop_late()


def test_a_hub_ends_with_its_last_follower_and_begins_again(hub, redis_connection, say):
    for word in ("a", "b"):
        heard, stop = follow(hub, redis_connection, "$")
        heard.wait_for(lambda heard: heard.calls)
        say(word)
        heard.wait_for_words(word)
        stop()
        stop()
        end = time.monotonic() + 30
        while hub.is_running and time.monotonic() < end:
            time.sleep(0.01)
        assert not hub.is_running


def test_a_follower_that_fails_costs_no_other_its_stream(hub, redis_connection, say, caplog):
    def fail(entries):
        raise ValueError(entries)

    stop_failing = hub.follow(redis_connection.key("s"), "$", fail)
    heard, stop = follow(hub, redis_connection, "$")
    heard.wait_for(lambda heard: heard.calls)
    say("a")
    heard.wait_for_words("a")
    stop_failing()
    stop()
    assert "a follower of files or streams failed" in caplog.text


def test_followers_look_again_when_redis_was_away(killed_server, monkeypatch):
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    connection = RedisConnection(killed_server.url)
    heard, stop = follow(Hub(connection), connection, "$")
    heard.wait_for(lambda heard: heard.calls == [[]])
    killed_server.kill()
    killed_server.start()
    heard.wait_for(lambda heard: len(heard.calls) > 1)
    with redis.Redis.from_url(killed_server.url) as client:
        client.xadd(connection.key("s"), {"w": "a"})
    heard.wait_for_words("a")
    stop()
    connection.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_follows_with_a_thread_of_its_own(hub, redis_connection, say):
    heard, stop = follow(hub, redis_connection, "$")
    heard.wait_for(lambda heard: heard.calls)
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            theirs, stop_theirs = follow(hub, redis_connection, "0")
            say("from the child")
            theirs.wait_for_words("from the child")
            stop_theirs()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    heard.wait_for_words("from the child")
    stop()


def test_threads_may_use_a_hub_first_at_the_same_time(redis_connection, say, monkeypatch):
    def make_slowly():
        time.sleep(0.1)
        return threading.Lock()

    slow = SimpleNamespace(**{**vars(threading), "Lock": make_slowly})
    monkeypatch.setattr(module, "threading", slow)
    hub = Hub(redis_connection)
    start, followed = threading.Barrier(3), queue.Queue()

    def begin():
        start.wait()
        followed.put(follow(hub, redis_connection, "0"))

    threads = [threading.Thread(target=begin) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert followed.qsize() == 3
    say("a")
    for _ in threads:
        heard, stop = followed.get()
        heard.wait_for_words("a")
        stop()
