"""The parts of a long result that a model reads."""

import json

import pytest

from tools_app.result_parts import MOST_BYTES, MOST_MATCHES, Unreadable, part_of

LINES = [f"line {number}" for number in range(1, 10_001)]
DATA = "\n".join([*LINES, ""]).encode()


def lines(first, count, data=DATA):
    return part_of(data, {"from_line": first, "lines": count})


def found(pattern, context=0, data=DATA):
    return part_of(data, {"search": pattern, "context": context})


def test_lines_are_counted_from_one():
    assert lines(3, 2) == "line 3\nline 4\n[Lines 3 to 4 of 10,000.]"
    assert lines(9999, 200) == "line 9999\nline 10000\n[Lines 9,999 to 10,000 of 10,000.]"


def test_more_lines_than_are_answered_at_once_name_the_next():
    data = b"\n".join([b"x" * 999] * 2000)

    text = lines(1, 2000, data)

    assert len(text.encode()) <= MOST_BYTES
    assert text.endswith("[Lines 1 to 48 of 2,000. Go on with from_line 49.]")


def test_of_a_line_that_fills_the_answer_the_bytes_are_named():
    data = b"short\n" + "ä".encode() * 50_000

    text = lines(2, 1, data)

    assert len(text.encode()) <= MOST_BYTES
    assert text.startswith("ää")
    assert text.endswith("[Bytes 6 to 48,858 of 100,006.]\n[Go on with from_byte.]")


def test_bytes_never_break_a_character():
    data = "ä".encode() * 100

    assert part_of(data, {"from_byte": 1, "bytes": 4}) == "ä\n[Bytes 1 to 5 of 200.]"
    assert len(part_of(DATA, {"from_byte": 0, "bytes": MOST_BYTES}).encode()) <= MOST_BYTES


def test_a_search_numbers_its_lines():
    assert found(r"\b99\d9$") == (
        "9909: line 9909\n9919: line 9919\n9929: line 9929\n9939: line 9939\n9949: line 9949\n"
        "9959: line 9959\n9969: line 9969\n9979: line 9979\n9989: line 9989\n9999: line 9999\n"
        "[Matches: 10.]"
    )
    assert found("nowhere") == "[Nothing matches.]"


def test_lines_around_matches_are_shown_once():
    assert found("line (2|4|9)$", 1) == (
        "1- line 1\n2: line 2\n3- line 3\n4: line 4\n5- line 5\n--\n8- line 8\n9: line 9\n"
        "10- line 10\n[Matches: 3.]"
    )


def test_of_many_matches_the_first_are_shown():
    text = found("line")

    assert text.count("\n") == MOST_MATCHES
    assert text.splitlines()[-2] == "200: line 200"
    assert text.splitlines()[-1].startswith("[There are more matches: ")


def test_matches_in_a_long_line_are_shown_one_by_one_with_their_bytes():
    data = json.dumps([{"näme": f"user {n}", "fill": "x" * 300} for n in range(900)]).encode()

    *matches, last = found(r"user 77\d", data=data).splitlines()

    assert (len(matches), last) == (10, "[Matches: 10.]")
    place = int(matches[0].partition("(byte ")[2].partition(")")[0])
    assert data[place : place + 8] == b"user 770"
    assert all(len(match) < 500 for match in matches)


def test_an_answer_stays_small_whatever_matches():
    data = b"\n".join([b"y" * 999] * 2000)

    text = found("y", 10, data)

    assert len(text.encode()) <= MOST_BYTES
    assert text.splitlines()[-1].startswith("[There are more matches: ")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({"from_line": 10_001, "lines": 1}, "from_line must be at most 10000"),
        ({"from_byte": len(DATA), "bytes": 1}, f"from_byte must be less than {len(DATA)}"),
        ({"search": "(", "context": 0}, "search is not a regular expression of Python: missing )"),
    ],
)
def test_what_is_not_there_is_told(question, words):
    with pytest.raises(Unreadable, match=words.replace("(", r"\(").replace(")", r"\)")):
        part_of(DATA, question)
