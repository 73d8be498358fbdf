"""Events of OpenAI's Responses, and of servers that copy it, are such as the SDK reads."""

import json
from typing import Any

import pytest

from models_app.vendors.event_streams import EventReader
from models_app.vendors.response_events import ResponseEvents

ARGUMENTS = "response.function_call_arguments.delta"
TEXT = "response.output_text.delta"


def read(*data: Any) -> list[tuple[str, Any]]:
    """Return the names and the data of the events that are read for these."""
    reader = EventReader(ResponseEvents())
    texts = [each if isinstance(each, str) else json.dumps(each) for each in data]
    found = b"".join(reader.feed(f"data: {text}\n\n".encode()) for text in texts) + reader.end()
    events = [each.split("\ndata: ") for each in found.decode().split("\n\n")[:-1]]
    return [(name.removeprefix("event: "), json.loads(value)) for name, value in events]


def test_an_event_has_the_name_of_its_type() -> None:
    value = {"type": "response.created", "response": {"id": "r"}}
    assert read(value) == [("response.created", value)]


@pytest.mark.parametrize(
    ("delta", "text"), [(None, ""), (7, "7"), ({"text": "a"}, "a"), (["a", "b"], "ab")]
)
def test_a_piece_is_text(delta: Any, text: str) -> None:
    assert read({"type": TEXT, "delta": delta}) == [(TEXT, {"type": TEXT, "delta": text})]


def test_halves_of_a_character_in_arguments_are_joined() -> None:
    pieces = [{"type": ARGUMENTS, "delta": text} for text in ("a\ud83d", "\ude00b", "c")]
    assert [value["delta"] for _, value in read(*pieces)] == ["a", "\U0001f600b", "c"]


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "code": "overloaded", "message": "Later."},
        {"error": {"message": "Later.", "code": "overloaded"}},
        {"message": "Later.", "code": "overloaded"},
    ],
)
def test_an_error_of_any_form_is_one(error: Any) -> None:
    ((name, value),) = read(error)
    assert name == value["type"] == "error"
    assert (value["code"], value["message"]) == ("overloaded", "Later.")


def test_what_comes_after_the_end_is_no_error() -> None:
    end = {"type": "response.completed", "response": {"id": "r"}}
    assert [name for name, _ in read(end, {"error": {"message": "Gone."}})] == [end["type"]]


def test_an_ordinary_piece_of_text_is_read_as_it_is() -> None:
    value = {"type": TEXT, "item_id": "m", "delta": "Hello", "sequence_number": 4}
    written = f"event: {TEXT}\ndata: {json.dumps(value)}"
    assert ResponseEvents().is_ordinary(written)
    assert EventReader(ResponseEvents()).feed(f"{written}\n\n".encode()) == (
        f"{written}\n\n".encode()
    )
    assert not ResponseEvents().is_ordinary(written.replace("text.delta", "text.done"))
    assert not ResponseEvents().is_ordinary(written + "x" * 5000)
