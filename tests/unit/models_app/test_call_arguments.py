"""Arguments are repaired where they have one meaning; else no tool runs with them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.call_arguments import INVALID_JSON, arguments_of, fault_of

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
objects = st.dictionaries(st.text(), json_values, min_size=1, max_size=4)


@given(objects, st.sampled_from(["", " ", "\n"]))
def test_whatever_way_an_object_is_written_it_is_that_object(value, space):
    text = json.dumps(value)

    for written in (
        text,
        f"{{}}{space}{text}",
        f"{text}{space}{text}",
        f"{text}{space}{{}}",
        f"null{text}",
        json.dumps(text),
        f"```json\n{text}\n```",
        text[:-1] + ",}",
    ):
        assert arguments_of(written) == value


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", {}),
        (" ", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ("{}{}", {}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": [1, 2,], "b": ",]",}', {"a": [1, 2], "b": ",]"}),
        ('{"a": NaN, "b": [-Infinity, 1e999]}', {"a": "NaN", "b": ["-Infinity", "1e999"]}),
        ({"a": math.nan, "b": [math.inf]}, {"a": "NaN", "b": ["Infinity"]}),
    ],
)
def test_what_has_one_meaning_is_repaired(raw, expected):
    assert arguments_of(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1',
        '{"a": 1}{"a": 2}',
        '{"a": 1} and more',
        "[1]",
        "5",
        "noon",
        '"noon"',
        "{'a': 1}",
        '{"a": tru}',
        "true",
    ],
)
def test_what_has_several_meanings_or_none_is_kept_as_text_and_does_not_run(raw):
    arguments = arguments_of(raw)

    assert arguments == {INVALID_JSON: raw}
    assert "one JSON object" in (fault_of(arguments) or "")


@given(st.text())
def test_no_text_breaks_the_reading(text):
    arguments_of(text)


def test_very_long_numbers_and_deep_nesting_are_kept_as_text():
    assert list(arguments_of('{"a": ' + "9" * 5000 + "}")) == [INVALID_JSON]
    assert fault_of(arguments_of("[" * 100_000)) is not None
