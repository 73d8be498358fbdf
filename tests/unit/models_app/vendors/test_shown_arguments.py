"""What is shown of arguments while they come is what the call runs with."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models_app.call_arguments import arguments_of
from models_app.vendors.shown_arguments import ShownArguments

objects = st.dictionaries(
    st.text('ab"{}\\\n', max_size=4),
    st.text('ab"{}[]\\\n\t', max_size=8) | st.lists(st.integers(), max_size=2),
    min_size=1,
    max_size=3,
)


def shown(text: str, *ends: int) -> str:
    reader = ShownArguments()
    borders = [0, *sorted(ends), len(text)]
    return "".join(reader.feed(text[a:b]) for a, b in itertools.pairwise(borders))


@given(objects, st.lists(st.integers(0, 60), max_size=6), st.booleans(), st.booleans())
def test_pieces_add_up_to_the_arguments_that_run(value, ends, is_raw, is_twice):
    text = json.dumps(value)
    written = text.replace("\\n", "\n") if is_raw and "\\\\" not in text else text
    written = written * 2 if is_twice else written

    assert json.loads(shown(written, *ends)) == arguments_of(written) == value


@pytest.mark.parametrize("text", ["{}", ' { }{"a": 1}', '"{\\"a\\": 1}"', "null", "", "  "])
def test_what_is_repaired_when_it_is_whole_is_not_shown_before(text):
    assert shown(text, *range(len(text))) == ""
