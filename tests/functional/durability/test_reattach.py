"""A stream is picked up again: every event after the last one that was seen, once, in order."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.conftest import names_of

SEED = 20261121
WORDS = [f"word{number} é😀\n\n" for number in range(100)]


def listen(chat, session_id, message, **body):
    """Run a turn to its end and return its stream, byte for byte, without the retry field."""
    answer = chat.http.post(f"/chat/{session_id}/stream", json={"message": message, **body})
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(b"retry: 2000\n")
    return answer.content.removeprefix(b"retry: 2000\n")


def cuts_of(stream):
    """Return [(the id of an event, the bytes that come after that event)], the beginning first."""
    pieces = [piece + b"\n\n" for piece in stream.split(b"\n\n")[:-1]]
    ids = ["", *(piece.split(b"\n")[0].removeprefix(b"id: ").decode() for piece in pieces)]
    return [(event_id, b"".join(pieces[number:])) for number, event_id in enumerate(ids)]


@pytest.fixture
def long_turn(script):
    """Return a message that makes a turn of tool rounds, reasoning and many deltas."""
    calls = {"tool_call": [{"name": "nope", "args": {"é\n": "\u2028"}}, {"name": "no", "args": {}}]}
    answer = {"text_message": {"text": WORDS, "reasoning": ["hm ", "so "]}}

    def write(**keys):
        return script(calls, calls, answer, per_request=True, **keys)

    return write


def test_a_finished_turn_is_picked_up_at_a_hundred_random_points(server, long_turn, frames):
    chat = server.chat()
    session_id = chat.new_session()
    stream = listen(chat, session_id, long_turn())
    cuts = cuts_of(stream)
    assert stream.count(b"event: tool_result") == 4
    assert stream.count(b"event: content_delta") >= 80
    print(f"seed {SEED}")
    for event_id, rest in [cuts[0], *random.Random(SEED).choices(cuts[:-1], k=99)]:
        assert frames(chat, session_id, event_id) == rest
    assert frames(chat, session_id, cuts[-1][0]) is None


def test_a_running_turn_is_picked_up_anywhere_by_many_from_every_worker(start, long_turn, frames):
    server = start("--workers", "3")
    first = server.chat()
    session_id = first.new_session()
    print(f"seed {SEED}")
    chance = random.Random(SEED)

    def pick_up(reader):
        """Read some of the turn, leave, come back through any worker, and so on to its end."""
        received, event_id = b"", None
        rounds = 0
        while not received.endswith(
            b'event: done\ndata: {"session_id":"%b"}\n\n' % session_id.encode()
        ):
            rounds += 1
            chat = server.chat()
            headers = {"Last-Event-ID": event_id} if event_id else {}
            with chat.http.stream("GET", f"/chat/{session_id}/stream", headers=headers) as answer:
                if answer.status_code == 204:
                    break  # left exactly at the end
                news = read_some(answer, chance.randrange(1, 60) if rounds < 8 else 10**9)
            chat.http.close()
            received += news
            event_id = cuts_of(received)[-1][0]
        return received

    with (
        ThreadPoolExecutor(10) as pool,
        first.http.stream(
            "POST", f"/chat/{session_id}/stream", json={"message": long_turn(words_per_second=250)}
        ) as answer,
    ):
        chunks = answer.iter_bytes()
        stream = next(chunks)
        readers = [pool.submit(pick_up, number) for number in range(9)]
        stream = (stream + b"".join(chunks)).removeprefix(b"retry: 2000\n")
        for reader in readers:
            assert reader.result(timeout=30) == stream
    for worker in server.web_processes:
        assert frames(server.chat_with(worker), session_id) == stream


def read_some(answer, count):
    """Read at least so many events, and cut off what is not whole."""
    assert answer.status_code == 200
    received = b""
    for chunk in answer.iter_bytes():
        received += chunk
        if received.count(b"\n\n") > count:
            break
    whole = received[: received.rfind(b"\n\n") + 2]
    return whole.removeprefix(b"retry: 2000\n").replace(b": keep-alive\n\n", b"")


def test_whoever_attached_keeps_the_turn_alive_when_its_first_client_leaves(start, script):
    server = start("--workers", "2")
    workers = server.web_processes
    message = script(["a ", "b ", "c ", "d ", "e "], words_per_second=25)
    for other in (*workers, *workers):
        first, second = server.chat_with(workers[0]), server.chat_with(other)
        session_id = first.new_session()
        with first.stream(session_id, message=message) as events:
            next(events)
            attached = second.http.stream("GET", f"/chat/{session_id}/stream")
            answer = attached.__enter__()
            assert answer.status_code == 200
        received = answer.read()
        attached.__exit__(None, None, None)
        assert b"event: message_complete" in received
        assert received.count(b"event: content_delta") == 5
        assert first.messages(session_id)[-1]["content"] == "a b c d e"


def test_a_detached_turn_goes_on_without_anybody(start, script, eventually):
    server = start()
    chat = server.chat()
    session_id = chat.new_session()
    message = script(["a ", "b ", "c ", "d ", "e "], words_per_second=50)
    with chat.stream(session_id, message=message, detached=True) as events:
        assert next(events).name == "turn_started"
    chat.http.close()
    chat = server.chat()
    eventually(lambda: len(chat.messages(session_id)) == 2)
    answer = chat.messages(session_id)[1]
    assert (answer["content"], answer.get("cancelled")) == ("a b c d e", None)
    assert names_of(chat.reattach(session_id))[-2:] == ["message_complete", "done"]


def test_a_finished_turn_is_there_after_a_restart(start, script, frames):
    server = start("--workers", "2")
    session_id = server.chat().new_session()
    stream = listen(server.chat(), session_id, script(["one ", "two ", "three"]))
    server.stop()
    chat = start().chat()
    for event_id, rest in cuts_of(stream):
        assert frames(chat, session_id, event_id) == (rest or None)


def test_a_broken_turn_is_picked_up_after_a_crash_and_ends_with_done(start, script, frames):
    server = start()
    chat = server.chat()
    session_id = chat.new_session()
    message = script(["one ", "two ", "three"], stall_after=2, stall_seconds=60)
    with chat.stream(session_id, message=message) as events:
        seen = [next(events) for _ in range(3)]
        server.kill()
    again = start().chat()
    rest = again.reattach(session_id, seen[1].id)
    assert (rest[0].id, rest[0].data) == (seen[2].id, seen[2].data)
    assert names_of(rest) == ["content_delta", "error", "done"]
    assert rest[1].data["code"] == "TURN_INTERRUPTED"
    assert rest[1].data["details"]["retryable"] is True
    assert again.reattach(session_id, rest[-1].id) is None


def test_a_position_in_an_older_turn_is_not_one_in_the_newest(server, script, frames):
    chat = server.chat()
    session_id = chat.new_session()
    older = listen(chat, session_id, script(["a ", "b ", "c"]))
    newest = listen(chat, session_id, script(["d ", "e ", "f"]))
    for event_id, _ in cuts_of(older)[1:]:
        assert frames(chat, session_id, event_id) == newest


def test_positions_that_make_no_sense_are_told(server, script):
    chat = server.chat()
    session_id = chat.new_session()
    listen(chat, session_id, script("x"))
    good = chat.reattach(session_id)[-1].id
    turn_id = good.partition(":")[0]
    for bad in [
        "x",
        ":",
        "1",
        f"{turn_id}:",
        ":1",
        f"{turn_id}:-1",
        f"{turn_id}:1x",
        f"{turn_id}:٣",
        f"{turn_id}:{10**13}",
        "../../x:1",
        f"{turn_id}\n:1",
        "a" * 5000,
    ]:
        answer = chat.http.get(f"/chat/{session_id}/stream", params={"after": bad})
        assert (answer.status_code, bad) == (422, bad)
        assert answer.json()["error"]["details"]["field"] == "after"
    header = chat.http.get(f"/chat/{session_id}/stream", headers={"Last-Event-ID": "nonsense"})
    assert header.status_code == 422
    both = {"headers": {"Last-Event-ID": "nonsense"}, "params": {"after": good}}
    assert chat.http.get(f"/chat/{session_id}/stream", **both).status_code == 422
    assert chat.reattach(session_id, f"{turn_id}:999999") is None
    assert chat.reattach(session_id, good) is None
    # Browsers send an empty header when they have seen no id.
    empty = chat.http.get(f"/chat/{session_id}/stream", headers={"Last-Event-ID": ""})
    assert empty.content.count(b"event: done") == 1


def test_an_event_that_the_running_turn_has_not_come_to_is_told_by_every_worker(start, script):
    server = start("--workers", "2")
    workers = server.web_processes
    starter = server.chat_with(workers[0])
    session_id = starter.new_session()
    message = script(["a ", "b "], stall_after=2, stall_seconds=600)
    with starter.stream(session_id, message=message, detached=True) as events:
        turn_id = next(event.id for event in events if event.name == "content_delta").split(":")[0]
        for worker in workers:
            answer = server.chat_with(worker).http.get(
                f"/chat/{session_id}/stream", params={"after": f"{turn_id}:999"}
            )
            assert answer.status_code == 422
            error = answer.json()["error"]
            assert (error["code"], error["details"]["field"]) == ("VALIDATION_ERROR", "after")
            assert "no event 999" in error["message"]
    last = f"{turn_id}:999"
    assert starter.cancel(session_id).status_code == 200
    assert starter.reattach(session_id, last) is None


def test_without_any_turn_there_is_nothing_to_send(server, script):
    chat = server.chat()
    session_id = chat.new_session()
    assert chat.reattach(session_id) is None
    assert chat.http.get("/chat/0123456789/stream").status_code == 404
    refused = chat.http.post(
        f"/chat/{session_id}/stream", json={"message": script("x", status=400)}
    )
    assert refused.status_code == 502
    assert chat.reattach(session_id) is None


def test_a_refused_turn_leaves_the_one_before_it_the_last(start, script):
    server = start("--workers", "2")
    chat = server.chat()
    session_id = chat.new_session()
    last_id = chat.say(session_id, script("before"))[-1].id
    with ThreadPoolExecutor() as pool:
        # 503 is tried again twice, so there is time to attach while nothing has begun.
        refusal = pool.submit(
            chat.http.post, f"/chat/{session_id}/stream", json={"message": script("x", status=503)}
        )
        attached = []
        while not refusal.done():
            attached += [
                server.chat_with(worker).reattach(session_id) for worker in server.web_processes
            ]
    assert refusal.result().status_code == 503
    assert attached
    assert all(events[-1].id == last_id for events in attached)
