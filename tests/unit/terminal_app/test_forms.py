"""What a server asks is asked on the terminal, value by value."""

from typing import Any

import pytest
from msgspec.structs import replace

from terminal_app.approvals import Approvals
from terminal_app.forms import answer_of
from tests.unit.terminal_app.test_approvals import Person, question
from tools_app.elicitation import flat_schema

SCHEMA = flat_schema(
    {
        "type": "object",
        "properties": {
            "size": {"type": "string", "enum": ["s", "l"], "default": "s", "title": "Size"},
            "count": {"type": "integer"},
            "gift": {"type": "boolean"},
            "colours": {"type": "array", "items": {"enum": ["red", "blue"]}},
        },
    }
)


def asked(**fields: Any) -> Any:
    given = {"kind": "input", "server": "shop", "message": "Which one?", "schema": SCHEMA}
    return replace(question(), **given | fields)


async def test_values_are_typed_one_after_the_other() -> None:
    person = Person("y", "l", "2", "y", "red, blue")

    content = await answer_of(asked(), person)

    assert content == {"size": "l", "count": 2, "gift": True, "colours": ["red", "blue"]}
    assert "[The server shop asks, for clean:] Which one?" in person.shown
    assert 'Size (s | l) ["s"]: ' in person.shown


async def test_nothing_is_left_to_the_default() -> None:
    assert await answer_of(asked(), Person("yes", "", "", "", "")) == {}


async def test_what_does_not_fit_is_asked_again() -> None:
    person = Person("y", "m", "", "", "", "y", "", "many", "", "", "y", "", "3", "", "")

    assert await answer_of(asked(), person) == {"count": 3}
    assert "content.size" in person.shown
    assert "content.count" in person.shown


@pytest.mark.parametrize("word", ["", "n", "never"])
async def test_any_other_word_declines(word: str) -> None:
    assert await answer_of(asked(), Person(word)) is None


@pytest.mark.parametrize(("word", "answer"), [("y", True), ("", None)])
async def test_an_address_is_shown_whole(word: str, answer: bool | None) -> None:
    url = "https://shop.example/pay?order=1&way=" + "x" * 300
    person = Person(word)

    assert await answer_of(asked(kind="url", schema=None, url=url), person) is answer
    assert url in person.shown


async def test_names_like_secrets_are_warned_of() -> None:
    person = Person("")

    await answer_of(asked(secret_names=["password"]), person)

    assert "looks like a secret, which servers must not ask for here: password" in person.shown


async def test_an_approval_of_all_calls_answers_no_server() -> None:
    person = Person()

    assert await Approvals(person, answer=True).answer(asked()) is None
    assert "[the server shop asks: declined]" in person.shown
