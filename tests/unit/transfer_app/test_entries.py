"""Exports are read entry by entry: what is broken costs itself, and never what came before."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transfer_app import entries as module
from transfer_app.entries import Entry, Problem, entries

A, B = {"a": 'x"}],[{\\'}, {"b": [1.5, None, "ü😀"]}


def cut(data: bytes, size: int = 1 << 18) -> list[Entry | Problem]:
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return list(entries(pieces, "f"))


def values(found: Sequence[Entry | Problem]) -> list[Any]:
    return [each.value for each in found if isinstance(each, Entry)]


def told(found: Sequence[Entry | Problem]) -> list[tuple[str, str]]:
    return [(each.place, each.reason) for each in found if isinstance(each, Problem)]


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([A, B]).encode(),
        json.dumps([A, B], indent=2, ensure_ascii=False).encode(),
        b"\xef\xbb\xbf" + json.dumps([A, B]).encode(),
        json.dumps({"version": 4, "history": [A, B], "folders": []}).encode(),
        json.dumps({"folders": [], "history": [A, B]}, indent=1).encode(),
        json.dumps({"folders": [], "history": [A, B]}).encode(),
        b"%s\n\n%s\n" % (json.dumps(A).encode(), json.dumps(B).encode()),
        b"%s\n%s" % (json.dumps(A, indent=2).encode(), json.dumps(B, indent=2).encode()),
    ],
    ids=["array", "indented", "marked", "history", "late history", "line", "lines", "objects"],
)
@pytest.mark.parametrize("size", [1, 3, 7, 1 << 18])
def test_whatever_holds_the_entries_they_are_found(data: bytes, size: int) -> None:
    found = cut(data, size)
    assert values(found) == [A, B]
    assert told(found) == []


@given(
    st.lists(
        st.recursive(
            st.dictionaries(st.text(max_size=4), st.text(max_size=9), max_size=3),
            lambda inner: st.dictionaries(st.text(max_size=4), st.lists(inner, max_size=2)),
            max_leaves=5,
        ),
        max_size=5,
    ),
    st.integers(1, 30),
    st.booleans(),
)
def test_any_list_of_objects_is_cut_as_it_was_put_together(
    content: list[Any], size: int, is_ascii: bool
) -> None:
    data = json.dumps(content, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert values(cut(data, size)) == content


@given(st.binary(max_size=200), st.integers(1, 50))
def test_no_bytes_raise(data: bytes, size: int) -> None:
    for begin in (b"", b"[", b"{", b'[{"a":"', b'{"history":['):
        cut(begin + data, size)


@pytest.mark.parametrize("end", range(1, len(json.dumps([A, B]))))
def test_a_truncated_file_gives_what_came_before(end: int) -> None:
    data = json.dumps([A, B]).encode()
    found = cut(data[:end], 5)
    assert values(found) == [A, B][: len(values(found))]
    assert told(found)[-1][1] == "the file ends in the middle of it"
    assert (A in values(found)) == (end >= len(json.dumps([A])) - 1)


def test_a_broken_entry_is_passed_over() -> None:
    found = cut(b'[{"a": 1}, {"a" 2}, {"a": "\xff"}, 5, "x", {"a": 3}]')
    assert values(found) == [{"a": 1}, {"a": 3}]
    places = [place for place, _ in told(found)]
    assert places == ["f, entry 2", "f, entry 3", "f, entry 4"]
    assert "not JSON" in told(found)[0][1]
    assert told(found)[1][1] == "it is not in UTF-8"
    assert told(found)[2][1] == "it is neither an object nor a list"


def test_a_broken_line_is_passed_over() -> None:
    found = cut(b'{"a": 1}\n{"a": \n{"a": 3}\n{"a')
    assert values(found) == [{"a": 1}, {"a": 3}]
    assert [place for place, _ in told(found)] == ["f, line 2", "f, line 4"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (json.dumps([A]).encode("utf-16"), "UTF-16"),
        (json.dumps([A]).encode("utf-16-le"), "UTF-16"),
        (json.dumps([A]).encode("utf-32"), "UTF-16 or UTF-32"),
        (b"<!DOCTYPE html>", "not JSON"),
        ('[{"a": "ü"}]'.encode("latin-1"), "not in UTF-8"),
    ],
)
def test_what_is_no_json_in_utf_8_is_said(data: bytes, reason: str) -> None:
    found = cut(data)
    assert values(found) == []
    assert reason in told(found)[0][1]


def test_half_a_character_costs_that_character() -> None:
    assert values(cut(rb'[{"a": "x\ud83dy"}]')) == [{"a": "x\ufffdy"}]


def test_an_entry_that_is_too_large_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRY_BYTES", 100)
    large = {"a": "x" * 200}
    found = cut(json.dumps([A, large, B]).encode(), 30)
    assert values(found) == [A, B]
    assert [place for place, _ in told(found)] == ["f, entry 2"]
    found = cut(b"\n".join(json.dumps(each).encode() for each in (A, large, B)), 30)
    assert values(found) == [A, B]
    assert [place for place, _ in told(found)] == ["f, line 2"]


def test_an_entry_of_too_many_values_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRY_PARTS", 50)
    found = cut(b'[{"a": [%s0]}, {"a": 1}]' % (b"0," * 60))
    assert values(found) == [{"a": 1}]
    assert "more than 50 values" in told(found)[0][1]


@pytest.mark.parametrize("depth", [10_000, 200_000])
def test_deep_nesting_costs_no_more_than_the_entry(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    found = cut(b"[" + deep + b', {"b": 2}, ' + b"[" * depth + b"]" * depth + b"]")
    assert {"b": 2} in values(found)
    assert len(found) == 3


def test_no_more_than_one_entry_is_in_memory() -> None:
    entry = msgspec.json.encode({"text": "x" * 500_000})
    read = 0

    def pieces() -> Iterator[bytes]:
        nonlocal read
        yield b"["
        for _ in range(40):
            read += 1
            yield entry + b","
        yield entry + b"]"

    arriving = entries(pieces(), "f")
    next(arriving)
    assert read <= 2
    assert sum(1 for _ in arriving) == 40


def test_many_small_entries_are_cut_in_one_pass() -> None:
    data = b"[" + b",".join([b'{"a":[1,2]}'] * 50_000) + b"]"
    chance = random.Random(5)
    found = cut(data, chance.randrange(1 << 16, 1 << 18))
    assert len(found) == 50_000
    assert found[-1].place == "f, entry 50000"


@pytest.mark.parametrize(
    "text",
    [
        '{"conversations": [{"a": 1}, {"a": 2}]}',
        '{"version": 4, "user": "x", "data": [{"a": 1}, {"a": 2}]}',
        '{\n "chats": [{"a": 1},\n {"a": 2}], "folders": []}',
        '{"folders": [], "items": [{"a": 1}, {"a": 2}]}',
    ],
)
def test_conversations_in_an_object_around_them_are_found(text: str) -> None:
    found = list(entries([text.encode()], "f"))
    assert [each.value for each in found if isinstance(each, Entry)] == [{"a": 1}, {"a": 2}]
    assert len(found) == 2


def test_a_conversation_is_not_an_object_around_others() -> None:
    value = {"id": "x", "data": [{"a": 1}], "mapping": {}}
    (found,) = entries([json.dumps({"mapping": {}, **value}, indent=1).encode()], "f")
    assert isinstance(found, Entry)
    assert found.value == value
