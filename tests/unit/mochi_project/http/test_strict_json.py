import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mochi_project.http.strict_json import MAX_NESTING, MalformedBodyError, parse_json

pytestmark = pytest.mark.conformance

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_every_json_value_is_read_as_it_was_written(value: Any, ascii_only: bool) -> None:
    assert parse_json(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_either_read_or_refused_with_a_sentence(data: bytes) -> None:
    refusal = None
    try:
        parse_json(data)
    except MalformedBodyError as error:
        refusal = error
    assert refusal is None or refusal.message.startswith("The body ")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": 1e999}', "too large: 1e999"),
        (b'{"a": -1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'{"x": [{"a": 1, "b": 2, "a": 1}]}', "the key 'a' twice"),
        (b'{"\\ud800": 1, "\\ud800": 2}', r"the key '\ud800' twice"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"a": "\\uDFFF tail"}', "surrogate"),
        (b'{"\\udc00\\ud800": 1}', "surrogate"),
        (b'{"a": "\xff"}', "not UTF-8 (byte 7)"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": 1', "line 1, column 8"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": 1} {"b": 2}', "Extra data"),
        (b'{"a": "line\nbreak"}', "control character"),
        (b"   ", "not JSON"),
        (b"[" * 10_000, "nested deeper"),
        (b"[" * 10_000 + b"]" * 10_000, "nested deeper"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested deeper than 64"),
    ],
)
def test_what_is_ambiguous_or_absurd_is_refused_saying_what(body: bytes, says: str) -> None:
    with pytest.raises(MalformedBodyError) as caught:
        parse_json(body)
    assert says in caught.value.message
    assert len(caught.value.message) < 300


def test_nesting_is_measured_not_guessed_from_the_number_of_brackets() -> None:
    deepest = b"[" * MAX_NESTING + b"]" * MAX_NESTING
    assert parse_json(deepest)
    assert parse_json(b'{"code": "' + b"{[" * 5000 + b'"}')
    assert parse_json(b"[" + b"{}," * 5000 + b"{}]")


def test_escaped_pairs_and_escaped_backslashes_are_no_lone_surrogates() -> None:
    assert parse_json(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"
    assert parse_json(rb'"\\ud800"') == r"\ud800"
