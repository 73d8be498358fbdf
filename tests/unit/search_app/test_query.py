"""Queries: anything that a person writes is one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_app.query import Query, Term, read_query
from search_app.words import words_of

TEXTS = st.text(alphabet="ab Üü\"*-東京ß(){}:^+\\'", max_size=24)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("one two", Query((Term(("one",)), Term(("two",))))),
        ('"one two"', Query((Term(("one", "two")),))),
        ("one -two", Query((Term(("one",)),), (Term(("two",)),))),
        ('-"one two" three', Query((Term(("three",)),), (Term(("one", "two")),))),
        ("be*", Query((Term(("be",), is_prefix=True),))),
        ('"to be"*', Query((Term(("to", "be"), is_prefix=True),))),
        ("well-known", Query((Term(("well", "known")),))),
        ('"never closed', Query((Term(("never", "closed")),))),
        ("AND OR NEAR", Query((Term(("and",)), Term(("or",)), Term(("near",))))),
        ('- * "" -- ()', Query(())),
        ("-only", Query((), (Term(("only",)),))),
    ],
)
def test_queries_are_words_phrases_and_what_must_not_be_there(text: str, query: Query) -> None:
    assert read_query(text) == query


@pytest.mark.parametrize(
    ("query", "text", "is_found"),
    [
        ("uber", "Über allem", True),
        ("strasse", "die Straße", True),
        ("京タ", "東京タワー", True),
        ("東タ", "東京タワー", False),
        ('"a b"', "a c b", False),
        ("asy*", "asyncio", True),
        ("asy", "asyncio", False),
        ("one -two", "one two", False),
        ("-two", "one", False),
    ],
)
def test_a_query_matches_texts(query: str, text: str, is_found: bool) -> None:
    assert read_query(query).matches(text) is is_found


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='ascii')"
        )
        yield connection


@given(TEXTS, TEXTS)
def test_sqlite_finds_what_a_query_matches(
    database: sqlite3.Connection, written: str, text: str
) -> None:
    query = read_query(written)
    if not query.wanted:
        assert not query.matches(text)
        return
    database.execute("INSERT INTO words (words) VALUES ('delete-all')")
    database.execute("INSERT INTO words (rowid, text) VALUES (1, ?)", (" ".join(words_of(text)),))
    rows = database.execute("SELECT rowid FROM words WHERE words MATCH ?", (query.expression(),))
    assert bool(rows.fetchall()) is query.matches(text)


def test_a_query_of_many_words_is_not_too_deep_for_sqlite(database: sqlite3.Connection) -> None:
    query = read_query(" ".join(f"a{number} -b{number}" for number in range(250)))
    rows = database.execute("SELECT rowid FROM words WHERE words MATCH ?", (query.expression(),))
    assert rows.fetchall() == []


WORDS = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=20)


@given(WORDS, st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=6), st.booleans())
def test_all_places_of_a_term_are_found(words: list[str], row: list[str], is_prefix: bool) -> None:
    *before, last = row
    size = len(before)
    expected = [
        place
        for place in range(len(words) - size)
        if words[place : place + size] == before
        and (words[place + size].startswith(last) if is_prefix else words[place + size] == last)
    ]
    term = Term(tuple(row), is_prefix)
    assert list(term.places(words)) == expected
    assert term.is_in(words, frozenset(words)) is bool(expected)


@pytest.mark.timeout(30)  # took the product of both lengths: minutes for these
@pytest.mark.parametrize("end", ["", "*"])
def test_a_phrase_that_repeats_itself_is_looked_for_once(end: str) -> None:
    row = "一" * 499
    text = "一" * 700_000 + f"二{row}三"
    assert read_query(f'"{row}"{end}').matches(text)
    assert not read_query(f'"{row}二二"{end}').matches(text)
