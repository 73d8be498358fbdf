"""Answers in JSON: checked before the model is asked, corrected, and parsed."""

import pytest

from tests.functional.conftest import names_of

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
}
FORM = {"type": "json_schema", "schema": SCHEMA}


def misfit(script, *texts):
    return script(*texts, per_request=True, ignores_format=True)


def ask(chat, message, form=FORM, **fields):
    body = {"message": message, "response_format": form, **fields}
    return chat.http.post(f"/chat/{chat.new_session()}", json=body)


def stream(chat, message, form=FORM):
    return chat.say(chat.new_session(), message, response_format=form)


@pytest.mark.parametrize(
    ("form", "field", "words"),
    [
        ({"type": "xml"}, "response_format.type", "'text', 'json_object' or 'json_schema'"),
        ({"type": "json_schema"}, "response_format.schema", "is required"),
        ({"type": "text", "schema": {}}, "response_format.schema", "refused"),
        ({**FORM, "strict": True}, "response_format.strict", ""),
        ({**FORM, "schema": {"type": "number of years"}}, "response_format.schema", "type"),
        (
            {**FORM, "schema": {"$ref": "https://example.com/person.json"}},
            "response_format.schema",
            "https://example.com/person.json",
        ),
        ({**FORM, "schema": {"title": "x" * 65_536}}, "response_format.schema", "65,536 bytes"),
    ],
)
def test_a_form_that_can_not_be_had_is_refused_before_the_model_is_asked(chat, form, field, words):
    session_id = chat.new_session()
    for path in (f"/chat/{session_id}", f"/chat/{session_id}/stream", "/chat"):
        answer = chat.http.post(path, json={"message": "How old?", "response_format": form})

        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (422, "VALIDATION_ERROR")
        assert error["details"]["field"] == field
        assert words in error["message"]
    assert chat.messages(session_id) == []


def test_an_answer_that_fits_is_parsed(chat):
    message = ask(chat, "How old?").json()["message"]
    assert isinstance(message["parsed"]["age"], int)
    assert message["content"].startswith('{"age":')

    message = ask(chat, "How old?", {"type": "json_object"}).json()["message"]
    assert isinstance(message["parsed"], dict)

    for form in ({"type": "text"}, None):
        assert ask(chat, "How old?", form).json()["message"]["parsed"] is None


def test_an_answer_that_does_not_fit_once_is_corrected(chat, script):
    answer = ask(chat, misfit(script, '{"age": "seven"}'))

    assert answer.status_code == 200
    message = answer.json()["message"]
    assert isinstance(message["parsed"]["age"], int)
    assert [each["content"] for each in chat.messages(answer.json()["session_id"])][1:] == [
        message["content"]
    ]


def test_a_stream_takes_it_back_and_ends_with_what_fits(chat, script):
    events = stream(chat, misfit(script, '{"age": "seven"}'))

    names = [name for name in names_of(events) if name != "thinking_delta"]
    reset = names.index("content_reset")
    assert "content_delta" in names[:reset]
    assert events[names.index("status")].data["state"] == "retrying"
    [complete] = [event.data for event in events if event.name == "message_complete"]
    after = [event.data for event in events[reset:] if event.name == "content_delta"]
    assert "".join(each["content"] for each in after) == complete["content"]
    assert isinstance(complete["parsed"]["age"], int)


def test_what_never_fits_is_an_error_and_is_not_worth_repeating(chat, script):
    asked = misfit(script, '{"age": "seven"}', '{"age": "eight"}')

    answer = ask(chat, asked)

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (502, "ANSWER_INVALID")
    assert error["details"]["errors"] == [
        {"path": "$.age", "message": "'eight' is not of type 'integer'"}
    ]
    assert error["details"]["content"] == '{"age": "eight"}'
    assert error["details"]["retryable"] is False
    *_, error, done = stream(chat, asked)
    assert (error.name, error.data["code"], done.name) == ("error", "ANSWER_INVALID", "done")


def test_a_request_sent_again_gets_the_same_answer_parsed(chat, script):
    session_id = chat.new_session()
    body = {"message": misfit(script, "seven"), "response_format": FORM}
    key = {"Idempotency-Key": "how-old"}

    first, again = (
        chat.http.post(f"/chat/{session_id}", json=body, headers=key).json() for _ in range(2)
    )

    assert isinstance(first["message"]["parsed"]["age"], int)
    assert again == first
    other = {**body, "response_format": {"type": "json_object"}}
    refused = chat.http.post(f"/chat/{session_id}", json=other, headers=key)
    assert refused.json()["error"]["details"]["field"] == "Idempotency-Key"
