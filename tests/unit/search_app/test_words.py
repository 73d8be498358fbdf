"""Words: what a text is split into, whatever its script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_app.words import PIECE, words_of, written_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Straße ÜBERGRÖSSEN", ["strasse", "ubergrossen"]),
        ("u\u0308ber e\u0301te\u0301", ["uber", "ete"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("が か\u3099", ["が", "が"]),
        ("한국어", ["한", "국", "어"]),
        ("a-b foo_bar C++ don't", ["a", "b", "foo", "bar", "c", "don", "t"]),
        ("ﬁn İstanbul", ["fin", "istanbul"]),
        ("…!?", []),
    ],
)
def test_words_have_no_case_and_no_diacritics(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_long_texts_have_all_their_words() -> None:
    text = "some words and more " * PIECE
    assert words_of(text) == ["some", "words", "and", "more"] * PIECE


@given(st.text(max_size=60))
def test_a_word_is_a_word_of_itself(text: str) -> None:
    words = words_of(text)
    assert words_of(" ".join(words)) == words


@given(st.text(alphabet="aZß ü-東\u0308京1_\n", max_size=30))
def test_words_are_found_where_they_stand(text: str) -> None:
    assert [word for _, _, words in written_words(text) for word in words] == words_of(text)
    for start, end, words in written_words(text):
        assert words_of(text[start:end]) == list(words)
