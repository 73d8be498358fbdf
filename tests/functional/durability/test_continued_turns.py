"""``kill -9`` of the process that runs a turn: another one goes on with it, in the same stream."""

import pytest

from tests.functional.conftest import names_of, read_events, text_of

CONTINUES = {"MOCHI_ON_CRASH": "continue"}


@pytest.fixture
def launch(start, upstream):
    """Return how to start servers that go on, in front of the model server of this module."""

    def start_server(*flags, **variables):
        return start(*flags, MOCHI_OLLAMA_HOST=upstream.url, **{**CONTINUES, **variables})

    return start_server


def after_it_was_killed(answer, *texts):
    """Say more, and finish: what the model does once it is asked again."""
    answer.say(*texts)
    answer.finish()


def half_an_answer(upstream, *rest):
    """Have the model say half of an answer and wait, and the rest when it is asked again."""
    asked = len(upstream.answers)

    def behave(answer):
        if upstream.answers.index(answer) == asked:
            answer.say("Half", " an")
            answer.wait_until_closed()
        else:
            after_it_was_killed(answer, *rest)

    upstream.behave = behave


def numbers_of(events):
    return [int(event.id.partition(":")[2]) for event in events]


def test_a_text_goes_on_in_the_stream_of_another_worker(launch, upstream, kill):
    server = launch("--workers", "2")
    owner, other = server.web_processes
    half_an_answer(upstream, " answer.")
    chat = server.chat_with(owner)
    session_id = chat.new_session()
    with chat.stream(session_id, message="Hello!", detached=True) as events:
        seen = [next(events) for _ in range(3)]
    listener = server.chat_with(other)
    with listener.http.stream("GET", f"/chat/{session_id}/stream") as answer:
        stream = read_events(answer)
        seen = [next(stream) for _ in range(3)]
        kill(owner)
        seen += list(stream)
    assert names_of(seen) == [
        *("turn_started", "content_delta", "content_delta", "turn_resumed", "content_delta"),
        *("message_complete", "done"),
    ]
    assert numbers_of(seen) == list(range(1, 8))
    resumed = seen[3].data
    assert (resumed["keeps"], resumed["reason"], resumed["attempt"]) == ("text", "process_died", 1)
    assert resumed["message_id"] == seen[0].data["message_id"] == seen[-2].data["message_id"]
    assert "discarded" not in resumed
    assert text_of(seen) == seen[-2].data["content"] == "Half an answer."
    assert [m["content"] for m in listener.messages(session_id)] == ["Hello!", "Half an answer."]
    asked = upstream.answers[-1].messages
    assert [(m["role"], m["content"]) for m in asked][-2:] == [
        ("user", "Hello!"),
        ("assistant", "Half an"),
    ]
