"""What makes two calls the same call."""

import json

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.approvals.confirmation import hash_call
from sessions_app.errors import ValidationFailed

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
arguments = st.dictionaries(text, values, max_size=4)


def turned_around(value):
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    return [turned_around(each) for each in value] if isinstance(value, list) else value


@given(arguments)
def test_the_order_of_keys_means_nothing(given_arguments):
    assert hash_call("tool", turned_around(given_arguments)) == hash_call("tool", given_arguments)


@given(arguments)
def test_a_call_that_was_written_and_read_is_the_same_call(given_arguments):
    expected = hash_call("tool", given_arguments)
    for read, write in (
        (orjson.loads, orjson.dumps),  # session files
        (msgspec.json.decode, msgspec.json.encode),  # confirmations
        (json.loads, json.dumps),
    ):
        assert hash_call("tool", read(write(given_arguments))) == expected


@given(arguments, arguments)
def test_other_arguments_make_another_call(some, others):
    same = json.dumps(some, sort_keys=True) == json.dumps(others, sort_keys=True)
    assert (hash_call("tool", some) == hash_call("tool", others)) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (0, None),
        (1, "1"),
        (0.0, -0.0),
        ("é", "e\u0301"),  # the same to the eye, two files to a file system
        ("a", "a\u200b"),
        ([], {}),
        (2**53, 2**53 + 1),
    ],
)
def test_what_a_tool_could_tell_apart_is_told_apart(one, other):
    assert hash_call("tool", {"x": one}) != hash_call("tool", {"x": other})


def test_name_and_arguments_do_not_run_into_each_other():
    assert hash_call("a", {"b": "c"}) != hash_call("ab", {"": "c"})
    assert hash_call('a",{"b":1}]', {}) != hash_call("a", {"b": 1})


def deep(levels):
    value = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", object(), {1, 2}, b"bytes", deep(100_000)]
)
def test_what_is_no_json_is_refused(value):
    with pytest.raises(ValidationFailed) as caught:
        hash_call("tool", {"x": value})
    assert caught.value.details == {"field": "arguments"}
