"""Bodies of the ``/v1`` routes are read as structs; a refusal names the field by its path."""

import json
from typing import Any, Literal

import msgspec
import pytest
from django.http import HttpRequest

from dialects_app.shared.body import LARGE_BYTES, decode_body, read_body
from mochi_project.http.strict_json import MalformedBodyError
from sessions_app.bounds import MOST_HISTORY_VALUES
from sessions_app.errors import ValidationFailed


class Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class Image(msgspec.Struct, tag_field="type", tag="image_url"):
    image_url: str


class Said(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: str | list[Text | Image] | None = None


class Body(msgspec.Struct):
    model: str
    messages: list[Said] = []
    n: int | None = None
    temperature: float | None = None
    metadata: dict[str, str] = {}


def decode(**fields: Any) -> Body:
    return decode_body(json.dumps({"model": "m", **fields}).encode(), Body)


def test_fields_that_mean_nothing_here_are_ignored() -> None:
    read = decode(user="somebody", logit_bias={"50256": -100}, messages=[{"role": "user", "x": 1}])

    assert read == Body(model="m", messages=[Said("user")])


def test_whole_numbers_may_have_a_point() -> None:
    assert decode(n=3.0, temperature=1).n == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": 5}, "model"),
        ({"n": 1.5}, "n"),
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": "user"}, {}]}, "messages[1].role"),
        ({"messages": [{"role": "wizard"}]}, "messages[0].role"),
        (
            {"messages": [{"role": "user"}] * 2 + [{"role": "user", "content": 7}]},
            "messages[2].content",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
            "messages[0].content[0].type",
        ),
        ({"messages": [{"role": "user", "content": [{}]}]}, "messages[0].content[0].type"),
        ({"metadata": {"a": 1}}, "metadata[...]"),
    ],
)
def test_a_refusal_names_the_path_of_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        decode(**fields)

    assert caught.value.details["field"] == param
    assert f"'{param}'" in caught.value.message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(
        ValidationFailed, match=r"^Missing required parameter: 'model'\.$"
    ) as caught:
        decode_body(b"{}", Body)

    assert caught.value.details["field"] == "model"


@pytest.mark.parametrize("data", [b"[]", b"null", b'"text"', b"5"])
def test_a_body_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationFailed) as caught:
        decode_body(data, Body)

    assert caught.value.details["field"] == "body"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b'{"model":"a","model":"b"}', b'{"n":NaN}', b'{"model":"\\ud800"}', b"[" * 99],
)
def test_a_body_that_is_not_json_of_one_meaning_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        decode_body(data, Body)


@pytest.mark.parametrize("size", [10, LARGE_BYTES * 2])
async def test_a_body_of_any_size_is_read(size: int) -> None:
    request = HttpRequest()
    request._body = json.dumps({"model": "m" * size}).encode()

    assert (await read_body(request, Body)).model == "m" * size


async def test_a_large_body_is_let_go_once_it_is_read() -> None:
    request = HttpRequest()
    request._body = json.dumps({"model": "m" * LARGE_BYTES}).encode()

    await read_body(request, Body)

    assert request.body == b""


@pytest.mark.parametrize(
    "data",
    [
        b'{"model":"m","messages":[' + b"[]," * MOST_HISTORY_VALUES + b"[]]}",
        b'{"model":"m","x":[' + b'"",' * MOST_HISTORY_VALUES + b'""]}',
        b'{"model":"m","x":{' + b'"a,[{":[],' * (MOST_HISTORY_VALUES // 2) + b'"b":1}}',
        b"[" * (MOST_HISTORY_VALUES + 1),
    ],
)
def test_a_body_of_nothing_but_brackets_is_refused_before_it_fills_the_memory(data: bytes) -> None:
    with pytest.raises(ValidationFailed, match="more than 200,000 values"):
        decode_body(data, Body)


@pytest.mark.parametrize("piece", [rb"\"", b"\\\n", rb"\\"])
@pytest.mark.parametrize("end", [b"", b"\\", b'\\"'])
def test_a_text_that_never_ends_is_no_json_and_takes_no_time(piece: bytes, end: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        decode_body(b'"' + b"," * (MOST_HISTORY_VALUES + 1) + piece * 500_000 + end, Body)


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 9000])
def test_texts_end_where_they_do_however_much_is_escaped(length: int) -> None:
    text, commas = '"' * length + ",", [1] * (MOST_HISTORY_VALUES - 100)

    assert decode(messages=[{"role": "user", "content": text}], x=commas).model == "m"
    with pytest.raises(ValidationFailed, match="more than 200,000 values"):
        decode(messages=[{"role": "user", "content": text}], x=[*commas, *range(200)])


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    text = 'a, [b], {c}, \\ "d", ' * MOST_HISTORY_VALUES

    assert decode(messages=[{"role": "user", "content": text}]).messages[0].content == text
