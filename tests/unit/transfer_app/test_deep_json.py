"""JSON that is nested deep is parsed without recursion, and the same as by others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transfer_app.deep_json import DEEPEST, NotJson, parse_deep

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON.filter(lambda value: value not in (float("inf"), float("-inf"))))
def test_values_are_those_of_other_parsers(value: Any) -> None:
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:  # an infinite number
        return
    assert parse_deep(text) == json.loads(text)
    assert parse_deep(json.dumps(value, indent=1)) == json.loads(text)


def test_depth_costs_no_stack() -> None:
    value = parse_deep('{"a":[' * 20_000 + "1" + "]}" * 20_000)
    for _ in range(20_000):
        (value,) = value["a"]
    assert value == 1


@pytest.mark.parametrize(
    "text",
    ["", "[", "]", "[}", '{"a"}', "{1: 2}", "[1", "[1]]", "1 2", "x", '"', '{"a": ]', "{[]: 1}"],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        parse_deep(text)


def test_what_is_too_deep_is_refused() -> None:
    with pytest.raises(NotJson, match="deeper"):
        parse_deep("[" * (DEEPEST + 1))
