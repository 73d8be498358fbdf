"""Translates vendors' error answers and lost connections to ``ModelError``s. Pure.

A connection that fails, breaks or times out is NETWORK_ERROR; an error status, a rejected request
or an invalid answer is SERVICE_UNAVAILABLE, retryable unless the request is at fault. Keys are
redacted from messages.
"""

import re
from typing import Any, Literal

from models_app.error_words import MAX_WORDS, readable
from models_app.errors import (
    ContentRefused,
    ContextOverflow,
    FilesNotSupported,
    ModelError,
    ModelNotFound,
    NetworkError,
    RateLimited,
    SchemaNotSupported,
    ServiceUnavailable,
    Unauthorized,
)
from models_app.vendors.vendor import Vendor

_SHORTEST_KEY = 8
"""A shorter one, such as ``none`` for a server that needs none, is in ordinary words too."""
_TOO_LONG = re.compile(
    r"exceeds? (?:the |its )?(?:available |maximum |model'?s? )*context (?:size|length|window)"
    r"|maximum context length|prompt is too long|input token count .* exceeds",
    re.IGNORECASE,
)
_ABOUT_FILES = re.compile(
    r"image exceeds|image dimensions|image_url is only supported|support(?:s|ed)? image input"
    r"|(?:not|n't) support (?:images|image input|vision|pdf)|unsupported (?:image|file|mime type)"
    r"|(?:process|decode|read|parse) (?:the |this )?(?:input )?(?:image|pdf|document)",
    re.IGNORECASE,
)
# The words of OpenAI, Anthropic and Google. That schemas are not taken at all is said otherwise.
_ABOUT_TOOLS = re.compile(
    r"invalid schema for function|\btools\.\d+\.(?:custom\.)?input_schema\b"
    r"|function_declarations\[\d+\]\.parameters",
    re.IGNORECASE,
)
_ABOUT_FORM = re.compile(
    r"invalid schema for response_format|\boutput_(?:config\.)?format\.schema\b"
    r"|generation_config\.response_(?:json_)?schema",
    re.IGNORECASE,
)
_LOOKS_LIKE_A_KEY = re.compile(r"\b(?:sk-|pk-|AIza|Bearer )[-_\w.*]{8,}")

Fault = Literal[
    "key", "model", "context", "content", "files", "tools", "form", "quota", "rate", "request",
    "time", "provider",
]  # fmt: skip
_FAULT_OF_STATUS: dict[int, Fault] = {
    400: "request", 401: "key", 402: "quota", 403: "key", 404: "model", 405: "request",
    408: "time", 413: "request", 415: "request", 422: "request", 429: "rate", 501: "request",
}  # fmt: skip
_ERROR_OF_FAULT: dict[Fault, type[ModelError]] = {
    "key": Unauthorized,
    "model": ModelNotFound,
    "context": ContextOverflow,
    "content": ContentRefused,
    "files": FilesNotSupported,
    "tools": SchemaNotSupported,
    "form": SchemaNotSupported,
    "quota": RateLimited,
    "rate": RateLimited,
}


def error_from_refusal(
    vendor: Vendor,
    words: str,
    *,
    model: str | None,
    status: int | None = None,
    fault: Fault | None = None,
    retry_after: float | None = None,
) -> ModelError:
    """Translate an error answer.

    Args:
        vendor: The vendor that answered.
        words: The answer's message, with keys redacted.
        model: The requested model; None for a request that names none.
        status: The HTTP status, if there was one.
        fault: The kind of error, if known better than from the status.
        retry_after: Seconds to wait before a retry, if stated.
    """
    name = vendor.name
    pause = None if retry_after is None else round(retry_after, 3)
    stated = {"provider": name, "model": model, "status": status, "retry_after": pause}
    facts: dict[str, Any] = {key: fact for key, fact in stated.items() if fact is not None}
    text = words or (f"HTTP {status}" if status else "an error without a message")
    if _TOO_LONG.search(text):
        fault = "context"
    fault = fault or _FAULT_OF_STATUS.get(status or 0, "provider")
    fault = _told_by_words(fault, text)
    if fault == "key":
        names = " or ".join(vendor.key_variables) or "a variable that holds a key with API_KEY_ENV"
        advice = f"{'Check' if vendor.key_variables else 'Name'} {names}."
        text = f"Invalid API key for '{name}': {text.rstrip('.')}. {advice}"
    elif fault == "model":
        text = f"'{name}' does not have this model, or its address is wrong: {text}"
    elif fault == "files":
        facts["field"] = "attachments"
        text = f"'{name}' does not take an image or a file: {text}"
    elif fault in ("tools", "form"):
        facts["field"] = "tools" if fault == "tools" else "response_format"
        text = f"'{name}' can't take a schema: {text}"
    elif fault == "content":
        text = f"'{name}' refused the content: {text}"
    retryable = False if fault in ("quota", "request") else None
    return _ERROR_OF_FAULT.get(fault, ServiceUnavailable)(text, retryable=retryable, **facts)


def _told_by_words(fault: Fault, text: str) -> Fault:
    """Return the part of a request that the message of its refusal names."""
    if (fault == "model" and "Item with id" in text) or (
        fault == "key" and "must be verified" in text
    ):
        return "request"  # the words of OpenAI's Responses
    if fault in ("request", "model") and _ABOUT_FILES.search(text):
        return "files"
    if fault == "request" and _ABOUT_TOOLS.search(text):
        return "tools"
    if fault == "request" and _ABOUT_FORM.search(text):
        return "form"
    return fault


def unreachable(vendor: Vendor, reason: str, *, model: str | None) -> NetworkError:
    """Return the error for a connection that could not be made."""
    return NetworkError(
        f"No connection to '{vendor.name}' at {_shown(vendor.base_url)}: {reason}",
        provider=vendor.name,
        model=model,
    )


def interrupted(vendor: Vendor, reason: str, *, model: str | None) -> NetworkError:
    """Return the error for a connection that broke or timed out."""
    return NetworkError(
        f"The connection to '{vendor.name}' broke: {reason}", provider=vendor.name, model=model
    )


def invalid_answer(vendor: Vendor, reason: str, *, model: str | None) -> ServiceUnavailable:
    """Return the error for an answer that breaks the vendor's protocol."""
    return ServiceUnavailable(
        f"The answer of '{vendor.name}' can't be read: {reason}", provider=vendor.name, model=model
    )


def redact_keys(text: str, key: str | None) -> str:
    """Return the words of an error with keys redacted, cut to 2000 characters."""
    text = readable(text)
    if key and len(key) >= _SHORTEST_KEY:
        text = text.replace(key, "***")
    return _LOOKS_LIKE_A_KEY.sub("***", text)[:MAX_WORDS]


def _shown(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
