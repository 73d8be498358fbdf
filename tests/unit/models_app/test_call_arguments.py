"""Arguments are repaired where they have one meaning; else no tool runs with them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.call_arguments import (
    INVALID_JSON,
    NESTED_TOO_DEEPLY,
    TOO_MANY_VALUES,
    arguments_of,
    fault_of,
)
from sessions_app.bounds import MOST_VALUES

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


MANY = '{"a": [' + "1," * MOST_VALUES + "1]}"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (MANY, TOO_MANY_VALUES),
        (json.dumps(MANY), TOO_MANY_VALUES),
        (f"```json\n{MANY}\n```", TOO_MANY_VALUES),
        ('{"a": ' + "[" * 100 + "]" * 100 + "}", NESTED_TOO_DEEPLY),
    ],
)
def test_a_text_of_too_many_or_too_deep_values_is_kept_as_text_and_does_not_run(raw, name):
    arguments = arguments_of(raw)

    assert arguments == {name: raw}
    assert "was not run" in (fault_of(arguments) or "")


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1] * MOST_VALUES},
        {"a": [[1] * 200] * 101},
        {str(number): 1 for number in range(MOST_VALUES + 1)},
    ],
)
def test_arguments_of_too_many_values_are_replaced_however_they_are_spread(value):
    assert [*arguments_of(value)] == [TOO_MANY_VALUES]


def test_long_arguments_of_few_values_are_taken():
    value = {"a": [1] * (MOST_VALUES - 10), "b": "," * 1_000_000}

    assert arguments_of(value) == value


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "raw",
    [
        '"' + '\\"' * 1_000_000,
        "```json" + "\n" * 1_000_000,
        "```\n" + "\n " * 1_000_000 + "``",
        "1 " * 1_000_000,
        ", " * 1_000_000,
        "," + " " * 1_000_000,
        '"' * 8_000_000,
    ],
)
def test_a_long_text_that_nothing_repairs_takes_no_time(raw):
    assert list(arguments_of(raw)) in ([INVALID_JSON], [TOO_MANY_VALUES])
