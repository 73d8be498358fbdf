"""Limits hold, say so, and let go: a busy session is busy exactly as long as its turn."""

import itertools

import pytest

FEW_AND_MANY = [10, pytest.param(50, marks=pytest.mark.soak)]


def speak_and_wait(answer):
    answer.say("Half", " an")
    answer.wait_until_closed()


def until_text(events):
    while next(events).name != "content_delta":
        pass


def test_a_turn_over_its_time_ends_with_its_limit_and_keeps_its_text(start, upstream, eventually):
    upstream.behave = speak_and_wait
    server = start(MOCHI_TURN_TIMEOUT_SECONDS="0.5", MOCHI_OLLAMA_HOST=upstream.url)
    chat = server.chat()
    session_id = chat.new_session()
    events = chat.say(session_id, "x")
    assert [event.name for event in events][-2:] == ["error", "done"]
    assert events[-2].data["code"] == "TURN_LIMIT_REACHED"
    assert events[-2].data["details"]["retryable"] is False
    partial = chat.messages(session_id)[-1]
    assert (partial["content"], partial["interrupted"]) == ("Half an", True)
    eventually(lambda: upstream.answers[-1].closed_at)
    whole = chat.http.post(f"/chat/{session_id}", json={})
    assert (whole.status_code, whole.json()["error"]["code"]) == (502, "TURN_LIMIT_REACHED")


def test_turns_beyond_the_limit_are_told_to_come_back(start, upstream):
    upstream.behave = speak_and_wait
    server = start(MOCHI_MAX_ACTIVE_TURNS="2", MOCHI_OLLAMA_HOST=upstream.url)
    chats = [server.chat() for _ in range(3)]
    sessions = [chat.new_session() for chat in chats]
    with (
        chats[0].stream(sessions[0], message="x") as first,
        chats[1].stream(sessions[1], message="x") as second,
    ):
        until_text(first)
        until_text(second)
        for path in (f"/chat/{sessions[2]}", f"/chat/{sessions[2]}/stream"):
            refused = chats[2].http.post(path, json={"message": "x"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "TOO_MANY_TURNS")
            assert refused.json()["error"]["details"]["retryable"] is True
            assert int(refused.headers["retry-after"]) > 0
        assert chats[2].messages(sessions[2]) == []
        refused = chats[2].http.post("/chat", json={"model": "qwen3:14b", "message": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "TOO_MANY_TURNS")
        assert chats[2].http.get("/sessions").json()["total"] == 3  # none was made for it
        assert chats[2].cancel(sessions[0]).status_code == 200
        with chats[2].stream(sessions[2], message="x") as third:
            until_text(third)


@pytest.mark.parametrize("rounds", FEW_AND_MANY)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_session_is_free_as_soon_as_done_was_seen(start, script, workers, rounds):
    server = start("--workers", str(workers))
    clients = [server.chat_with(worker) for worker in server.web_processes] * 2
    if workers == 1:
        clients = [server.chat(), server.chat()]
    session_id = clients[0].new_session()
    turns = itertools.cycle(clients)
    for number in range(4 * rounds // workers):
        chat = next(turns)
        with chat.stream(session_id, message=script("hi")) as events:
            while next(events).name != "done":
                pass
            # The connection of the turn before is still open; nothing is waited for.
            following = next(turns).http.post(f"/chat/{session_id}", json={"message": script("yo")})
            assert following.status_code == 200, (number, following.text)
        if number % 20 == 19:  # a long history makes a slow save, and that is not meant here
            session_id = chat.new_session()


@pytest.mark.parametrize("rounds", FEW_AND_MANY)
def test_a_session_is_free_as_soon_as_a_follower_elsewhere_saw_done(start, script, rounds):
    server = start("--workers", "2")
    owner, other = (server.chat_with(worker) for worker in server.web_processes)
    message = script(["a ", "b ", "c"], words_per_second=400)
    for _ in range(rounds // 2):
        session_id = owner.new_session()
        with owner.stream(session_id, message=message) as events:
            next(events)
            with other.http.stream("GET", f"/chat/{session_id}/stream") as answer:
                for line in answer.iter_lines():
                    if line == "event: done":
                        break
                again = other.http.post(f"/chat/{session_id}", json={"message": "x"})
                assert again.status_code == 200, again.text


@pytest.mark.parametrize("rounds", FEW_AND_MANY)
def test_a_session_is_free_as_soon_as_its_turn_was_cancelled_refused_or_broken(
    start, script, rounds
):
    server = start("--workers", "2")
    owner, other = (server.chat_with(worker) for worker in server.web_processes)
    session_id = owner.new_session()
    endless = script(["a", "b"], stall_after=1, stall_seconds=60)
    for _ in range(rounds // 5):
        with owner.stream(session_id, message=endless) as events:
            until_text(events)
            assert other.cancel(session_id).status_code == 200
            answer = other.http.post(f"/chat/{session_id}", json={"message": script("free")})
            assert answer.status_code == 200, answer.text
        for fault in ({"status": 400}, {"drop_after": 1}):
            broken = owner.http.post(
                f"/chat/{session_id}", json={"message": script(["a ", "b "], **fault)}
            )
            assert broken.status_code == 502
            answer = other.http.post(f"/chat/{session_id}", json={"message": script("free")})
            assert answer.status_code == 200, answer.text
