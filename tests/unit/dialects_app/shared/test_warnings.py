"""A header tells what could not be done; whoever wrote it can't break the answer."""

import pytest
from django.http import HttpResponse

from dialects_app.shared.warnings import MOST_CHARACTERS, WARNING_HEADER, warning_headers


def test_nothing_is_said_of_nothing() -> None:
    assert warning_headers([]) == {}


def test_sentences_are_joined() -> None:
    assert warning_headers(["One.", "Two."]) == {WARNING_HEADER: "One.; Two."}


@pytest.mark.parametrize(
    "odd", ["a\r\nset-cookie: b", "\x00\x1b[2J", "müde 😀", "x" * 5000, "\x7f"]
)
def test_a_header_is_a_line_of_printable_ascii(odd: str) -> None:
    line = warning_headers([odd])[WARNING_HEADER]

    assert line.isascii()
    assert line.isprintable()
    assert len(line) <= MOST_CHARACTERS
    assert HttpResponse(headers={WARNING_HEADER: line}).headers[WARNING_HEADER] == line
