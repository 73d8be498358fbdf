"""Errors below ``/v1`` have OpenAI's shape, and ours beside it."""

import pytest

from dialects_app.shared.errors import error_answer, error_object
from mochi_project.errors.statuses import statuses


def test_an_error_has_the_four_fields_of_openai_and_ours() -> None:
    answer = error_answer(
        "VALIDATION_ERROR", "Say something.", details={"field": "messages[2].content"}
    )

    assert answer.status == 400
    assert answer.body == {
        "error": {
            "message": "Say something.",
            "type": "invalid_request_error",
            "param": "messages[2].content",
            "code": "invalid_value",
            "mochi_code": "VALIDATION_ERROR",
            "details": {"field": "messages[2].content", "retryable": False},
        }
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (409, "invalid_request_error"),
        (413, "invalid_request_error"),
        (415, "invalid_request_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (502, "server_error"),
        (507, "server_error"),
    ],
)
def test_the_type_follows_from_the_status(status: int, kind: str) -> None:
    assert error_object("SOMETHING", "?", status=status)["type"] == kind


@pytest.mark.parametrize("code", sorted(statuses()))
def test_no_error_is_answered_with_422(code: str) -> None:
    assert error_answer(code, "?").status == (
        {"RATE_LIMITED": 429, "BUDGET_EXCEEDED": 429, "CONTEXT_OVERFLOW": 400}.get(code)
        or {422: 400}.get(statuses()[code], statuses()[code])
    )


@pytest.mark.parametrize("code", ["MODEL_NOT_FOUND", "PROFILE_NOT_FOUND", "AGENT_NOT_FOUND"])
def test_an_unknown_model_of_any_kind_is_a_model_that_was_not_found(code: str) -> None:
    answer = error_answer(code, "?")

    assert answer.status == 404
    assert answer.body["error"]["code"] == "model_not_found"
    assert answer.body["error"]["param"] == "model"
    assert answer.body["error"]["mochi_code"] == code


def test_a_budget_that_is_used_up_is_a_quota_and_is_not_asked_again() -> None:
    answer = error_answer("BUDGET_EXCEEDED", "Used up.", details={"limit": "5"})

    assert (answer.status, answer.headers) == (429, {"x-should-retry": "false"})
    assert answer.body["error"] | {"message": "", "param": None} == {
        "message": "",
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
        "mochi_code": "BUDGET_EXCEEDED",
        "details": {"limit": "5", "retryable": False},
    }


def test_a_request_that_is_too_long_is_at_fault_itself() -> None:
    answer = error_answer("CONTEXT_OVERFLOW", "Too long.", status=502)

    assert (answer.status, answer.headers) == (400, {"x-should-retry": "false"})
    assert answer.body["error"] == {
        "message": "Your input exceeds the context window of this model "
        "(context_length_exceeded). Too long.",
        "type": "invalid_request_error",
        "param": None,
        "code": "context_length_exceeded",
        "mochi_code": "CONTEXT_OVERFLOW",
        "details": {"retryable": False},
    }


def test_a_code_that_openai_does_not_have_is_ours_in_lower_case() -> None:
    assert error_object("SESSION_BUSY", "?")["code"] == "session_busy"


@pytest.mark.parametrize("code", ["UNAUTHORIZED", "CONTENT_REFUSED", "CONTEXT_OVERFLOW"])
def test_an_error_that_would_come_again_tells_clients_not_to_repeat(code: str) -> None:
    assert error_answer(code, "?").headers == {"x-should-retry": "false"}


def test_a_busy_session_says_when_to_repeat() -> None:
    answer = error_answer("SESSION_BUSY", "?", retryable=True)

    assert (answer.status, answer.headers) == (409, {"retry-after": "1"})


def test_the_pause_that_a_provider_asks_for_is_passed_on() -> None:
    answer = error_answer("RATE_LIMITED", "?", retryable=True, details={"retry_after": 2.2})

    assert (answer.status, answer.headers) == (429, {"retry-after": "3"})
    assert answer.body["error"]["code"] == "rate_limit_exceeded"


def test_a_used_up_quota_is_not_asked_again() -> None:
    answer = error_answer("RATE_LIMITED", "?")

    assert answer.body["error"]["code"] == "insufficient_quota"
    assert answer.headers == {"x-should-retry": "false"}
