"""``Idempotency-Key`` against real servers: the same key is the same turn."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest


def stream_bytes(chat, path, key, body):
    with chat.http.stream(
        "POST", path, json=body, headers={"Idempotency-Key": key}, timeout=30
    ) as answer:
        return answer.status_code, answer.read()


@pytest.mark.parametrize("workers", ["1", "3"])
def test_twenty_equal_posts_make_one_turn_and_twenty_equal_streams(start, script, workers):
    server = start("--workers", workers)
    session_id = server.chat().new_session()
    body = {"message": script(["a ", "b ", "c ", "d"], words_per_second=20)}
    path = f"/chat/{session_id}/stream"
    clients = [server.chat() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda chat: stream_bytes(chat, path, "k1", body), clients))
    assert {status for status, _ in answers} == {200}
    assert len({received for _, received in answers}) == 1
    assert answers[0][1].endswith(b'"}\n\n')
    assert answers[0][1].count(b"event: done") == 1
    assert [message["role"] for message in clients[0].messages(session_id)] == ["user", "assistant"]


def test_a_key_makes_a_session_once(start, script):
    server = start("--workers", "2")
    body = {"model": "qwen3:14b", "message": script(["x", "y"], words_per_second=20)}
    clients = [server.chat() for _ in range(8)]

    def post(chat):
        answer = chat.http.post("/chat", json=body, headers={"Idempotency-Key": "new"})
        return answer.status_code, answer.text

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(post, clients))
    assert len(answers) == 1
    assert answers.pop()[0] == 200
    assert clients[0].http.get("/sessions").json()["total"] == 1


def test_a_finished_turn_is_sent_again_and_answers_whole_too(chat, script):
    session_id = chat.new_session()
    body = {"message": script("once")}
    path = f"/chat/{session_id}"
    first = stream_bytes(chat, f"{path}/stream", "k2", body)
    assert stream_bytes(chat, f"{path}/stream", "k2", body) == first
    whole = chat.http.post(path, json=body, headers={"Idempotency-Key": "k2"})
    assert whole.status_code == 200
    assert whole.json()["message"]["content"] == "once"
    assert whole.json()["context_window"]["current_window"] == 8192
    assert len(chat.messages(session_id)) == 2


def test_another_request_under_the_same_key_is_refused(chat, script):
    session_id = chat.new_session()
    path = f"/chat/{session_id}/stream"
    stream_bytes(chat, path, "k3", {"message": script("one")})
    status, body = stream_bytes(chat, path, "k3", {"message": script("two")})
    assert status == 422
    assert b"Idempotency-Key" in body
    other = chat.new_session()
    status, _ = stream_bytes(chat, f"/chat/{other}/stream", "k3", {"message": script("one")})
    assert status == 422
    assert chat.messages(other) == []


def test_a_refused_request_frees_its_key(chat, script):
    session_id = chat.new_session()
    path = f"/chat/{session_id}/stream"
    body = {"message": script("x", status=400)}
    for _ in range(2):
        assert stream_bytes(chat, path, "k4", body)[0] == 502
    assert stream_bytes(chat, "/chat/0123456789/stream", "k5", body)[0] == 404
    assert stream_bytes(chat, path, "k5", {"message": script("free")})[0] == 200


def test_equal_posts_of_a_refused_turn_are_all_told_why_by_every_worker(start, script):
    server = start("--workers", "2")
    session_id = server.chat().new_session()
    body = {"message": script("x", status=400, stall_seconds=0.3)}
    clients = [server.chat() for _ in range(6)]
    for path in (f"/chat/{session_id}/stream", f"/chat/{session_id}"):
        with ThreadPoolExecutor(6) as pool:
            post = partial(stream_bytes, path=path, key=path, body=body)
            answers = list(pool.map(post, clients))
        assert {status for status, _ in answers} == {502}, answers
        assert all(b"OLLAMA_ERROR" in received for _, received in answers)


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_key_that_makes_no_sense_is_refused(chat, key):
    session_id = chat.new_session()
    status, body = stream_bytes(chat, f"/chat/{session_id}/stream", key, {"message": "x"})
    assert status == 422, body
    assert chat.messages(session_id) == []


@pytest.mark.parametrize("ending", ["complete", "cancelled"])
def test_a_repeated_key_tells_what_was_answered_also_when_the_session_has_it_no_more(
    chat, script, ending
):
    session_id = chat.new_session()
    slow = {} if ending == "complete" else {"words_per_second": 10}
    body = {"message": script(*["first "] * 20, **slow), "detached": True}
    path = f"/chat/{session_id}"
    if ending == "cancelled":
        with chat.http.stream(
            "POST", f"{path}/stream", json=body, headers={"Idempotency-Key": ending}, timeout=30
        ) as answer:
            next(answer.iter_raw())
            chat.cancel(session_id)
    else:
        stream_bytes(chat, f"{path}/stream", ending, body)
    told = chat.http.post(path, json=body, headers={"Idempotency-Key": ending})
    assert told.status_code == 200, told.text
    edit = {"content": "something else"}
    chat.http.put(f"/sessions/{session_id}/messages/0", json=edit).raise_for_status()
    assert len(chat.messages(session_id)) == 1
    again = chat.http.post(path, json=body, headers={"Idempotency-Key": ending})
    assert again.status_code == 200, again.text
    assert again.json()["message"]["content"] == told.json()["message"]["content"]
    assert again.json()["message"]["message_id"] == told.json()["message"]["message_id"]
    assert len(chat.messages(session_id)) == 1


@pytest.mark.parametrize("route", ["native", "v1"])
def test_a_deleted_message_is_in_no_stream_and_not_said_again(chat, script, route):
    session_id = chat.new_session()
    path, body = f"/chat/{session_id}/stream", {"message": script("geheim")}
    stream_bytes(chat, path, route, body)
    assert b"geheim" in chat.http.get(path).content
    answer_id = chat.messages(session_id)[1]["message_id"]
    item = f"conv_{session_id}/items/msg_{session_id}{answer_id}"
    where = f"/sessions/{session_id}/messages/1"
    if route == "v1":
        where = str(chat.http.base_url.copy_with(path=f"/v1/conversations/{item}"))
    chat.http.delete(where).raise_for_status()
    assert chat.http.get(path).status_code == 204
    for _ in range(2):
        status, answer = stream_bytes(chat, path, route, body)
        assert (status, b"MESSAGE_DELETED" in answer) == (409, True), answer
    assert len(chat.messages(session_id)) == 1


def test_a_repeated_key_of_a_deleted_session_is_answered_at_once(chat, script):
    session_id = chat.new_session()
    body = {"message": script("gone")}
    path = f"/chat/{session_id}"
    stream_bytes(chat, f"{path}/stream", "deleted", body)
    chat.http.delete(f"/sessions/{session_id}").raise_for_status()
    again = chat.http.post(path, json=body, headers={"Idempotency-Key": "deleted"})
    assert again.status_code == 404
    assert again.json()["error"]["code"] == "SESSION_NOT_FOUND"
