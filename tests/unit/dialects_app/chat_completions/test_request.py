"""A request for a chat completion, as a request for a turn."""

import pytest

from dialects_app.chat_completions.branches import Branch, session_of_chat
from dialects_app.shared.parsed_request import name_of_field
from sessions_app.errors import ValidationFailed
from sessions_app.ids_and_clock import is_session_id
from tests.unit.dialects_app.chat_completions.bodies import HELLO, asked, function, refused

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}


def test_a_plain_request_is_a_turn_without_a_saved_session_that_ends_with_its_client():
    request = asked()
    assert request.chat.ephemeral
    assert not request.chat.turn.detached
    assert request.chat.turn.approvals == "deny"
    assert request.chat.new is not None
    assert request.chat.new.metadata.model == "qwen3:14b"
    assert (request.streams, request.includes_usage, request.warnings) == (False, False, [])


def test_a_stored_one_is_saved_and_goes_on_without_its_client():
    request = asked(store=True, metadata={"topic": "greetings"}, where={"own_tools": "add"})
    assert not request.chat.ephemeral
    assert request.chat.turn.detached
    assert request.chat.new is not None
    metadata = request.chat.new.metadata
    assert metadata.metadata == {"topic": "greetings"}
    assert metadata.tool_settings is not None
    assert list(metadata.tool_settings.tools) == ["add"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"a": 1}, "metadata.a"),
        ({"a": "x" * 513}, "metadata.a"),
        ({"a" * 65: "x"}, f"metadata.{'a' * 64}"),
        (["a"], "metadata"),
        ({str(n): "x" for n in range(17)}, "metadata"),
    ],
)
def test_labels_that_can_t_be_kept_are_refused_only_where_they_would_be(metadata, field):
    assert refused(store=True, metadata=metadata) == field
    assert asked(metadata=metadata).chat.ephemeral


def test_a_request_continues_a_session_only_with_the_session_s_model():
    chat = asked(where={"session_id": "a1b2c3d4e5"}).chat
    assert (chat.session_id, chat.model, chat.new, chat.ephemeral) == (
        "a1b2c3d4e5",
        "qwen3:14b",
        None,
        False,
    )


def test_a_session_can_be_made_under_an_id_that_is_given():
    chat = asked(where={"branch": Branch(session_id="a1b2c3d4e5")}).chat
    assert chat.session_id == "a1b2c3d4e5"
    assert chat.new is not None
    assert chat.new.session_id == "a1b2c3d4e5"
    assert not chat.ephemeral


def test_a_chat_of_another_program_has_a_session_for_each_of_its_models():
    ids = {session_of_chat(chat, model) for chat in ("one", "two") for model in ("a", "b")}
    assert len(ids) == 4
    assert all(is_session_id(each) for each in ids)
    assert session_of_chat("one", "a") in ids


def test_sampling_options_have_ollama_s_names():
    turn = asked(
        temperature=0,
        top_p=0.5,
        seed=7,
        presence_penalty=1,
        frequency_penalty=-1.5,
        max_tokens=10,
        stop="END",
    ).chat.turn
    assert turn.options == {
        "temperature": 0,
        "top_p": 0.5,
        "seed": 7,
        "presence_penalty": 1,
        "frequency_penalty": -1.5,
        "num_predict": 10,
        "max_tokens": 10,
        "stop": ["END"],
    }
    assert asked().chat.turn.options == {}


def test_the_newer_name_of_the_longest_answer_counts_and_stop_may_be_a_list():
    options = asked(max_tokens=10, max_completion_tokens=20, stop=["a", "b"]).chat.turn.options
    assert options["num_predict"] == 20
    assert options["stop"] == ["a", "b"]


def test_an_answer_may_have_no_limit_but_not_be_empty():
    assert asked(max_tokens=-1).chat.turn.options == {}
    assert asked(max_tokens=5, max_completion_tokens=-1).chat.turn.options == {}
    with pytest.raises(ValidationFailed, match="-1"):
        asked(max_tokens=0)


@pytest.mark.parametrize(
    ("fields", "think"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal"}, "minimal"),
        ({"reasoning_effort": "low"}, "low"),
        ({"reasoning_effort": "medium"}, "medium"),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "xhigh"}, "xhigh"),
        ({"reasoning_effort": "max"}, "max"),
        ({"reasoning": {"effort": "low"}}, "low"),
        ({"reasoning": {"summary": "auto"}}, None),
        ({"reasoning": {"enabled": True}}, True),
        ({"reasoning": {"enabled": False}}, False),
        ({"reasoning": {"enabled": True, "effort": "low"}}, "low"),
        ({"reasoning": None}, None),
    ],
)
def test_an_effort_is_how_hard_to_think(fields, think):
    assert asked(**fields).chat.turn.think == think


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        (FORM, SCHEMA),
    ],
)
def test_a_form_of_the_answer_is_a_schema(form, schema):
    assert asked(response_format=form).chat.turn.answer_schema == schema


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"type": "json_schema"}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"name": "x"}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_a_form_without_its_schema_is_refused(form, field):
    assert refused(response_format=form) == field


def test_a_form_may_stand_beside_tools():
    turn = asked(response_format=FORM, tools=[function()], where={"own_tools": "add"}).chat.turn
    assert (turn.answer_schema, turn.selected_tools) == (SCHEMA, ("add",))
    assert [tool.name for tool in turn.client_tools] == ["get_weather"]
    turn = asked(response_format=FORM, tools=[function()], tool_choice="none").chat.turn
    assert (turn.answer_schema, turn.client_tools) == (SCHEMA, ())


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "get_weather"}}]
)
def test_a_form_holds_too_where_a_call_comes_first(choice):
    parsed = asked(response_format=FORM, tools=[function()], tool_choice=choice)
    assert parsed.chat.turn.answer_schema == SCHEMA
    assert parsed.warnings == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"functions": []}, "functions"),
        ({"function_call": "auto"}, "function_call"),
    ],
)
def test_what_would_change_the_meaning_of_the_answer_is_refused(fields, field):
    assert refused(**fields) == field


def test_what_changes_nothing_is_taken():
    request = asked(
        {**HELLO, "name": "Ada"},
        n=1,
        logprobs=False,
        top_logprobs=0,
        modalities=["text"],
        audio=None,
        functions=None,
        function_call=None,
        stop=None,
        tools=None,
        user="ada",
        metadata={"a": 1},
        safety_identifier="x",
        prompt_cache_key="y",
        service_tier="flex",
        verbosity="low",
        moderation={},
        keep_alive="5m",
        stream_options=None,
    )
    assert request.warnings == []


def test_a_stream_says_what_it_used_where_that_is_asked_for():
    request = asked(stream=True, stream_options={"include_usage": True, "other": 1})
    assert request.streams
    assert request.includes_usage


def test_what_is_not_obeyed_is_noted():
    request = asked(
        tools=[function(strict=True)],
        parallel_tool_calls=False,
        logit_bias={"50256": -100},
    )
    assert [warning.split(":")[0] for warning in request.warnings] == [
        "parallel_tool_calls",
        "tools",
        "logit_bias",
    ]


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("think", "reasoning_effort"),
        ("message", "messages"),
        ("client_tools", "tools"),
        ("client_tools[1].name", "tools[1].function.name"),
        ("model", "model"),
    ],
)
def test_an_error_names_the_field_by_which_the_client_knows_it(field, named):
    assert name_of_field(field) == named


def test_an_error_names_a_message_by_its_place_in_the_request():
    request = asked(
        {"role": "system", "content": "Be kind."},
        HELLO,
        {"role": "assistant", "content": "Hi!"},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Bye."},
        where={"session_id": "a1b2c3d4e5"},
    )
    assert name_of_field("messages[0].content", request.paths) == "messages[4].content"
