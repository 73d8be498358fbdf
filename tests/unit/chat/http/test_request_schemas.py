"""Bodies of the chat routes, as they are validated."""

from typing import Any

import pytest
from pydantic import ValidationError

from chat.http.request_schemas import ChatIn
from sessions_app.errors import ValidationFailed


@pytest.mark.parametrize("think", ["very", 1, 0, "", ["low"], {"level": "low"}])
def test_what_think_can_not_be_is_said_once_and_of_the_field(think: Any) -> None:
    with pytest.raises(ValidationError) as raised:
        ChatIn.model_validate({"message": "Hello", "think": think})

    [error] = raised.value.errors()
    assert error["loc"] == ("think",)
    assert "true, false or one of minimal, low, medium, high, xhigh, max" in error["msg"]


def test_null_is_the_same_as_a_field_that_was_left_out() -> None:
    given = dict.fromkeys(["attachments", "think", "selected_tools", "detached"])

    assert ChatIn.model_validate({"message": "Hello", **given}) == ChatIn(message="Hello")


def test_a_blank_message_needs_an_attachment_and_null_is_none() -> None:
    with pytest.raises(ValidationFailed):
        ChatIn.model_validate({"message": " ", "attachments": None})


@pytest.mark.parametrize("think", [True, False, None, "low", "medium", "high"])
def test_what_think_can_be_stays_what_it_is(think: Any) -> None:
    assert ChatIn.model_validate({"think": think}).think is think
