"""Messages sent while a turn runs: acknowledged, said once, answered once, whatever dies."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from tests.functional.conftest import names_of, read_events, text_of

SEED = int(os.environ.get("MOCHI_E2E_QUEUE_SEED", "0")) or random.SystemRandom().randrange(10**6)


def stuck(script):
    """Return a message whose answer does not end by itself."""
    return script(["One ", "two"], stall_after=1, stall_seconds=600)


def begin(chat, session_id, message):
    """Start a turn that goes on without its client, once it has said something."""
    with chat.stream(session_id, message=message, detached=True) as events:
        assert any(event.name == "content_delta" for event in events)


def queue(chat, session_id, message, *, when_busy="queue", key=None):
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"message": message, "when_busy": when_busy}
    answer = chat.http.post(f"/chat/{session_id}/stream", json=body, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.json()["queued"]


def inbox(chat, session_id):
    answer = chat.http.get(f"/chat/{session_id}/inbox")
    assert answer.status_code == 200, answer.text
    return answer.json()


def answers(chat, session_id):
    messages = chat.messages(session_id)
    return [each["content"] for each in messages if each["role"] == "assistant"]


def ids_of_users(chat, session_id):
    messages = chat.messages(session_id)
    return [each["message_id"] for each in messages if each["role"] == "user"]


def follow(chat, session_id, message_id):
    params = {"queued": message_id}
    with chat.http.stream("GET", f"/chat/{session_id}/stream", params=params) as answer:
        assert answer.status_code == 200, answer.read()
        return list(read_events(answer))


def status_of(chat, session_id):
    return chat.http.get(f"/sessions/{session_id}/status").json()


def is_quiet(chat, session_id):
    """Whether nothing runs on the session and nothing waits."""
    status = status_of(chat, session_id)
    return status["active_turn"] is None and status["inbox"]["count"] == 0


def test_what_is_queued_is_answered_in_its_order(start, script):
    chat = (server := start()).chat()
    session_id = chat.new_session()
    begin(chat, session_id, script(["One ", "two"], stall_after=1, stall_seconds=3))
    queued = [queue(chat, session_id, script(f"Answer {n}.")) for n in range(3)]
    assert [each["position"] for each in queued] == [1, 2, 3]
    assert status_of(chat, session_id)["inbox"] == {"count": 3, "paused": None}
    listed = chat.http.get("/sessions").json()["sessions"][0]
    assert (listed["queued"], listed["queue_paused"]) == (3, None)

    events = follow(server.chat(), session_id, queued[2]["message_id"])

    assert events[0].data["user_message_id"] == queued[2]["message_id"]
    assert text_of(events) == "Answer 2."
    assert names_of(events)[-2:] == ["message_complete", "done"]
    assert answers(chat, session_id) == ["One two", "Answer 0.", "Answer 1.", "Answer 2."]
    assert inbox(chat, session_id) == {"paused": None, "error": None, "messages": []}


def test_who_is_at_the_end_of_a_stream_waits_for_the_next_turn(start, script):
    chat = (server := start()).chat()
    session_id = chat.new_session()
    with chat.stream(session_id, message=stuck(script), detached=True) as events:
        next(event for event in events if event.name == "content_delta")
        queue(server.chat(), session_id, script("Next.", words_per_second=1))
        queue(server.chat(), session_id, script("Stopped."), when_busy="interrupt")
        last = list(events)[-1]
    assert last.data["queued"] == 2

    with chat.http.stream("GET", f"/chat/{session_id}/stream", params={"after": last.id}) as more:
        assert more.status_code == 200
        assert names_of(list(read_events(more)))[-1] == "done"


def test_an_inbox_is_read_changed_and_emptied(start, script):
    chat = start().chat()
    session_id = chat.new_session()
    begin(chat, session_id, stuck(script))
    first, second = [queue(chat, session_id, text)["message_id"] for text in ("First", "Second")]
    path = f"/chat/{session_id}/inbox"

    edited = chat.http.put(f"{path}/{second}", json={"content": "Other", "position": 1})
    assert edited.json()["queued"]["position"] == 1
    assert [each["content"] for each in inbox(chat, session_id)["messages"]] == ["Other", "First"]
    assert chat.http.put(f"{path}/{second}", json={"content": " "}).status_code == 422
    assert chat.http.delete(f"{path}/{first}").json()["messages"][0]["message_id"] == second
    gone = chat.http.delete(f"{path}/{first}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "QUEUED_MESSAGE_NOT_FOUND")
    assert chat.http.delete(path).json() == {"paused": None, "error": None, "messages": []}
    missing = chat.http.get(f"/chat/{session_id}/stream", params={"queued": second})
    assert missing.status_code == 404


def test_edits_at_the_moment_of_taking_have_one_of_two_histories(start, script, eventually):
    server = start("--workers", "2")
    chat = server.chat()
    for round_ in range(8):
        session_id = chat.new_session()
        pace = 0.05 + round_ / 100
        begin(chat, session_id, script(["One ", "two"], stall_after=1, stall_seconds=pace))
        asked = chat.http.post(
            f"/chat/{session_id}", json={"message": "First?", "when_busy": "queue"}
        )
        if asked.status_code != 202:
            continue  # the turn was faster
        message_id = asked.json()["queued"]["message_id"]
        edit = chat.http.put(f"/chat/{session_id}/inbox/{message_id}", json={"content": "Other?"})
        eventually(lambda session=session_id: is_quiet(chat, session))
        [_, said] = [each for each in chat.messages(session_id) if each["role"] == "user"]
        if edit.status_code == 200:
            assert said["content"] == "Other?"
        else:
            assert (edit.status_code, said["content"]) == (409, "First?")
            assert edit.json()["error"]["details"]["turn_id"] == said["turn_id"]


def test_two_processes_and_twenty_posts_at_once_have_one_order(start, script):
    server = start("--workers", "2")
    chats = [server.chat_with(worker) for worker in server.web_processes]
    session_id = chats[0].new_session()
    begin(chats[0], session_id, stuck(script))
    ready = threading.Barrier(21)

    def post(number):
        chat = chats[number % 2]
        ready.wait(60)
        body = {"message": f"Message {number}", "when_busy": "queue"}
        return chat.http.post(f"/chat/{session_id}", json=body)

    with ThreadPoolExecutor(21) as pool:
        answered = list(pool.map(post, range(21)))

    refused = [each for each in answered if each.status_code != 202]
    assert [each.json()["error"]["code"] for each in refused] == ["INBOX_FULL"]
    assert len(inbox(chats[0], session_id)["messages"]) == 20
    assert inbox(chats[0], session_id) == inbox(chats[1], session_id)


def test_a_stop_pauses_what_waits_and_an_interruption_does_not(start, script, eventually):
    chat = start().chat()
    session_id = chat.new_session()
    begin(chat, session_id, stuck(script))
    queue(chat, session_id, script("Later."))
    assert chat.cancel(session_id).status_code == 200
    assert inbox(chat, session_id)["paused"] == "cancelled"
    listed = chat.http.get("/sessions").json()["sessions"][0]
    assert listed["queue_paused"] == "cancelled"

    assert chat.http.post(f"/chat/{session_id}/inbox/resume").json()["paused"] is None

    eventually(lambda: answers(chat, session_id)[1:] == ["Later."])
    begin(chat, session_id, stuck(script))
    queue(chat, session_id, script("At last."))
    queue(chat, session_id, script("At once."), when_busy="interrupt")
    eventually(lambda: answers(chat, session_id)[3:] == ["At once.", "At last."])
    partial = [each for each in chat.messages(session_id) if each["role"] == "assistant"][2]
    assert partial["cancelled"] is True


def test_when_everything_is_killed_all_that_waits_is_answered_at_the_start(
    start, script, eventually
):
    server = start("--workers", "2")
    chat = server.chat()
    session_id = chat.new_session()
    begin(chat, session_id, stuck(script))
    queued = [queue(chat, session_id, script(f"Answer {n}.")) for n in range(3)]

    server.kill()
    server = start("--workers", "2")

    path = server.data_dir / "chat_sessions" / f"{session_id}.json"
    eventually(lambda: '"inbox"' not in path.read_text())  # nobody visits
    chat = server.chat()
    eventually(lambda: is_quiet(chat, session_id))
    assert ids_of_users(chat, session_id)[1:] == [each["message_id"] for each in queued]
    assert answers(chat, session_id)[1:] == ["Answer 0.", "Answer 1.", "Answer 2."]


def kill_worker(server, chance):
    victim = chance.choice(server.web_processes)
    victim.kill()
    psutil.wait_procs([victim], timeout=60)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_whenever_a_process_dies_each_message_is_said_and_answered_once(start, script, eventually):
    print(f"MOCHI_E2E_QUEUE_SEED={SEED}")
    chance = random.Random(SEED)
    server = start("--workers", "2")
    for number in range(int(os.environ.get("MOCHI_E2E_QUEUE_ROUNDS", "12"))):
        server = keep_sending(server, start, script, eventually, chance, whole=number % 3 == 2)


def test_a_process_that_dies_while_messages_come_loses_and_repeats_none(start, script, eventually):
    chance = random.Random(SEED)
    server = start("--workers", "2")
    keep_sending(server, start, script, eventually, chance, whole=False)


def keep_sending(server, start, script, eventually, chance, *, whole):
    """Send messages with keys until each is acknowledged, and kill processes meanwhile.

    Returns the server, which is another one if it was killed as a whole.
    """
    session_id = server.chat().new_session()
    begin(server.chat(), session_id, script(["One ", "two"], stall_after=1, stall_seconds=0.3))

    def send(number):
        """Send a message under its key, as often as it takes."""
        body = {
            "message": script(f"Answer {number}."),
            "when_busy": "queue",
            "detached": True,
        }
        while True:
            try:
                answer = server.chat().http.post(
                    f"/chat/{session_id}",
                    json=body,
                    headers={"Idempotency-Key": f"{session_id}-{number}"},
                )
            except httpx.TransportError:
                continue
            if answer.status_code in {200, 202}:
                return
            code = answer.json()["error"]["code"]
            if code == "TURN_INTERRUPTED":  # the key stands for a turn that was sealed
                return
            assert code in {"SESSION_BUSY", "STORAGE_UNAVAILABLE"}, answer.text

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, number) for number in range(6)]
        for _ in range(2):
            threading.Event().wait(chance.random() * 0.3)
            kill_worker(server, chance)
        for each in sending:
            each.result(timeout=120)
    if whole:
        server.kill()
        server = start("--workers", "2")
    chat = server.chat()
    eventually(lambda: is_quiet(chat, session_id) or resume(chat, session_id))
    check_said_once(chat.messages(session_id), script)
    return server


def check_said_once(messages, script):
    """Check that each message was said once, and not answered twice."""
    for number in range(6):
        asked = [m for m in messages if m["content"] == script(f"Answer {number}.")]
        assert len(asked) == 1, f"message {number} was said {len(asked)} times"
        told = [
            m for m in messages if m["role"] == "assistant" and m["content"] == f"Answer {number}."
        ]
        assert len(told) <= 1, f"message {number} was answered {len(told)} times"
        after = messages[messages.index(asked[0]) + 1 :]
        if not told and after and after[0]["role"] == "assistant":  # it had begun to speak
            assert after[0]["interrupted"] is True


def resume(chat, session_id):
    """Resume an inbox that a failure has paused; False, for what asks again."""
    if inbox(chat, session_id)["paused"]:
        chat.http.post(f"/chat/{session_id}/inbox/resume")
    return False
