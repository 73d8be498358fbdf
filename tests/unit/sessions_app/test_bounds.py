"""How many values a JSON text has, without parsing it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.bounds import has_too_many_values

JSON = st.recursive(
    st.none() | st.integers() | st.text('a,[{"\\\n', max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a,[{"\\', max_size=5), inner),
    max_leaves=30,
)


def structure(value: Any) -> int:
    """Return the commas and the opening brackets of a value's JSON."""
    if not isinstance(value, list | dict):
        return 0
    items = value.values() if isinstance(value, dict) else value
    return 1 + max(len(value) - 1, 0) + sum(structure(item) for item in items)


@pytest.mark.hypothesis
@given(JSON, st.integers(min_value=0, max_value=20))
def test_values_are_counted_and_what_is_in_texts_is_none(value: Any, most: int) -> None:
    text = json.dumps(value).encode()
    assert has_too_many_values(text, most) is (structure(value) > most)


@pytest.mark.hypothesis
@given(st.binary())
def test_what_is_no_json_is_counted_too(data: bytes) -> None:
    has_too_many_values(data, 3)


@pytest.mark.parametrize("filler", [b'""', b'"', b'"," ', b'"\\""'])
def test_texts_that_no_json_has_so_many_of_are_not_looked_at_to_the_end(filler: bytes) -> None:
    assert has_too_many_values(b'"' + b"," * 30 + b'"' + filler * 1000, 20)
