"""Errors in Ollama's format."""

import pytest

from dialects_app.ollama.errors import error_answer


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("VALIDATION_ERROR", 400),
        ("UNAUTHENTICATED", 401),
        ("FORBIDDEN", 403),
        ("SESSION_BUSY", 409),
        ("RATE_LIMITED", 429),
        ("OLLAMA_UNREACHABLE", 502),
    ],
)
def test_an_error_is_a_sentence_and_a_status(code: str, status: int) -> None:
    answer = error_answer(code, "It is so.")
    assert (answer.status, answer.body) == (status, {"error": "It is so."})


def test_a_missing_model_is_told_in_the_words_that_clients_know() -> None:
    answer = error_answer("MODEL_NOT_FOUND", "Model 'x' not found.", details={"model": "x"})
    assert (answer.status, answer.body) == (404, {"error": "model 'x' not found."})


def test_a_sentence_about_names_of_models_is_left_as_it_is() -> None:
    answer = error_answer("MODEL_NOT_FOUND", "A model's name can't be empty.")
    assert answer.body == {"error": "A model's name can't be empty."}


def test_the_time_to_wait_is_in_a_header() -> None:
    assert error_answer("SHUTTING_DOWN", "Bye.", retryable=True).headers["retry-after"].isdigit()
