r"""What Ollama's error answers mean. Pure.

Errors come as ``{"error": "..."}``, with a status before the first byte or as a line of the
stream after it. The text can hold JSON again (an answer of the runner behind the server):
``{"error": "{\"error\": {\"code\": 400, \"message\": ..., \"n_prompt_tokens\": 18019}}"}``.
"""

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from models_app.errors import (
    ContextOverflow,
    ModelError,
    ModelNotFound,
    OllamaError,
    OllamaUnreachable,
    ThinkingNotSupported,
    ToolsNotSupported,
)

MAX_WORDS = 2000
"""Characters of an answer that are quoted at most."""

_MAX_NESTING = 8
_RETRYABLE_STATUS = frozenset({408, 425, 429, 499, 502, 503, 504})
# A 500 is usually about the request (an option's type, a format), unless the runner died.
_RUNNER_DIED = re.compile(r"unexpected EOF|runner|connection (?:reset|refused)", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"exceeds? the (?:available )?(?:context (?:size|length)|maximum context)", re.IGNORECASE
)


class ProviderWords(msgspec.Struct, frozen=True):
    """An error answer, unwrapped.

    Attributes:
        text: What the provider said, in its own words; may be empty.
        is_envelope: Whether it came as ``{"error": ...}``, as Ollama's own errors do.
        kind: The ``type`` of a nested error, e.g. ``exceed_context_size_error``.
        n_prompt_tokens: Tokens of the request that did not fit, where said.
    """

    text: str
    is_envelope: bool = False
    kind: str | None = None
    n_prompt_tokens: int | None = None


def unwrap(answer: bytes | str) -> ProviderWords:
    """Find the provider's own words in an error answer, however deep they are nested."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return _unwrap_text(text.strip(), depth=0)


def unwrap_value(value: Any) -> ProviderWords:
    """Find the provider's own words in the value of an ``error`` key."""
    words = _unwrap_value(value, depth=0)
    return ProviderWords(words.text, True, words.kind, words.n_prompt_tokens)


def error_of_answer(status: int | None, words: ProviderWords, *, model: str | None) -> ModelError:
    """Return the error that an error answer stands for.

    Args:
        status: The HTTP status; None for an error line in a stream that began with 200.
        words: The answer's text, unwrapped.
        model: The model that was asked, for the message.
    """
    text = words.text or (f"HTTP {status}" if status else "an error without a message")
    facts: dict[str, Any] = {} if status is None else {"status": status}
    if words.kind == "exceed_context_size_error" or _TOO_LONG.search(text):
        if words.n_prompt_tokens is not None:
            facts["n_prompt_tokens"] = words.n_prompt_tokens
        return ContextOverflow(text, **facts)
    if "does not support thinking" in text:
        return ThinkingNotSupported(text, field="think", **facts)
    if "does not support tools" in text:
        return ToolsNotSupported(text, field="tools", **facts)
    if status is None:
        # The request was accepted and answered for a while: the next try may get to the end.
        return OllamaError(text, retryable=True)
    if status == 404 and words.is_envelope:
        hint = f"; `ollama pull {model}` fetches it" if model else ""
        return ModelNotFound(text + hint, model=model, **facts)
    retryable = status in _RETRYABLE_STATUS or (
        status == 500 and bool(_RUNNER_DIED.search(words.text))
    )
    return OllamaError(_with_hint(status, text), retryable=retryable, **facts)


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


def broke_off(reason: str) -> OllamaError:
    """Return the error for an answer whose end never came."""
    return OllamaError(f"Ollama's answer broke off: {reason}", retryable=True)


def silent(seconds: float | None) -> OllamaError:
    """Return the error for a server that has said nothing for too long."""
    time = "too long" if seconds is None else f"{seconds:g} seconds"
    return OllamaError(f"Ollama was silent for {time}.", retryable=True)


def made_no_sense(reason: str) -> OllamaError:
    """Return the error for an answer that is not Ollama's protocol."""
    return OllamaError(f"Ollama's answer made no sense: {reason}", retryable=False)


def line_too_long(limit: int) -> OllamaError:
    """Return the error for a line that is no model's answer any more."""
    return made_no_sense(f"a line is longer than {limit // 2**20} MiB.")


def reply_too_long(limit: int) -> OllamaError:
    """Return the error for a reply that goes on and on."""
    return made_no_sense(f"the reply is longer than {limit // 2**20} MiB.")


def _with_hint(status: int, text: str) -> str:
    if status == 403:
        return f"{text}. Ollama refuses this host or origin: check OLLAMA_ORIGINS and OLLAMA_HOST."
    if status == 401:
        return f"{text}. Ollama's address asks for credentials: check MOCHI_OLLAMA_HOST."
    if status in {404, 405}:
        return f"{text}. Is there an Ollama server at MOCHI_OLLAMA_HOST?"
    return text


def _unwrap_text(text: str, depth: int) -> ProviderWords:
    if text.startswith("{") and depth < _MAX_NESTING:
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return ProviderWords(text[:MAX_WORDS])
        return _unwrap_value(value, depth)
    return ProviderWords(text[:MAX_WORDS])


def _unwrap_value(value: Any, depth: int) -> ProviderWords:
    if depth > _MAX_NESTING:
        return ProviderWords("")
    if isinstance(value, str):
        return _unwrap_text(value.strip(), depth + 1)
    if not isinstance(value, dict):
        return ProviderWords("" if value is None else str(value)[:MAX_WORDS])
    if "error" in value:
        words = _unwrap_value(value["error"], depth + 1)
        return ProviderWords(words.text, True, words.kind, words.n_prompt_tokens)
    message, kind, tokens = (value.get(key) for key in ("message", "type", "n_prompt_tokens"))
    return ProviderWords(
        str(message if message is not None else value)[:MAX_WORDS],
        kind=kind if isinstance(kind, str) else None,
        n_prompt_tokens=tokens if isinstance(tokens, int) else None,
    )
