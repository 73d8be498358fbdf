"""What a server may ask people for, and which values fit its form."""

import time

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.errors import ValidationFailed
from tools_app.elicitation import (
    ElicitationRefused,
    fill,
    flat_schema,
    safe_url,
    secrets_in,
)

CHOICES = ["small", "large"]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe", "minLength": 2, "maxLength": 10},
        "age": {"type": "integer", "default": 30, "minimum": 0},
        "score": {"type": "number", "default": 95.5},
        "size": {"type": "string", "enum": CHOICES, "default": "small"},
        "verified": {"type": "boolean", "default": True},
        "mail": {"type": "string", "format": "email"},
    },
    "required": ["mail"],
}


def form(**properties):
    return {"type": "object", "properties": properties}


def test_missing_values_get_the_schemas_defaults():
    content = fill({"mail": "ann@example.org", "age": 4}, flat_schema(SCHEMA))

    assert content == {
        "name": "John Doe",
        "age": 4,
        "score": 95.5,
        "size": "small",
        "verified": True,
        "mail": "ann@example.org",
    }


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({}, "content"),
        ({"mail": "no address"}, "content.mail"),
        ({"mail": "ann@example.org", "age": "4"}, "content.age"),
        ({"mail": "ann@example.org", "age": True}, "content.age"),
        ({"mail": "ann@example.org", "age": -1}, "content.age"),
        ({"mail": "ann@example.org", "name": None}, "content.name"),
        ({"mail": "ann@example.org", "name": "x" * 11}, "content.name"),
        ({"mail": "ann@example.org", "size": "huge"}, "content.size"),
        ({"mail": "ann@example.org", "else": 1}, "content"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(content, field):
    with pytest.raises(ValidationFailed) as caught:
        fill(content, flat_schema(SCHEMA))

    assert caught.value.details == {"field": field}


def test_many_choices_hold_nobody_up():
    choices = [{"const": str(number)} for number in range(3_000)]
    schema = flat_schema(form(some={"type": "array", "items": {"anyOf": choices}}))
    began = time.thread_time()

    fill({"some": ["2999"] * 200_000}, schema)

    assert time.thread_time() - began < 5  # 0.1 s; one by one it would be a minute
    with pytest.raises(ValidationFailed):
        fill({"some": ["3000"]}, schema)


def test_a_refusal_repeats_no_value():
    with pytest.raises(ValidationFailed) as caught:
        fill({"mail": "hunter2"}, flat_schema(SCHEMA))

    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "form",
        {"type": "array"},
        {"type": "object"},
        form(address={"type": "object", "properties": {"street": {"type": "string"}}}),
        form(rows={"type": "array", "items": {"type": "object"}}),
        form(name={"$ref": "https://evil.example/schema"}),
        form(name={"type": ["string", "null"]}),
        form(name={"type": "string", "minLength": -1}),
        form(name={"type": "integer", "default": "x"}),
        form(name={"type": "string", "description": "x" * 70_000}),
    ],
)
def test_other_than_flat_forms_are_refused(schema):
    with pytest.raises(ElicitationRefused):
        flat_schema(schema)


def test_what_a_form_can_not_have_is_left_out():
    schema = form(name={"type": "string", "pattern": "(a+)+$", "title": "Name"})
    schema |= {"required": ["name", "unknown"], "$defs": {"deep": {}}, "allOf": [False]}

    assert flat_schema(schema) == {
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name"}},
        "required": ["name"],
    }


def test_choices_keep_their_titles():
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    schema = form(
        one={"type": "string", "oneOf": titled},
        old={"type": "string", "enum": ["s"], "enumNames": ["Small"]},
        many={"type": "array", "items": {"anyOf": titled}, "minItems": 1, "default": ["s"]},
    )

    assert flat_schema(schema)["properties"] == schema["properties"]
    assert fill({}, flat_schema(schema)) == {"many": ["s"]}
    with pytest.raises(ValidationFailed):
        fill({"one": "m"}, flat_schema(schema))
    with pytest.raises(ValidationFailed):
        fill({"many": []}, flat_schema(schema))


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
bounds = st.integers(0, 3)
properties = st.one_of(
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": bounds}),
    st.fixed_dictionaries({"type": st.just("string")}, optional={"maxLength": bounds}),
    st.fixed_dictionaries({"type": st.just("string"), "enum": st.lists(texts, min_size=1)}),
    st.fixed_dictionaries({"type": st.just("integer")}, optional={"minimum": bounds}),
    st.fixed_dictionaries({"type": st.just("number")}, optional={"maximum": bounds}),
    st.fixed_dictionaries({"type": st.just("boolean")}, optional={"default": st.booleans()}),
    st.fixed_dictionaries(
        {
            "type": st.just("array"),
            "items": st.fixed_dictionaries(
                {"type": st.just("string"), "enum": st.lists(texts, min_size=1)}
            ),
        },
        optional={"maxItems": bounds},
    ),
)
names = st.sampled_from("abcd")
schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(names, properties),
        "required": st.lists(names, unique=True),
    }
)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 4),
    st.floats(-4, 4),
    texts,
    st.lists(texts, max_size=3),
    st.dictionaries(texts, texts, max_size=1),
)


@given(schemas, st.dictionaries(names, values))
def test_values_fit_as_another_validator_finds(schema, content):
    flat = flat_schema(schema)
    defaults = {key: it["default"] for key, it in flat["properties"].items() if "default" in it}
    expected = {**defaults, **content}
    strict = {**flat, "additionalProperties": False}
    if jsonschema.Draft202012Validator(strict).is_valid(expected):
        assert fill(content, flat) == expected
    else:
        with pytest.raises(ValidationFailed):
            fill(content, flat)


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example/pay?id=1",
        "https://shop.example:8443/",
        "http://127.0.0.1:8080/login",
        "http://localhost/",
        "http://[::1]:9/",
    ],
)
def test_addresses_of_https_and_of_this_machine_are_shown(url):
    assert safe_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "",
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://shop.example/",
        "http://127.0.0.1.evil.example/",
        "https://",
        "https://bank.example@evil.example/",
        "https://bank.example\\@evil.example/",
        "https://shop.example/\n",
        "https://shop.example/ x",
        "https://shop.example/\u202egnp",
        "https://shop.example:port/",
        "https://[broken/",
        "//shop.example/",
        "https://shop.example/" + "x" * 5_000,
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(ElicitationRefused):
        safe_url(url)


def test_values_named_like_secrets_are_found():
    schema = form(
        user_password={"type": "string"},
        api_key={"type": "string"},
        code={"type": "string", "title": "Your PIN"},
        cvv={"type": "string"},
        city={"type": "string"},
        pinned={"type": "boolean"},
    )

    assert secrets_in(schema) == ["user_password", "api_key", "code", "cvv"]
    assert secrets_in(None) == []
