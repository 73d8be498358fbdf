"""Two owners on one server: each has data of his own, and what dies of his goes on."""

import json

import pytest

from tests.functional.conftest import names_of, read_events, text_of
from tests.functional.durability.dying import says
from tests.functional.worker.test_summaries import until

OWNERS = ("anna", "bob")


@pytest.fixture
def launch(start, upstream):
    """Return how to start servers in front of the model server of this module."""

    def start_server(*flags, **variables):
        return start(*flags, MOCHI_OLLAMA_HOST=upstream.url, **variables)

    yield start_server
    upstream.behave = lambda answer: None


def tokens_of(server):
    """Make a key for each owner; return their tokens."""
    operator = server.chat(headers={"Authorization": f"Bearer {TOKEN}"})
    tokens = {}
    for owner in OWNERS:
        made = operator.http.post("/keys", json={"owner": owner})
        assert made.status_code == 201, made.text
        tokens[owner] = made.json()["token"]
    return tokens


TOKEN = "operators-token"
OPERATED = {"MOCHI_API_TOKEN": TOKEN}


def clients_of(server, tokens):
    return [server.chat(headers={"Authorization": f"Bearer {tokens[o]}"}) for o in OWNERS]


def file_of(server, owner, session_id):
    return server.data_dir / "users" / owner / "chat_sessions" / f"{session_id}.json"


def messages_in(file):
    return json.loads(file.read_text())["messages"]


def test_owners_have_sessions_and_turns_of_their_own(start, script):
    server = start(**OPERATED)
    anna, bob = clients_of(server, tokens_of(server))
    theirs = anna.new_session()
    assert text_of(anna.say(theirs, script("Only for Anna."))) == "Only for Anna."
    others = bob.new_session()

    assert [each["session_id"] for each in anna.http.get("/sessions").json()["sessions"]] == [
        theirs
    ]
    assert [each["session_id"] for each in bob.http.get("/sessions").json()["sessions"]] == [others]
    assert bob.http.get(f"/sessions/{theirs}").status_code == 404
    assert bob.http.post(f"/chat/{theirs}", json={"message": "Hi!"}).status_code == 404
    assert len(messages_in(file_of(server, "anna", theirs))) == 2
    assert not list((server.data_dir / "chat_sessions").glob("*.json"))


def test_equal_keys_of_two_owners_are_two_turns(start, script):
    server = start(**OPERATED)
    turns = []
    for client in clients_of(server, tokens_of(server)):
        body = {"message": script("Hello!"), "model": "qwen3:14b"}
        answer = client.http.post("/chat", json=body, headers={"Idempotency-Key": "one"})
        assert answer.status_code == 200, answer.text
        turns.append(answer.json()["session_id"])
    assert turns[0] != turns[1]


def test_turns_that_died_with_the_server_go_on_at_the_next_start(launch, upstream, eventually):
    upstream.behave = says("Half", ends=False)
    server = launch(MOCHI_ON_CRASH="continue", **OPERATED)
    tokens, sessions = tokens_of(server), []
    for client in clients_of(server, tokens):
        sessions.append(client.new_session())
        body = {"message": "Hello!", "detached": True}
        with client.http.stream("POST", f"/chat/{sessions[-1]}/stream", json=body) as answer:
            events = read_events(answer)
            while next(events).name != "content_delta":
                pass
    server.kill()
    upstream.behave = says(" an answer.")

    server = launch(MOCHI_ON_CRASH="continue", **OPERATED)  # and nobody comes by

    for owner, session_id in zip(OWNERS, sessions, strict=True):
        file = file_of(server, owner, session_id)
        eventually(lambda file=file: len(messages_in(file)) == 2)
        assert messages_in(file)[-1]["content"] == "Half an answer."
    anna, _ = clients_of(server, tokens)
    assert "turn_resumed" in names_of(anna.reattach(sessions[0]))


def test_another_process_goes_on_with_a_turn_of_an_owner(launch, upstream, eventually, kill):
    upstream.behave = says("Half", ends=False)
    server = launch("--workers", "2", MOCHI_ON_CRASH="continue", **OPERATED)
    owner, other = server.web_processes
    tokens = tokens_of(server)
    header = {"Authorization": f"Bearer {tokens['anna']}"}
    first, second = server.chat_with(owner), server.chat_with(other)
    for client in (first, second):
        client.http.headers.update(header)
        eventually(lambda client=client: client.http.get("/sessions").status_code == 200)
    session_id = first.new_session()
    opened = first.http.stream(
        "POST", f"/chat/{session_id}/stream", json={"message": "Hello!", "detached": True}
    )
    events = read_events(opened.__enter__())
    while next(events).name != "content_delta":
        pass
    upstream.behave = says(" an answer.")
    kill(owner)

    events = second.reattach(session_id)

    assert text_of(events) == "Half an answer."
    assert second.messages(session_id)[-1]["content"] == "Half an answer."


@pytest.mark.slow
def test_the_worker_summarizes_the_sessions_of_each_owner(start):
    server = start(
        MOCHI_BACKGROUND_WORKER="true", MOCHI_SUMMARIZATION_INTERVAL_SECONDS="0", **OPERATED
    )
    clients = clients_of(server, tokens_of(server))
    operator = server.chat(headers={"Authorization": f"Bearer {TOKEN}"})
    until(lambda: operator.http.get("/health").json()["worker_alive"])
    sessions = [client.new_session() for client in clients]
    for client, session_id in zip(clients, sessions, strict=True):
        client.say(session_id, "Good morning!")

    for owner, client, session_id in zip(OWNERS, clients, sessions, strict=True):
        file = file_of(server, owner, session_id)
        until(lambda file=file: json.loads(file.read_text())["metadata"].get("summary"))
        made = client.http.get(f"/sessions/{session_id}/summary")
        assert made.json()["summary"], made.text
        until(lambda file=file: "summary_due" not in json.loads(file.read_text())["metadata"])
