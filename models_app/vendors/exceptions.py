"""Translates exceptions of pydantic-ai, the SDKs and httpx2 to ``ModelError``s.

Imported lazily, as ``history`` is.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
from pydantic_ai import exceptions as raised

from models_app.error_words import error_message
from models_app.errors import ModelError
from models_app.vendors.errors import (
    Fault,
    error_from_refusal,
    interrupted,
    invalid_answer,
    redact_keys,
    unreachable,
)
from models_app.vendors.vendor import Vendor

_CONTENT_CODES = frozenset([
    "content_filter", "content_policy_violation", "image_content_policy_violation",
    "moderation_blocked",
])  # fmt: skip
_FILE_CODES = frozenset([
    "empty_image_file", "image_file_too_large", "image_parse_error", "image_too_large",
    "image_too_small", "invalid_base64_image", "invalid_image", "invalid_image_format",
    "invalid_image_mode", "unsupported_image_media_type",
])  # fmt: skip
_FAULTS: tuple[tuple[type[raised.ModelAPIError], Fault], ...] = (
    (raised.ModelContextWindowExceededError, "context"),
    (raised.ModelAuthenticationError, "key"),
    (raised.ModelNotFoundError, "model"),
    (raised.ModelQuotaExceededError, "quota"),
    (raised.ModelRateLimitError, "rate"),
    (raised.ModelRequestRejectedError, "request"),
    (raised.ModelUnavailableError, "provider"),
    (raised.ModelServerError, "provider"),
)
# The library does not validate answers: JSON of another shape fails anywhere in it.
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, AssertionError, RecursionError)


@contextmanager
def typed_errors(vendor: Vendor, model: str, key: str | None) -> Iterator[None]:
    """Translate exceptions of pydantic-ai, the SDKs and HTTP to ``ModelError``s.

    The original is not chained: it may quote the key, and logs print chains.
    """
    try:
        yield
    except ModelError:
        raise
    except (
        raised.AgentRunError,
        raised.UserError,
        httpx2.HTTPError,
        httpx2.StreamError,
        OSError,
        *_UNREADABLE,
    ) as error:
        translated = _error_from(error, vendor, model, key)
        raise translated from None


def _error_from(error: Exception, vendor: Vendor, model: str, key: str | None) -> ModelError:
    if (ours := _ours_behind(error)) is not None:
        return ours
    words = redact_keys(
        error_message(getattr(error, "body", None)) or str(error) or type(error).__name__, key
    )
    match error:
        case raised.ModelConnectionError():
            if isinstance(error, raised.ModelTimeoutError):
                words = "it was silent for too long" if error.phase == "read" else "it timed out"
            reached = error.phase not in ("connect", "pool")
            return (interrupted if reached else unreachable)(vendor, words, model=model)
        case raised.ModelRequestTimeout() | httpx2.HTTPError() | httpx2.StreamError() | OSError():
            return interrupted(vendor, words, model=model)
        case raised.ModelAPIError() | raised.ContentFilterError() | raised.UserError():
            refusal = error_from_refusal(
                vendor,
                words,
                model=model,
                status=getattr(error, "status_code", None),
                fault=_fault_of(error),
                retry_after=getattr(error, "retry_after", None),
            )
            refusal.provider_code = _text(getattr(error, "provider_error_code", None))
            refusal.provider_field = _text(_body_of(error).get("param"))
            return refusal
        case _:
            return invalid_answer(vendor, words, model=model)


def _fault_of(error: Exception) -> Fault | None:
    if not isinstance(error, raised.ModelAPIError):
        return "content" if isinstance(error, raised.ContentFilterError) else "request"
    codes = {error.provider_error_code, error.provider_error_type}
    if codes & _CONTENT_CODES or _was_moderated(error):
        return "content"
    if codes & _FILE_CODES:
        return "files"
    return next((fault for kind, fault in _FAULTS if isinstance(error, kind)), None)


def _was_moderated(error: raised.ModelAPIError) -> bool:
    """Return whether OpenRouter's moderation flagged the input (also a 403, like a bad key)."""
    metadata = _body_of(error).get("metadata")
    return isinstance(metadata, Mapping) and ("flagged_input" in metadata or "reasons" in metadata)


def _body_of(error: Exception) -> Mapping[str, Any]:
    body = getattr(error, "body", None)
    return body if isinstance(body, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _ours_behind(error: BaseException | None) -> ModelError | None:
    """Return the error that the HTTP client raised, if an SDK has wrapped it."""
    while error is not None and not isinstance(error, ModelError):
        error = error.__cause__
    return error
