"""Converts errors to Ollama's format: a sentence, and a status. Pure."""

from typing import Any

from dialects_app.shared.errors import error_answer as openai_answer
from mochi_project.errors.formats import ErrorAnswer


def error_answer(code: str, message: str, **fields: Any) -> ErrorAnswer:
    """Return an error response; see ``mochi_project.errors.formats.error_answer``."""
    answer = openai_answer(code, message, **fields)
    if message.startswith("Model "):  # clients know the first words of it
        message = f"m{message[1:]}"
    return ErrorAnswer(answer.status, {"error": message}, answer.headers)
