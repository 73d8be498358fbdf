"""Which of Claude's models go on with an answer that a request ends with."""

import pytest

from models_app.vendors.anthropic import Anthropic
from models_app.vendors.history import model_messages
from models_app.vendors.openai import OpenAI
from sessions_app.messages import AssistantMessage, UserMessage

NOW = "2026-11-21T10:00:00.000000+00:00"


@pytest.mark.parametrize(
    ("model", "goes_on"),
    [
        ("claude-3-5-sonnet-20241022", True),
        ("claude-3-opus-latest", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-opus-4-5-20251101", True),
        ("claude-sonnet-4-6", False),
        ("claude-opus-4-7", False),
        ("claude-opus-5", False),
        ("claude-next", False),
    ],
)
def test_models_before_4_6_go_on_with_an_answer(model: str, goes_on: bool) -> None:
    assert Anthropic().continues_answers(model) is goes_on
    assert not OpenAI().continues_answers(model)


def test_an_answer_to_go_on_with_has_no_blanks_at_its_end() -> None:
    said = [
        UserMessage(content="Hello!", message_id="u", timestamp=NOW),
        AssistantMessage(content="Half ", message_id="a", timestamp=NOW),
    ]
    *_, last = model_messages(said, Anthropic(), "claude-3-5-sonnet")
    assert [part.content for part in last.parts] == ["Half"]
