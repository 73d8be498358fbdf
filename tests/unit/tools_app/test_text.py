import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.text import shortened, text_of, words_of


@given(st.text(), st.integers(3, 100))
def test_a_shortened_text_begins_the_same(text: str, limit: int) -> None:
    short = shortened(text, limit)

    assert len(short) <= limit
    assert (short == text) == (len(text) <= limit)
    assert text.startswith(short.removesuffix("..."))


class Mute(Exception):
    """An exception that can't be shown."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (Mute(), "Mute (whose text can't be shown: RuntimeError)"),
    ],
)
def test_exceptions_are_told(error: Exception, said: str) -> None:
    assert words_of(error) == said


def test_results_have_numbers_that_json_lacks_as_text() -> None:
    assert text_of({"n": [float("nan"), float("-inf"), 1.5]}) == '{"n":["NaN","-Infinity",1.5]}'
