import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surrogates import join_surrogates
from tools_app.text import MAX_OUTPUT_BYTES, cut, cut_middle, shortened, words_of


def test_what_fits_is_left_alone() -> None:
    assert cut("ä" * (MAX_OUTPUT_BYTES // 2)) == "ä" * (MAX_OUTPUT_BYTES // 2)
    assert cut("abcd", limit=4) == "abcd"
    assert cut_middle("abcd", limit=4) == "abcd"
    assert shortened("abcd", 4) == "abcd"


def test_what_is_missing_is_told() -> None:
    assert cut("abcde", limit=4) == "abcd\n\n[cut: 1 of 5 bytes are not shown]"


def test_of_a_long_run_the_end_is_kept() -> None:
    assert cut_middle("abcdefghij", limit=4) == ("a\n\n[cut: 6 of 10 bytes are not shown]\n\nhij")


def test_no_character_is_broken() -> None:
    assert cut("ääää", limit=5).startswith("ää\n")
    assert cut_middle("ääää", limit=5).endswith("\n\nää")


@given(st.text(), st.integers(3, 100))
def test_a_shortened_text_begins_the_same(text: str, limit: int) -> None:
    short = shortened(text, limit)

    assert len(short) <= limit
    assert (short == text) == (len(text) <= limit)
    assert text.startswith(short.removesuffix("..."))


@given(st.text(st.characters()))
def test_any_text_can_be_cut_and_written(text: str) -> None:
    for made in (
        join_surrogates(text),
        join_surrogates(cut(text, limit=8)),
        join_surrogates(cut_middle(text, limit=8)),
    ):
        made.encode()


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
