"""The limit of a tool's output."""

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surrogates import join_surrogates
from tools_app.limits import MAX_OUTPUT_BYTES
from tools_app.output_limit import cut, cut_middle


def test_what_fits_is_left_alone() -> None:
    assert cut("ä" * (MAX_OUTPUT_BYTES // 2)) == "ä" * (MAX_OUTPUT_BYTES // 2)
    assert cut("abcd", limit=4) == "abcd"
    assert cut_middle("abcd", limit=4) == "abcd"


def test_what_is_missing_is_told() -> None:
    assert cut("abcde", limit=4) == "abcd\n\n[cut: 1 of 5 bytes are not shown]"


def test_of_a_long_run_the_end_is_kept() -> None:
    assert cut_middle("abcdefghij", limit=4) == ("a\n\n[cut: 6 of 10 bytes are not shown]\n\nhij")


def test_no_character_is_broken() -> None:
    assert cut("ääää", limit=5).startswith("ää\n")
    assert cut_middle("ääää", limit=5).endswith("\n\nää")


@given(st.text(st.characters()))
def test_any_text_can_be_cut_and_written(text: str) -> None:
    for made in (
        join_surrogates(text),
        join_surrogates(cut(text, limit=8)),
        join_surrogates(cut_middle(text, limit=8)),
    ):
        made.encode()
