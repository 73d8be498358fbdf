"""What is shown of arguments while they come is what the call runs with."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.call_arguments import arguments_of
from models_app.vendors.shown_arguments import ShownArguments
from sessions_app.finite_numbers import finite

objects = st.dictionaries(
    st.text('ab"{}\\\n', max_size=4),
    st.text('ab"{}[]\\\n\t', max_size=8) | st.lists(st.integers() | st.floats(), max_size=2),
    min_size=1,
    max_size=3,
)


def shown(text: str, *ends: int) -> str:
    reader = ShownArguments()
    borders = [0, *sorted(ends), len(text)]
    return "".join(reader.feed(text[a:b]) for a, b in itertools.pairwise(borders))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@given(objects, st.lists(st.integers(0, 60), max_size=6), st.booleans(), st.booleans())
def test_pieces_add_up_to_the_arguments_that_run(value, ends, is_raw, is_twice):
    text = json.dumps(value)
    written = text.replace("\\n", "\n") if is_raw and "\\\\" not in text else text
    written = written * 2 if is_twice else written

    assert json.loads(shown(written, *ends), parse_constant=refuse) == arguments_of(written)
    assert arguments_of(written) == finite(value)


@pytest.mark.parametrize("text", ["{}", ' { }{"a": 1}', '"{\\"a\\": 1}"', "null", "", "  "])
def test_what_is_repaired_when_it_is_whole_is_not_shown_before(text):
    assert shown(text, *range(len(text))) == ""


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ('{"a": NaN, "b": [-Infinity, 1e999]}', '{"a": "NaN", "b": ["-Infinity", "1e999"]}'),
        ('{"a": "NaN 1e999", "b": true, "c": -1.5e3}',) * 2,
        (f'{{"a": {"9" * 400}, "b": null}}',) * 2,
    ],
)
def test_numbers_that_json_lacks_are_text_wherever_pieces_end(text, whole):
    assert shown(text) == whole
    assert shown(text, *range(len(text))) == whole
