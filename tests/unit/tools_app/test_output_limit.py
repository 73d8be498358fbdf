"""The limit of a tool's output."""

from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surrogates import join_surrogates
from tools_app.limits import MAX_OUTPUT_BYTES
from tools_app.output_limit import cut, cut_middle, excerpt, whole_of


def test_what_fits_is_left_alone() -> None:
    assert cut("ä" * (MAX_OUTPUT_BYTES // 2)) == "ä" * (MAX_OUTPUT_BYTES // 2)
    assert cut("abcd", limit=4) == "abcd"
    assert cut_middle("abcd", limit=4) == "abcd"


def test_what_is_missing_is_told() -> None:
    assert cut("abcde", limit=4) == "abcd\n\n[cut: 1 of 5 bytes are not shown]"


def test_of_a_long_run_the_end_is_kept() -> None:
    assert cut_middle("abcdefghij", limit=4) == ("a\n\n[cut: 6 of 10 bytes are not shown]\n\nhij")


def test_a_text_that_fits_has_no_whole_beside_it() -> None:
    assert whole_of("ä" * (MAX_OUTPUT_BYTES // 2)) == []
    [whole] = whole_of("ä" * (MAX_OUTPUT_BYTES // 2) + "b")
    assert whole.data == "ä".encode() * 32_768 + b"b"


def test_an_excerpt_has_the_beginning_the_end_and_how_to_read_on() -> None:
    data = b"".join(b"line %06d\n" % number for number in range(1, 10_001))

    text = excerpt(data, f"sha256:{'0123456789abcdef' * 4}")

    head, marker, tail, words = text.split("\n\n")
    assert (head, tail) == (data[:8192].decode(), data[-2048:].decode().removesuffix("\n"))
    assert marker == "[cut: 109,760 of 120,000 bytes are not shown]"
    assert words.strip() == (
        "[120,000 bytes in 10,000 lines were kept. Read parts with read_result "
        '{"id": "0123456789abcdef", "from_line": 1, "lines": 200} or '
        '{"id": "0123456789abcdef", "search": "regex"}.]'
    )


def test_no_character_is_broken() -> None:
    assert cut("ääää", limit=5).startswith("ää\n")
    assert cut_middle("ääää", limit=5).endswith("\n\nää")
    assert "\ufffd" not in excerpt(b"a" + "ä".encode() * 50_000, "sha256:0")


@given(st.text(st.characters()))
def test_any_text_can_be_cut_and_written(text: str) -> None:
    for made in (
        join_surrogates(text),
        join_surrogates(cut(text, limit=8)),
        join_surrogates(cut_middle(text, limit=8)),
    ):
        made.encode()
