"""``POST /v1/responses`` as the official package speaks it, against a real server."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from mochi_server.testing import MODEL, MochiServer, Reply, ToolCall
from tests.functional.dialects.conftest import ServeOnce
from tests.functional.dialects.responding import (
    ASKING,
    CALL_WEATHER,
    CALL_WIPE,
    OURS,
    WEATHER,
    Person,
    asked_of_model,
    furnish,
    native,
    respond,
    session_of,
    sessions,
    sweep,
)


@pytest.fixture(scope="module")
def scripted_once(serve_once: ServeOnce) -> MochiServer:
    return furnish(serve_once())


def test_a_response_is_whole_and_its_session_is_kept(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], reasoning="They greet."))
    response = respond(
        client,
        reasoning={"effort": "medium"},
        temperature=0.5,
        metadata={"topic": "greeting"},
        max_output_tokens=50,
    )
    assert response.status == "completed"
    assert response.output_text == "Hello!"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.output[0].summary[0].text == "They greet."
    assert (response.temperature, response.max_output_tokens) == (0.5, 50)
    assert response.metadata == {"topic": "greeting"}
    assert response.usage.total_tokens == (
        response.usage.input_tokens + response.usage.output_tokens
    )
    assert response.usage.output_tokens > 0
    assert response.completed_at >= response.created_at
    assert session_of(response) in sessions(scripted)
    assert scripted.model_requests[-1]["options"]["temperature"] == 0.5


def test_the_packages_stream_helper_understands_the_stream(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], reasoning=["They ", "greet."]))
    with client.responses.stream(
        model=MODEL, input="Hello!", reasoning={"effort": "low"}
    ) as stream:
        events = list(stream)
        response = stream.get_final_response()
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Hello!"
    thoughts = [e.delta for e in events if e.type == "response.reasoning_summary_text.delta"]
    assert "".join(thoughts) == "They greet."
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (response.output_text, response.status) == ("Hello!", "completed")


def test_a_response_goes_on_from_the_last_one_and_instructions_do_not(scripted, client):
    scripted.script("My name is Mochi.", "I said so.")
    first = respond(client, "Who are you?", instructions="Speak French.")
    assert asked_of_model(scripted)[0] == ("system", "Speak French.")
    second = respond(client, "Really?", previous_response_id=first.id)
    assert session_of(second) == session_of(first)
    assert second.previous_response_id == first.id
    assert asked_of_model(scripted) == [
        ("user", "Who are you?"),
        ("assistant", "My name is Mochi."),
        ("user", "Really?"),
    ]


def test_an_older_response_is_forked_right_after_it(scripted, client):
    scripted.script("One.", "Two.", "Three.")
    first = respond(client, "a")
    second = respond(client, "b", previous_response_id=first.id)
    other = respond(client, "c", previous_response_id=first.id)
    assert session_of(other) != session_of(first)
    assert other.previous_response_id == first.id
    assert asked_of_model(scripted) == [("user", "a"), ("assistant", "One."), ("user", "c")]
    kept = native(scripted, f"/sessions/{session_of(second)}")["messages"]
    assert [message["content"] for message in kept] == ["a", "One.", "b", "Two."]


def test_responses_to_one_response_may_begin_at_the_same_time(scripted, connect):
    scripted.script("Root.", *(Reply(f"Branch {n}.", stall_seconds=1) for n in range(4)))
    first = respond(connect(scripted), "a")
    with ThreadPoolExecutor(4) as threads:
        branches = list(
            threads.map(
                lambda n: respond(
                    connect(scripted),
                    f"b{n}",
                    previous_response_id=first.id,
                    extra_headers={"Idempotency-Key": f"{first.id}-{n}"},
                ),
                range(4),
            )
        )
    assert sorted(each.output_text for each in branches) == [f"Branch {n}." for n in range(4)]
    assert len({session_of(each) for each in branches}) == 4
    said = [[m["content"] for m in each["messages"]] for each in scripted.model_requests[1:]]
    assert sorted(said) == [["a", "Root.", f"b{n}"] for n in range(4)]


def test_a_conversation_is_continued_with_the_model_of_the_request(scripted, client):
    conversation = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "My name is Ada."}]
    )
    scripted.script("Hello Ada.", "You are Ada.")
    first = respond(client, "Greet me.", conversation=conversation.id)
    assert first.conversation.id == conversation.id
    respond(client, "Who am I?", conversation={"id": conversation.id})
    assert [content for _, content in asked_of_model(scripted)][-2:] == ["Hello Ada.", "Who am I?"]


def test_a_response_that_is_not_stored_is_in_no_list_and_followed_by_none(scripted, client):
    before = sessions(scripted)
    scripted.script("Secret.")
    response = respond(client, store=False)
    assert (response.output_text, response.store) == ("Secret.", False)
    assert sessions(scripted) == before
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, previous_response_id=response.id)
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"


def test_a_response_in_the_background_is_there_at_once_and_later_whole(scripted, client):
    scripted.script("Done.")
    response = respond(client, background=True)
    assert (response.status, response.background) == ("queued", True)
    with client.responses.stream(response_id=response.id) as stream:
        final = stream.get_final_response()
    assert (final.status, final.output_text) == ("completed", "Done.")
    assert client.responses.retrieve(response.id).output_text == "Done."


@pytest.mark.parametrize("stream", [False, True])
def test_a_form_that_nothing_fits_is_the_requests_fault(client, stream):
    form = {"type": "json_schema", "name": "x", "schema": {"$ref": "#/nowhere"}}
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model=MODEL, input="Hello!", text={"format": form}, stream=stream)
    assert refused.value.param == "text.format"


def test_the_form_of_an_answer_reaches_the_model(scripted, client):
    with client.responses.stream(model=MODEL, input="Who?", text_format=Person) as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    assert isinstance(response.output_parsed, Person)
    assert scripted.model_requests[-1]["format"]["required"] == ["name", "age"]


def test_a_key_stands_for_one_response(scripted, client):
    scripted.script("One.", "Two.")
    key = {"Idempotency-Key": "same"}
    first = respond(client, extra_headers=key)
    again = respond(client, extra_headers=key)
    assert (again.id, again.output_text) == (first.id, "One.")
    with pytest.raises(openai.BadRequestError):
        respond(client, "Other.", extra_headers=key)


def test_a_limit_leaves_a_response_incomplete(scripted, client):
    scripted.script(" ".join(["word"] * 50))
    response = respond(client, max_output_tokens=5)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


def test_an_error_in_mid_stream_fails_the_response_and_is_kept(scripted, client):
    scripted.script(Reply(["Hel", "lo!"], error_line="runner died"))
    events = list(respond(client, stream=True))
    assert events[-1].type == "response.failed"
    failed = events[-1].response
    assert failed.error.message == "runner died"
    assert failed.output[0].content[0].text == "Hel"
    assert client.responses.retrieve(failed.id).error.message == "runner died"


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"previous_response_id": "resp_x"}, 400, "previous_response_not_found", None),
        ({"conversation": "conv_0000000000"}, 404, "conversation_not_found", "conversation"),
        (
            {"previous_response_id": "resp_x", "conversation": "conv_x"},
            400,
            "invalid_value",
            "previous_response_id",
        ),
        (
            {"tools": [{"type": "mcp", "server_label": "x"}]},
            400,
            "invalid_value",
            "tools[0].server_label",
        ),
        ({"input": []}, 400, "invalid_value", "input"),
        (
            {"include": ["message.output_text.logprobs"]},
            400,
            "invalid_value",
            "include[0]",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]},
            400,
            "invalid_value",
            "input[0].call_id",
        ),
        ({"tools": [{**OURS, "allowed_tools": ["nothing"]}]}, 404, None, None),
    ],
)
def test_what_is_refused_says_why_and_nothing_is_saved(
    scripted, client, fields, status, code, param
):
    before = sessions(scripted)
    with pytest.raises(openai.APIStatusError) as refused:
        client.responses.create(**{"model": MODEL, "input": "Hello!", **fields})
    assert refused.value.status_code == status
    assert refused.value.response.headers["x-should-retry"] == "false"
    if code is not None:
        assert refused.value.code == code
    if param is not None:
        assert refused.value.param == param
    assert sessions(scripted) == before


@pytest.mark.parametrize(
    ("replies", "fields"),
    [
        ([Reply(["Hel", "lo!"], reasoning="They greet.")], {"reasoning": {"effort": "low"}}),
        ([Reply(tool_calls=[ToolCall("add", {"a": 1, "b": 2})]), "3."], {"tools": [OURS]}),
        ([Reply(tool_calls=[ToolCall("add", {"a": "x"})]), "No."], {"tools": [OURS]}),
        ([CALL_WIPE], {"tools": [ASKING], "metadata": {"a": "b"}}),
        ([CALL_WEATHER], {"tools": [WEATHER]}),
        ([" ".join(["word"] * 50)], {"max_output_tokens": 5}),
        ([Reply(["Hel", "lo!"], error_line="runner died")], {}),
    ],
    ids=["text", "tool", "failed tool", "question", "function", "limit", "error"],
)
def test_a_response_is_the_same_when_its_events_are_gone(scripted, client, replies, fields):
    scripted.script(*replies)
    final = list(respond(client, stream=True, **fields))[-1].response
    assert client.responses.retrieve(final.id).to_dict() == final.to_dict()
    sweep(scripted, final)
    assert client.responses.retrieve(final.id).to_dict() == final.to_dict()


def test_a_response_that_is_not_stored_may_follow_one_that_is(scripted, client):
    scripted.script("One.", "Two.")
    first = respond(client, "a")
    before = sessions(scripted)
    other = respond(client, "b", previous_response_id=first.id, store=False)
    assert other.output_text == "Two."
    assert asked_of_model(scripted) == [("user", "a"), ("assistant", "One."), ("user", "b")]
    assert sessions(scripted) == before
    kept = native(scripted, f"/sessions/{session_of(first)}")["messages"]
    assert [message["content"] for message in kept] == ["a", "One."]


def test_a_response_in_the_background_that_is_not_stored_can_be_read(scripted, client):
    scripted.script("Done.")
    before = sessions(scripted)
    response = respond(client, background=True, store=False)
    with client.responses.stream(response_id=response.id) as stream:
        final = stream.get_final_response()
    assert (final.output_text, final.store) == ("Done.", False)
    assert client.responses.retrieve(response.id).output_text == "Done."
    assert sessions(scripted) == before
