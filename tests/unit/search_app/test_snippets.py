"""Snippets: text around what was found, and which part of it that is."""

from hypothesis import given
from hypothesis import strategies as st

from search_app.entries import Entry, FoundRole
from search_app.query import read_query
from search_app.snippets import BEFORE, LENGTH, score, snippet


def marked(text: str, query: str) -> str:
    pieces = snippet(text, read_query(query))
    return "".join(f"[{piece.text}]" if piece.match else piece.text for piece in pieces)


def test_what_was_found_is_marked() -> None:
    assert marked("Die Straße nach Köln", "strasse koln") == "Die [Straße] nach [Köln]"
    assert marked("東京タワーへ", "京タ") == "東[京タ]ワーへ"
    assert marked("to be or not to be", '"not to"') == "to be or [not to] be"
    assert marked("asyncio, async", "asy*") == "[asyncio], [async]"
    assert marked("<mark>a</mark>\n\n  b", "b") == "<mark>a</mark> [b]"


def test_long_texts_are_cut_around_the_first_place() -> None:
    shown = marked("many words " * 5000 + "needle " + "and more " * 5000, "needle")
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert "[needle]" in shown
    assert len(shown) <= LENGTH + 10
    assert shown.index("[needle]") <= BEFORE + 2


def test_what_is_not_found_again_shows_the_beginning() -> None:
    assert marked("one two", "three") == "one two"
    assert marked("", "three") == ""


@given(st.text(alphabet='aÜ ß東\n"b-', max_size=300), st.text(alphabet='aÜ ß東"b*-', max_size=9))
def test_a_snippet_is_the_text_itself(text: str, query: str) -> None:
    shown = "".join(piece.text for piece in snippet(text, read_query(query)))
    assert " ".join(shown.strip("… ").split()) in " ".join(text.split())


def entry(text: str, role: FoundRole = "user") -> Entry:
    return Entry(
        place=0, message_index=0, message_id="", role=role, model="", timestamp="", text=text
    )


def test_scores_tell_what_fits_better() -> None:
    query = read_query("one")
    assert score(entry("one one"), query) > score(entry("one two"), query)
    assert score(entry("one", "title"), query) > score(entry("one"), query)
    assert score(entry("one", "tool"), query) < score(entry("one"), query)
    assert score(entry("one " + "two " * 500), query) < score(entry("one two"), query)
