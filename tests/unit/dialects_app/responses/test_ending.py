"""How a response that failed tells clients whether to repeat its request."""

import pytest

from chat.stream.events import Failed
from dialects_app.responses.ending import ending_of, is_repeated_by_codex
from models_app.errors import (
    ContextOverflow,
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    RateLimited,
)
from usage_app.budgets.errors import BudgetExceeded


@pytest.mark.parametrize(
    ("code", "retryable", "told"),
    [
        ("CONTEXT_OVERFLOW", False, "context_length_exceeded"),
        ("BUDGET_EXCEEDED", False, "insufficient_quota"),
        ("RATE_LIMITED", False, "insufficient_quota"),
        ("RATE_LIMITED", True, "rate_limit_exceeded"),
        ("OLLAMA_UNREACHABLE", True, "invalid_prompt"),
        ("OLLAMA_ERROR", True, "server_error"),
        ("OLLAMA_ERROR", False, "invalid_prompt"),
        ("TURN_LIMIT_REACHED", False, "invalid_prompt"),
    ],
)
def test_the_code_says_whether_a_retry_may_help(code, retryable, told):
    failure = Failed(code=code, message="It broke.", details={"retryable": retryable})
    assert ending_of(failure).error == {"code": told, "message": "It broke.", "mochi_code": code}


def test_an_end_of_which_nothing_is_known_may_be_repeated():
    assert ending_of(Failed(code="", message="", details={})).error == {
        "code": "server_error",
        "message": "The response broke off.",
    }


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [
        (ContextOverflow("Too long."), True),
        (OllamaError("Wrong."), True),
        (OllamaUnreachable("Nobody."), True),
        (ModelNotFound("Which?"), False),
        (RateLimited("Slow down."), False),
        (BudgetExceeded("Used up."), False),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_codex_is_told_in_the_stream_what_it_would_repeat(error, is_repeated):
    assert is_repeated_by_codex(error) == is_repeated
