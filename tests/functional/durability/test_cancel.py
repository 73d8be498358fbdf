"""Stop means stop: from any connection, through any worker, down to the model's socket."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.functional.conftest import read_events

CANCELS = 36


@pytest.fixture(scope="module")
def front(start_once, upstream):
    """Return a server of three workers in front of a model server of our own."""
    return start_once("--workers", "3", MOCHI_OLLAMA_HOST=upstream.url)


def speak_and_wait(answer):
    answer.say("The capital", " of")
    answer.wait_until_closed()


def stream_until_text(events):
    while next(events).name != "content_delta":
        pass


def test_cancel_closes_the_models_socket_from_any_worker(front, upstream, eventually):
    upstream.behave = speak_and_wait
    workers = front.web_processes
    for number in range(CANCELS):
        owner = front.chat_with(workers[number % 3])
        canceller = front.chat_with(workers[(number // 3) % 3])
        session_id = owner.new_session()
        with owner.stream(session_id, message="x") as events:
            stream_until_text(events)
            reply = canceller.cancel(session_id)
            assert reply.status_code == 200, reply.text
            assert reply.json()["partial_content"] in {"The capital", "The capital of"}
            assert reply.json()["stopped"] == {"upstream": True, "tools": [], "agents": []}
            eventually(lambda: upstream.answers[-1].closed_at)
            assert [event.name for event in events][-2:] == ["cancelled", "done"]
        assert owner.messages(session_id)[-1]["cancelled"] is True


def test_a_burst_of_cancels_reaches_every_turn(front, upstream, eventually):
    upstream.behave = speak_and_wait
    upstream.answers.clear()
    clients = [front.chat() for _ in range(12)]
    sessions = [chat.new_session() for chat in clients]
    cancellers = [front.chat() for _ in sessions]
    with ThreadPoolExecutor(24) as pool:
        turns = [
            pool.submit(chat.say, session_id, "x")
            for chat, session_id in zip(clients, sessions, strict=True)
        ]
        eventually(lambda: len(upstream.answers) == 12)
        replies = list(
            pool.map(lambda chat, session_id: chat.cancel(session_id), cancellers, sessions)
        )
        assert {reply.status_code for reply in replies} == {200}
        assert all(turn.result(timeout=30)[-2].name == "cancelled" for turn in turns)
    eventually(lambda: all(answer.closed_at for answer in upstream.answers))


def test_cancelling_twice_or_ten_times_at_once_is_cancelling_once(front, upstream):
    upstream.behave = speak_and_wait
    workers = front.web_processes
    owner = front.chat_with(workers[0])
    session_id = owner.new_session()
    cancellers = [front.chat_with(workers[number % 3]) for number in range(9)]
    with owner.stream(session_id, message="x") as events, ThreadPoolExecutor(9) as pool:
        stream_until_text(events)
        replies = list(pool.map(lambda chat: chat.cancel(session_id), cancellers))
        assert [event.name for event in events][-2:] == ["cancelled", "done"]
    told = [reply.json() for reply in replies if reply.status_code == 200]
    late = [reply for reply in replies if reply.status_code != 200]
    assert told
    assert all(reply == told[0] for reply in told)
    # Whoever came when all was over is told that, and nothing else.
    assert all(reply.json()["error"]["code"] == "NO_ACTIVE_TURN" for reply in late)
    assert [message["role"] for message in owner.messages(session_id)] == ["user", "assistant"]


def test_a_turn_is_cancelled_while_it_starts(front, upstream, eventually):
    """The model was asked and has not said a word; the client has not got a byte."""
    upstream.behave = lambda answer: answer.wait_until_closed()
    workers = front.web_processes
    for canceller in (front.chat_with(workers[0]), front.chat_with(workers[1])):
        owner = front.chat_with(workers[0])
        session_id = owner.new_session()
        asked = len(upstream.answers)
        with ThreadPoolExecutor() as pool:
            turn = pool.submit(owner.say, session_id, "x")
            eventually(lambda asked=asked: len(upstream.answers) > asked)
            reply = canceller.cancel(session_id)
            assert reply.json()["partial_content"] == ""
            assert [event.name for event in turn.result(timeout=30)] == [
                *("turn_started", "cancelled", "done")
            ]
        eventually(lambda: upstream.answers[-1].closed_at)
        assert [message["content"] for message in owner.messages(session_id)] == [
            "x",
            "[cancelled]",
        ]


def test_a_cancel_at_any_moment_of_a_turn_is_answered_and_leaves_the_session_free(front, upstream):
    """Including before the session is claimed and after the last event."""

    def speak(answer):
        for text in "abcdef":
            answer.say(text)
            time.sleep(0.004)
        answer.finish()

    upstream.behave = speak
    workers = front.web_processes
    owner, *cancellers = [front.chat_with(workers[n]) for n in (0, 0, 1, 2)]
    statuses = []
    with ThreadPoolExecutor() as pool:
        for number in range(45):
            session_id = owner.new_session()
            turn = pool.submit(owner.http.post, f"/chat/{session_id}/stream", json={"message": "x"})
            time.sleep(number * 0.0012)
            reply = cancellers[number % 3].cancel(session_id)
            statuses.append(reply.status_code)
            assert reply.status_code in {200, 409}
            received = turn.result(timeout=30).text
            assert received.count("event: done") == 1
            assert ("event: cancelled" in received) == (reply.status_code == 200)
            assert owner.http.get(f"/sessions/{session_id}/status").json()["active_turn"] is None
            assert pool.submit(owner.say, session_id, "y").result()[-1].name == "done"
    print(f"{statuses.count(200)} cancelled, {statuses.count(409)} found nothing to cancel")


def test_nothing_to_cancel_is_told(front):
    for worker in front.web_processes:
        chat = front.chat_with(worker)
        reply = chat.cancel(chat.new_session())
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "NO_ACTIVE_TURN")
        assert chat.cancel("0123456789").status_code == 404


def test_a_turn_that_waits_for_its_whole_reply_can_be_cancelled_too(front, upstream, eventually):
    upstream.behave = speak_and_wait
    owner, canceller = front.chat(), front.chat()
    session_id = owner.new_session()
    asked = len(upstream.answers)
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(owner.http.post, f"/chat/{session_id}", json={"message": "x"})
        eventually(lambda: len(upstream.answers) > asked)
        with canceller.http.stream("GET", f"/chat/{session_id}/stream") as attached:
            stream_until_text(read_events(attached))
        assert canceller.cancel(session_id).status_code == 200
        reply = whole.result(timeout=30)
    assert reply.status_code == 200
    answer = reply.json()
    assert answer["cancelled"] is answer["message"]["cancelled"] is True
    assert answer["message"]["content"]
    assert "[cancelled]" not in answer["message"]["content"]
    saved = owner.messages(session_id)[-1]
    assert saved["content"] == f"{answer['message']['content']}\n\n[cancelled]"
    assert saved["cancelled"] is True


def test_a_client_that_leaves_closes_the_models_socket(front, upstream, eventually):
    upstream.behave = speak_and_wait
    for _ in range(5):
        chat = front.chat()
        session_id = chat.new_session()
        with chat.stream(session_id, message="x") as events:
            stream_until_text(events)
        chat.http.close()
        eventually(lambda: upstream.answers[-1].closed_at)
        chat = front.chat()
        assert eventually(lambda chat=chat, sid=session_id: chat.messages(sid)[1:])[0]["cancelled"]


def test_clients_that_leave_at_any_moment_leave_no_turn_behind(front, upstream, eventually):
    """Also between the first event and the first byte of the answer."""
    upstream.behave = speak_and_wait
    upstream.answers.clear()
    chat = front.chat()
    sessions = [chat.new_session() for _ in range(40)]
    for number, session_id in enumerate(sessions):
        leaver = front.chat()
        with pytest.raises(Exception, match="timed out"):
            leaver.http.post(
                f"/chat/{session_id}/stream", json={"message": "x"}, timeout=0.002 + number * 0.0005
            )
        leaver.http.close()
    status = lambda sid: front.clients[-1].http.get(f"/sessions/{sid}/status").json()  # noqa: E731
    front.chat()
    eventually(lambda: not any(status(sid)["active_turn"] for sid in sessions))
    eventually(lambda: all(answer.closed_at for answer in upstream.answers))
