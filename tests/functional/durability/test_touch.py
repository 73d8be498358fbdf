"""A dead owner is noticed by whoever touches its session next: no restart, no waiting."""

import time
from contextlib import ExitStack

import httpx
import psutil
import pytest

PARTIAL = "Half an"


def is_sealed(chat, session_id):
    last = chat.messages(session_id)[-1]
    return (last["content"], last["interrupted"]) == (PARTIAL, True)


def read_detail(chat, session_id):
    last = chat.http.get(f"/sessions/{session_id}").json()["messages"][-1]
    assert (last["content"], last["interrupted"]) == (PARTIAL, True)


def read_messages(chat, session_id):
    assert is_sealed(chat, session_id)


def read_status(chat, session_id):
    assert chat.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None


def edit(chat, session_id):
    answer = chat.http.put(f"/sessions/{session_id}/messages/0", json={"content": "another"})
    assert (answer.status_code, answer.json()["removed"]) == (200, 1)


def set_system_prompt(chat, session_id):
    answer = chat.http.put(f"/sessions/{session_id}/system-prompt", json={"content": "x"})
    assert answer.status_code == 200
    assert is_sealed(chat, session_id)


def say_something(chat, session_id):
    assert chat.http.post(f"/chat/{session_id}", json={"message": "y"}).status_code == 200
    assert [m.get("interrupted") for m in chat.messages(session_id)] == [None, True, None, None]


def pick_up(chat, session_id):
    events = chat.reattach(session_id)
    assert [event.name for event in events][-2:] == ["error", "done"]
    assert is_sealed(chat, session_id)


def fork(chat, session_id):
    forked = chat.http.post(f"/sessions/{session_id}/fork").json()["session_id"]
    assert is_sealed(chat, forked)


def delete(chat, session_id):
    assert chat.http.delete(f"/sessions/{session_id}").status_code == 204
    assert chat.http.get(f"/chat/{session_id}/stream").status_code == 404


def cancel(chat, session_id):
    assert chat.cancel(session_id).json()["error"]["code"] == "NO_ACTIVE_TURN"
    assert is_sealed(chat, session_id)


TOUCHES = [
    *(read_detail, read_messages, read_status, edit, set_system_prompt, say_something),
    *(pick_up, fork, delete, cancel),
]


def test_every_touch_of_a_session_whose_worker_died_finds_it_sealed(start, script):
    server = start("--workers", "2")
    doomed, survivor = server.web_processes
    message = script(["Half ", "an ", "answer"], stall_after=2, stall_seconds=600)
    witness = server.chat_with(survivor)
    with ExitStack() as streams:
        sessions, open_streams = [], []  # a stream that nobody refers to is closed by httpx
        for _ in TOUCHES:
            chat = server.chat_with(doomed)
            sessions.append(chat.new_session())
            events = streams.enter_context(chat.stream(sessions[-1], message=message))
            open_streams.append(events)
            while next(events).data.get("content") != " an":
                pass
        assert witness.http.delete(f"/sessions/{sessions[0]}").status_code == 409
        doomed.kill()
        psutil.wait_procs([doomed], timeout=60)
        begin = time.perf_counter()
        for touch, session_id in zip(TOUCHES, sessions, strict=True):
            touch(witness, session_id)
        print(f"{len(TOUCHES)} dead turns touched in {time.perf_counter() - begin:.3f} s")
        server.kill()


@pytest.fixture
def dying(start, patched):
    """Return a server whose processes die after the last save of an answer that begins with DIE."""
    return start("--workers", "2", **patched)


@pytest.mark.parametrize("restart", [False, True], ids=["another worker", "after a restart"])
def test_an_answer_saved_just_before_a_crash_is_told_whole(dying, start, script, frames, restart):
    doomed, survivor = dying.web_processes
    owner, witness = dying.chat_with(doomed), dying.chat_with(survivor)
    session_id = owner.new_session()
    seen = []
    with (
        pytest.raises(httpx.TransportError),
        owner.stream(session_id, message=script(["DIE ", "now"])) as events,
    ):
        seen.extend(events)
    psutil.wait_procs([doomed], timeout=60)
    if restart:
        dying.kill()
        witness = start().chat()
    assert "message_complete" not in [event.name for event in seen]
    rest = witness.reattach(session_id)
    assert [event.name for event in rest][-2:] == ["message_complete", "done"]
    complete = rest[-2].data
    assert (complete["content"], complete["done_reason"]) == ("DIE now", "stop")
    _, answer = witness.messages(session_id)
    assert answer["message_id"] == complete["message_id"]
    assert "interrupted" not in answer
    assert witness.reattach(session_id, rest[-1].id) is None
    assert witness.cancel(session_id).status_code == 409
    assert witness.say(session_id, script("on"))[-1].name == "done"
    assert len(witness.messages(session_id)) == 4


def test_a_journal_follower_in_another_worker_hears_of_the_death(dying, script):
    doomed, survivor = dying.web_processes
    owner, follower = dying.chat_with(doomed), dying.chat_with(survivor)
    session_id = owner.new_session()
    message = script(["DIE ", *["x "] * 10], words_per_second=25)
    with owner.stream(session_id, message=message) as events:
        next(events)
        with follower.http.stream("GET", f"/chat/{session_id}/stream") as answer:
            received = answer.read()
        with pytest.raises(httpx.TransportError):
            list(events)
    assert b"event: message_complete" in received
    assert received.count(b"event: done") == 1


def test_a_server_without_its_parent_stops(start, eventually):
    server = start("--workers", "2")
    workers = server.web_processes
    server.process.kill()
    server.process.wait()
    eventually(lambda: not any(worker.is_running() for worker in workers))


def speak_well(answer):
    answer.say("a whole", " answer")
    answer.finish()


def break_off(answer):
    answer.say("Half ", "an")
    answer.wait_until_closed()


def test_a_killed_turn_leaves_the_answer_that_it_was_making_again(start, upstream):
    upstream.behave = speak_well
    server = start(MOCHI_OLLAMA_HOST=upstream.url)
    chat = server.chat()
    session_id = chat.new_session()
    chat.say(session_id, "Hello!")
    whole = chat.messages(session_id)
    upstream.behave = break_off
    with chat.stream(session_id) as events:
        while next(events).data.get("content") != " an":
            pass
        server.kill()
    chat = start(MOCHI_OLLAMA_HOST=upstream.url).chat()
    _, answer = chat.messages(session_id)
    assert answer == {**whole[1], "variant_count": 1}
    shown = chat.http.get(f"/sessions/{session_id}/messages?variants=true").json()["messages"][1]
    [[partial]] = shown["variants"]
    assert (partial["content"], partial["interrupted"]) == ("Half an", True)
    upstream.behave = speak_well
    assert chat.say(session_id)[-1].name == "done"
    assert upstream.answers[-1].messages == upstream.answers[0].messages
    assert chat.messages(session_id)[1]["variant_count"] == 2
