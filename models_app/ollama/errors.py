r"""Translates Ollama's error answers to ``ModelError``s. Pure.

Errors come as ``{"error": "..."}``, with a status before the first byte or as a line of the
stream after it. The text can hold JSON again (an answer of the runner behind the server):
``{"error": "{\"error\": {\"code\": 400, \"message\": ..., \"n_prompt_tokens\": 18019}}"}``.
"""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from models_app.errors import (
    ContentRefused,
    ContextOverflow,
    FilesNotSupported,
    ModelError,
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    RateLimited,
    SchemaNotSupported,
    ThinkingNotSupported,
    ToolCallUnreadable,
    ToolsNotSupported,
    Unauthorized,
)

MAX_WORDS = 2000
"""Characters of an answer that are quoted at most."""

_MAX_NESTING = 8
_RETRYABLE_STATUS = frozenset({408, 425, 499, 502, 503, 504})
_is_seconds = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII).fullmatch
# A 500 is usually about the request (an option's type, a format), unless the runner died.
_RUNNER_DIED = re.compile(
    r"unexpected EOF|runner|connection (?:reset|refused)|error parsing tool call", re.IGNORECASE
)
# The words of Ollama's parsers of calls, where a model was offered tools
# (https://github.com/ollama/ollama/issues/14834, 16383).
_UNREADABLE_CALL = re.compile(
    r"XML syntax error|failed to parse XML|expected element type <\w+> but have"
    r"|error parsing tool call|\AEOF\Z",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"exceeds? the (?:available )?(?:context (?:size|length)|maximum context)", re.IGNORECASE
)
# The words of templates' models, of its own runner, and of an image that it can't decode.
_ABOUT_IMAGES = re.compile(
    r"multimodal|image input is not supported|does not support (?:images|vision)"
    r"|image: unknown format|(?:decode|load|process) (?:the )?image",
    re.IGNORECASE,
)

_ABOUT_FORM = re.compile(r"invalid (?:JSON schema in )?format\b", re.IGNORECASE)
# A server that says more (test mode's) has its own advice.
_SAYS_NO_MORE = re.compile(r"not found(?:, try pulling it first)?$")
# The words of Go's decoder: parts of tools have to be of certain types.
_ABOUT_TOOLS = re.compile(r"^json: .*\btools\.function\b", re.IGNORECASE)


class ErrorAnswer(msgspec.Struct, frozen=True):
    """A parsed error answer.

    Attributes:
        text: The provider's message; may be empty.
        is_envelope: Whether the answer was ``{"error": ...}``, as Ollama's own errors are.
        kind: The ``type`` of a nested error, e.g. ``exceed_context_size_error``.
        n_prompt_tokens: Tokens of the request that did not fit, if stated.
        signin_url: Where to sign in to models of the cloud, if stated.
    """

    text: str
    is_envelope: bool = False
    kind: str | None = None
    n_prompt_tokens: int | None = None
    signin_url: str | None = None


def parse_error(answer: bytes | str) -> ErrorAnswer:
    """Find the message in an error answer, however deep it is nested."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return _parse_text(text.strip(), depth=0)


def parse_error_value(value: Any) -> ErrorAnswer:
    """Find the message in the value of an ``error`` key."""
    words = _parse_value(value, depth=0)
    return msgspec.structs.replace(words, is_envelope=True)


def error_from_answer(
    status: int | None, words: ErrorAnswer, *, model: str | None, retry_after: str | None = None
) -> ModelError:
    """Translate an error answer.

    Args:
        status: The HTTP status; None for an error line in a stream that began with 200.
        words: The parsed answer.
        model: The requested model, for the message.
        retry_after: The header of that name, if there was one.
    """
    text = words.text or (f"HTTP {status}" if status else "an error without a message")
    facts: dict[str, Any] = {} if status is None else {"status": status}
    if words.kind == "exceed_context_size_error" or _TOO_LONG.search(text):
        if words.n_prompt_tokens is not None:
            facts["n_prompt_tokens"] = words.n_prompt_tokens
        return ContextOverflow(text, **facts)
    refusal = _unsupported(text, facts)
    if refusal is None and words.signin_url is not None:
        refusal = Unauthorized(_with_hint(401, text, words), signin_url=words.signin_url, **facts)
    if refusal is not None:
        return refusal
    if status is None:
        # The request was accepted and answered for a while: a retry may succeed.
        return OllamaError(text, retryable=True)
    if retry_after is not None and _is_seconds(retry_after):
        facts["retry_after"] = float(retry_after)
    if status == 429:
        return RateLimited(text, **facts)
    if status == 404 and words.is_envelope:
        hint = f"; `ollama pull {model}` fetches it" if model and _SAYS_NO_MORE.search(text) else ""
        return ModelNotFound(text + hint, model=model, **facts)
    retryable = status in _RETRYABLE_STATUS or (
        status == 500 and bool(_RUNNER_DIED.search(words.text))
    )
    return OllamaError(_with_hint(status, text, words), retryable=retryable, **facts)


def unreadable_call(error: ModelError) -> ToolCallUnreadable | None:
    """Return the error for a call that the model wrote wrongly, if an error of a chat is one.

    Args:
        error: The error of a request that offered tools.
    """
    status = error.details.get("status")
    if not isinstance(error, OllamaError) or status not in (None, 500):
        return None
    if _UNREADABLE_CALL.search(error.message) is None:
        return None
    return ToolCallUnreadable(error.message, **({} if status is None else {"status": status}))


def _unsupported(text: str, facts: dict[str, Any]) -> ModelError | None:
    """Return the error for an unsupported request; None for other errors."""
    if "does not support thinking" in text:
        return ThinkingNotSupported(text, field="think", **facts)
    if "does not support tools" in text:
        return ToolsNotSupported(text, field="tools", **facts)
    if _ABOUT_IMAGES.search(text):
        return FilesNotSupported(text, field="attachments", **facts)
    if _ABOUT_FORM.search(text):
        return SchemaNotSupported(text, field="response_format", **facts)
    if _ABOUT_TOOLS.search(text):
        return SchemaNotSupported(text, field="tools", **facts)
    return None


def redirected(status: int, location: str) -> OllamaError:
    """Return the error for a redirect: following it could carry a conversation elsewhere."""
    parts = urlsplit(location)
    target = f"{parts.scheme}://{parts.hostname}" if parts.hostname else "another address"
    return OllamaError(
        f"Ollama's address answered with a redirect (HTTP {status}) to {target}, which is not "
        "followed. Set MOCHI_OLLAMA_HOST to the server's own URL.",
        retryable=False,
        status=status,
    )


def unreachable(public_host: str, reason: str) -> OllamaUnreachable:
    """Return the error for a connection that could not be made."""
    return OllamaUnreachable(
        f"Cannot connect to Ollama at {public_host}: {reason}. Start it with `ollama serve`, or "
        "set MOCHI_OLLAMA_HOST to where it is."
    )


def interrupted(reason: str) -> OllamaError:
    """Return the error for an answer without its end."""
    return OllamaError(f"Ollama's answer broke off: {reason}", retryable=True)


def timed_out(seconds: float | None) -> OllamaError:
    """Return the error for a read timeout."""
    time = "too long" if seconds is None else f"{seconds:g} seconds"
    return OllamaError(f"Ollama was silent for {time}.", retryable=True)


def invalid_answer(reason: str) -> OllamaError:
    """Return the error for an answer that breaks Ollama's protocol."""
    return OllamaError(f"Ollama's answer made no sense: {reason}", retryable=False)


def only_loaded() -> OllamaError:
    """Return the error for an answer that says no more than that the model is loaded."""
    return OllamaError(
        "Ollama only loaded the model, and gave no answer. Ask again.", retryable=True
    )


def content_refused(words: str) -> ContentRefused:
    """Return the error for an answer that a filter ended."""
    return ContentRefused(
        f"Ollama's server refused the content ({words}). Rephrase the message, or choose another "
        "model."
    )


def line_too_long(limit: int) -> OllamaError:
    """Return the error for a line over the limit."""
    return invalid_answer(f"a line is longer than {limit // 2**20} MiB.")


def reply_too_long(limit: int) -> OllamaError:
    """Return the error for a reply over the limit."""
    return invalid_answer(f"the reply is longer than {limit // 2**20} MiB.")


def _with_hint(status: int, text: str, words: ErrorAnswer) -> str:
    if status == 401 and (words.signin_url or text.rstrip(".").lower() == "unauthorized"):
        where = f", or open {words.signin_url}" if words.signin_url else ""
        return f"{text}. This model runs in Ollama's cloud: run `ollama signin`{where}."
    if status == 403 and "cloud" not in text:
        return f"{text}. Ollama refuses this host or origin: check OLLAMA_ORIGINS and OLLAMA_HOST."
    if status == 401:
        return f"{text}. Ollama's address asks for credentials: check MOCHI_OLLAMA_HOST."
    if status in {404, 405}:
        return f"{text}. Is there an Ollama server at MOCHI_OLLAMA_HOST?"
    return text


def _parse_text(text: str, depth: int) -> ErrorAnswer:
    if text.startswith("{") and depth < _MAX_NESTING:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return ErrorAnswer(text[:MAX_WORDS])
        return _parse_value(value, depth)
    if text.startswith("<"):
        from models_app.error_words import readable  # noqa: PLC0415 - rare, and starts are counted

        text = readable(text)
    return ErrorAnswer(text[:MAX_WORDS])


def _parse_value(value: Any, depth: int) -> ErrorAnswer:
    if depth > _MAX_NESTING:
        return ErrorAnswer("")
    if isinstance(value, str):
        return _parse_text(value.strip(), depth + 1)
    if not isinstance(value, dict):
        return ErrorAnswer("" if value is None else str(value)[:MAX_WORDS])
    if "error" in value:
        words = _parse_value(value["error"], depth + 1)
        url = value.get("signin_url")
        url = url if isinstance(url, str) else words.signin_url
        return ErrorAnswer(words.text, True, words.kind, words.n_prompt_tokens, url)
    message, kind, tokens = (value.get(key) for key in ("message", "type", "n_prompt_tokens"))
    return ErrorAnswer(
        str(message if message is not None else value)[:MAX_WORDS],
        kind=kind if isinstance(kind, str) else None,
        n_prompt_tokens=tokens if isinstance(tokens, int) else None,
    )
