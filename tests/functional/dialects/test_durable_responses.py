"""A response outlives its connection, its worker and its server, for the unchanged client."""

import shutil
import threading
import time

import openai as package
import pytest

from tests.functional.dialects.connecting import client_at
from tests.functional.durability.conftest import Upstream

MODEL = "qwen3:14b"


class Speech:
    """What the model says: a few words at once, and the rest when it is told."""

    def __init__(self, upstream):
        self._go_on = threading.Event()
        upstream.behave = self

    def __call__(self, answer):
        answer.say("One", " two")
        assert self._go_on.wait(60)
        answer.say(" three", " four")
        answer.finish()

    def go_on(self):
        self._go_on.set()


@pytest.fixture(scope="module")
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture
def speech(upstream):
    speech = Speech(upstream)
    yield speech
    speech.go_on()


@pytest.fixture(scope="module")
def server(start_once, upstream):
    return start_once("--workers", "2", MOCHI_OLLAMA_HOST=upstream.url)


@pytest.fixture
def first(server, connect):
    """A client of the first worker."""
    return client_at(server, 0, connect)


@pytest.fixture
def second(server, connect):
    """A client of the other worker."""
    return client_at(server, 1, connect)


def until_two(stream):
    """Read a stream until the second word has come."""
    events = []
    for event in stream:
        events.append(event)
        if event.type == "response.output_text.delta" and event.delta == " two":
            return events
    raise AssertionError([event.type for event in events])


def begin(client, **options):
    """Begin a response, and lose the connection after two words."""
    options = {"model": MODEL, "input": "Count!", **options}
    with client.responses.create(stream=True, **options) as stream:
        events = until_two(stream)
        return events[0].response.id, events


def as_sent(events):
    return [event.to_dict() for event in events]


def session_of(response_id):
    return response_id.removeprefix("resp_")[:10]


def said_in(server, response_id):
    """The text of the last message of the session's file."""
    return server.session_file(session_of(response_id))["messages"][-1]["content"]


def test_a_stream_that_was_cut_goes_on_from_another_worker(server, speech, first, second):
    name, seen = begin(first, background=True)
    last = seen[-1].sequence_number
    with second.responses.retrieve(name, stream=True, starting_after=last) as rest:
        speech.go_on()
        later = list(rest)
    assert [event.sequence_number for event in (*seen, *later)] == [*range(len(seen) + len(later))]
    assert later[-1].type == "response.completed"
    final = later[-1].response
    assert final.output_text == "One two three four" == said_in(server, name)
    assert second.responses.retrieve(name).to_dict() == final.to_dict()
    assert first.responses.retrieve(name).to_dict() == final.to_dict()


def test_every_listener_gets_the_same_events_at_any_time(speech, first, second):
    name, seen = begin(first, background=True)
    with second.responses.retrieve(name, stream=True) as live:
        speech.go_on()
        joined = list(live)
    replayed = list(first.responses.retrieve(name, stream=True))
    assert as_sent(joined) == as_sent(replayed)
    assert as_sent(joined[: len(seen)]) == as_sent(seen)
    for number in range(len(joined)):
        later = second.responses.retrieve(name, stream=True, starting_after=number)
        assert as_sent(later) == as_sent(joined[number + 1 :])


def test_the_stream_helper_replays_the_whole_response(speech, first, second):
    name, seen = begin(first, background=True)
    speech.go_on()
    last = seen[-1].sequence_number
    with second.responses.stream(response_id=name, starting_after=last) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[0].sequence_number == last + 1
    assert final.output_text == "One two three four"


def test_after_a_kill_the_stream_ends_as_the_session_does(start, upstream, speech, connect):
    server = start("--workers", "2", MOCHI_OLLAMA_HOST=upstream.url)
    with connect(server).responses.create(
        model=MODEL, input="Count!", stream=True, background=True
    ) as stream:
        seen = until_two(stream)
        server.kill()
    name, last = seen[0].response.id, seen[-1].sequence_number
    again = start("--workers", "2", MOCHI_OLLAMA_HOST=upstream.url)
    for worker in (0, 1):
        client = client_at(again, worker, connect)
        later = list(client.responses.retrieve(name, stream=True, starting_after=last))
        assert [e.sequence_number for e in (*seen, *later)] == [*range(len(seen) + len(later))]
        assert later[-1].type == "response.failed"
        assert later[-1].response.output_text == "One two" == said_in(again, name)
        found = client.responses.retrieve(name)
        assert found.to_dict() == later[-1].response.to_dict()
        assert (found.status, found.error.code) == ("failed", "server_error")
        with client.responses.stream(response_id=name, starting_after=last) as helper:
            assert as_sent(later)[-1] == as_sent(helper)[-1]


def test_a_running_response_is_in_progress_and_can_be_cancelled_anywhere(speech, first, second):
    name, _ = begin(first, background=True)
    found = second.responses.retrieve(name)
    assert (found.status, found.output_text) == ("in_progress", "One two")
    with first.responses.retrieve(name, stream=True) as stream:
        cancelled = second.responses.cancel(name)
        last = list(stream)[-1]
    assert (cancelled.id, cancelled.status, cancelled.output_text) == (name, "cancelled", "One two")
    assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
    assert second.responses.cancel(name).to_dict() == cancelled.to_dict(), "once more"
    assert first.responses.retrieve(name).to_dict() == cancelled.to_dict()


def test_a_listener_who_comes_back_lets_the_response_go_on(speech, first, second):
    with first.responses.create(model=MODEL, input="Count!", stream=True) as stream:
        name = until_two(stream)[0].response.id
        with second.responses.retrieve(name, stream=True) as again:
            until_two(again)
    speech.go_on()
    [*_, last] = second.responses.retrieve(name, stream=True)
    assert (last.type, last.response.output_text) == ("response.completed", "One two three four")


def test_what_was_swept_can_be_read_but_not_streamed(server, speech, first, second):
    speech.go_on()
    whole = first.responses.create(model=MODEL, input="Count!", instructions="In English.")
    sweep(server)
    found = second.responses.retrieve(whole.id)
    assert found.to_dict() == whole.to_dict()
    with pytest.raises(package.BadRequestError, match="can no longer be streamed"):
        second.responses.retrieve(whole.id, stream=True)
    with (
        pytest.raises(package.BadRequestError),
        second.responses.stream(response_id=whole.id, starting_after=3) as stream,
    ):
        list(stream)
    assert second.responses.cancel(whole.id).status == "completed"
    [said] = second.responses.input_items.list(whole.id)
    assert said.content[0].text == "Count!"


def sweep(server):
    """Remove all journals, as the server does ten minutes after a turn."""
    for journals in (server.data_dir / ".mochi").glob("*turns*"):
        shutil.rmtree(journals)


def test_while_a_response_is_made_its_conversation_is_not_changed(speech, first, second):
    made = first.conversations.create()
    name, _ = begin(first, background=True, conversation=made.id)
    hello = {"role": "user", "content": "Hello!"}
    for change in (
        lambda: second.conversations.delete(made.id),
        lambda: second.conversations.items.create(made.id, items=[hello]),
        lambda: second.responses.delete(name),
        lambda: second.responses.create(model=MODEL, input="Now!", conversation=made.id),
    ):
        with pytest.raises(package.ConflictError) as refusal:
            change()
        assert refusal.value.response.headers["retry-after"] == "1"
    with second.responses.retrieve(name, stream=True) as stream:
        speech.go_on()
        assert list(stream)[-1].response.output_text == "One two three four"
    assert [item.role for item in first.conversations.items.list(made.id, order="asc")] == [
        *("user", "assistant"),
    ]


def test_a_deleted_response_is_gone_and_a_conversation_stays(speech, first, second):
    speech.go_on()
    alone = first.responses.create(model=MODEL, input="Count!")
    made = first.conversations.create()
    within = first.responses.create(model=MODEL, input="Count!", conversation=made.id)
    for response in (alone, within):
        second.responses.delete(response.id)
        for call in (
            lambda name=response.id: first.responses.retrieve(name),
            lambda name=response.id: first.responses.retrieve(name, stream=True),
            lambda name=response.id: first.responses.cancel(name),
            lambda name=response.id: first.responses.delete(name),
            lambda name=response.id: first.responses.input_items.list(name),
        ):
            with pytest.raises(package.NotFoundError):
                call()
    with pytest.raises(package.NotFoundError):
        first.conversations.retrieve(f"conv_{session_of(alone.id)}")
    assert len(first.conversations.items.list(made.id).data) == 2


def test_a_response_that_is_not_stored_is_gone_with_its_turn(speech, first, second):
    speech.go_on()
    whole = first.responses.create(model=MODEL, input="Count!", store=False)
    deadline = time.monotonic() + 60
    while is_there(second, whole.id):  # it goes a moment after its last listener
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_there(client, name):
    try:
        client.responses.retrieve(name)
    except package.NotFoundError:
        return False
    return True


def test_nothing_is_shown_without_the_token(start, upstream, speech, connect):
    server = start(MOCHI_OLLAMA_HOST=upstream.url, MOCHI_API_TOKEN="right")
    speech.go_on()
    response = connect(server, api_key="right").responses.create(model=MODEL, input="Count!")
    stranger = connect(server, api_key="wrong")
    for call in (
        lambda: stranger.responses.retrieve(response.id),
        lambda: stranger.responses.retrieve(response.id, stream=True),
        lambda: stranger.responses.cancel(response.id),
        lambda: stranger.responses.delete(response.id),
        lambda: stranger.responses.input_items.list(response.id),
        lambda: stranger.responses.input_tokens.count(model=MODEL, input="Hi"),
        stranger.conversations.create,
        lambda: stranger.conversations.retrieve(f"conv_{session_of(response.id)}"),
    ):
        with pytest.raises(package.AuthenticationError):
            call()
