"""Errors for clients."""

from sessions_app.errors import MOST_CHARACTERS, MochiError


def test_an_error_does_not_repeat_all_that_was_sent() -> None:
    error = MochiError("No such thing: " + "a" * 1_000_000, name="b" * 1_000_000, number=3)
    assert len(error.message) == len(error.details["name"]) == MOST_CHARACTERS + 1
    assert str(error) == error.message
    assert error.details["number"] == 3
