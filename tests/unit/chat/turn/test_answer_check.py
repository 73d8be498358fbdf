"""What is known of an answer that has to fit a schema."""

import msgspec
import pytest
from msgspec import UNSET

from chat.turn.answer_check import check_answer
from sessions_app.json_schema import Fault

SCHEMA = {"type": "object", "required": ["age"]}
UNCHECKABLE = {"$ref": "https://example.com/schema.json"}


def test_an_answer_that_fits_is_parsed():
    assert check_answer('{\n "age": 7 }', SCHEMA) == (msgspec.Raw(b'{"age":7}'), ())


@pytest.mark.parametrize(
    ("text", "words"), [("{}", '"age" is a required property'), ("Seven.", "it is not JSON")]
)
def test_an_answer_that_does_not_fit_says_why(text, words):
    assert check_answer(text, SCHEMA) == (UNSET, [Fault("", words)])


def test_an_answer_that_can_not_be_checked_is_neither_parsed_nor_at_fault():
    assert check_answer("{}", UNCHECKABLE) == (UNSET, ())
