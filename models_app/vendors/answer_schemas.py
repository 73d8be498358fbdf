"""Remembers which models reject answer schemas, and get the schema in the prompt only."""

import msgspec

from models_app.errors import ModelError, ServiceUnavailable
from models_app.expiring_cache import ExpiringCache
from models_app.language_model import ANY_OBJECT, ModelRequest, Warned

REFUSING_SECONDS = 600.0
"""Seconds for which a model counts as one that refuses; then it is tried again."""

# By what vendors and servers answer: bad request, unprocessable content, not implemented.
_REFUSALS = frozenset({400, 422, 501})


class AnswerSchemas:
    """Knows the models of one vendor that refuse schemas.

    Args:
        vendor: The vendor's name.
    """

    def __init__(self, vendor: str) -> None:
        self._vendor = vendor
        self._refusing: ExpiringCache[bool] = ExpiringCache(REFUSING_SECONDS)

    def refuses(self, model: str) -> bool:
        """Return whether a model is known to refuse schemas."""
        return self._refusing.get(model) is not None

    def note_refusal(self, model: str) -> None:
        """Remember a model that refused a schema, and answered without it."""
        self._refusing.set(model, True)

    def warning(self, model: str) -> Warned:
        """Return the warning for the caller."""
        return Warned(
            f"'{self._vendor}' takes no JSON schema for answers of {model}. It was asked for JSON "
            "in words, and its answer may not fit the schema."
        )


def sends_schema(request: ModelRequest) -> bool:
    """Return whether a request may be sent with a schema; vendors close that of any object."""
    return request.answer_schema is not None and request.answer_schema != ANY_OBJECT


def may_be_about_schema(error: ModelError) -> bool:
    """Return whether a refusal can be one of the schema; each server has words of its own."""
    is_refusal = isinstance(error, ServiceUnavailable) and not error.retryable
    return is_refusal and error.details.get("status") in _REFUSALS


def without_schema(request: ModelRequest) -> ModelRequest:
    """Return the request without an answer schema, which is then only in the prompt."""
    return msgspec.structs.replace(request, answer_schema=None)
