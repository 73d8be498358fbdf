"""Errors in Anthropic's format."""

import pytest

from dialects_app.messages.errors import error_answer


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("VALIDATION_ERROR", 400, "invalid_request_error"),
        ("UNAUTHENTICATED", 401, "authentication_error"),
        ("BUDGET_EXCEEDED", 402, "billing_error"),
        ("FORBIDDEN", 403, "permission_error"),
        ("MODEL_NOT_FOUND", 404, "not_found_error"),
        ("PAYLOAD_TOO_LARGE", 413, "request_too_large"),
        ("RATE_LIMITED", 429, "rate_limit_error"),
        ("SESSION_BUSY", 429, "rate_limit_error"),
        ("INTERNAL_ERROR", 500, "api_error"),
        ("OLLAMA_UNREACHABLE", 502, "api_error"),
        ("TOO_MANY_TURNS", 503, "overloaded_error"),
        ("CONTEXT_OVERFLOW", 400, "invalid_request_error"),
    ],
)
def test_an_error_has_anthropics_status_and_type(code, status, kind):
    answer = error_answer(code, "So it is.")
    assert (answer.status, answer.body["type"]) == (status, "error")
    assert answer.body["error"]["type"] == kind
    assert answer.body["error"]["mochi_code"] == code


def test_an_error_says_whether_and_when_to_try_again():
    final = error_answer("VALIDATION_ERROR", "No.", details={"field": "model"})
    busy = error_answer("SESSION_BUSY", "It is.", retryable=True)
    assert final.headers["x-should-retry"] == "false"
    assert final.body["error"]["details"] == {"field": "model", "retryable": False}
    assert (busy.headers["retry-after"], "x-should-retry" in busy.headers) == ("1", False)


def test_each_error_has_an_id_of_its_request():
    first, second = (error_answer("NOT_FOUND", "No.") for _ in range(2))
    assert first.headers["request-id"] == first.body["request_id"]
    assert first.body["request_id"] != second.body["request_id"]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "request (18019 tokens) exceeds the available context size (8192 tokens)",
            "prompt is too long: 18019 tokens > 8192 maximum. request",
        ),
        (
            "The maximum context length is 128,000 tokens; you sent 130,000.",
            "prompt is too long: 130000 tokens > 128000 maximum. The",
        ),
        (
            "maximum context length is 4096 tokens, requested 5000 (4500 in the messages)",
            "prompt is too long: 5000 tokens > 4096 maximum. maximum",
        ),
        ("It does not fit.", "prompt is too long: It does not fit."),
    ],
)
def test_a_window_that_is_too_small_is_told_in_the_words_that_clients_know(message, words):
    assert error_answer("CONTEXT_OVERFLOW", message).body["error"]["message"].startswith(words)
