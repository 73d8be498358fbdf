"""Converts between the ollama library's values and errors and ours; keeps fields it drops."""

import re
import ssl

# private: ollama._utils.convert_function_to_tool. Price: one import. Why: functions are described
# as the library's own clients describe them.
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx
import msgspec
import ollama
from ollama import _utils as ollama_utils
from pydantic import BaseModel, ValidationError

from models_app.language_model import Think
from models_app.ollama import errors
from models_app.ollama.host import OllamaHost
from models_app.ollama.inventory import ModelDetails, Tag
from models_app.ollama.wire import chat_body, wire_messages, wire_tools
from models_app.tool_schemas import inline_references
from sessions_app.messages import (
    AssistantMessage,
    SystemMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

_MAX_CONNECTIONS = 1000
_KEPT_CONNECTIONS = 20
_MODEL_MISSING = re.compile(r"\bmodel\b.*not found", re.IGNORECASE | re.DOTALL)

ChatMessageLike = (
    Mapping[str, Any]
    | ollama.Message
    | UserMessage
    | SystemMessage
    | AssistantMessage
    | ToolMessage
)
"""A message in any accepted form: a dict, the library's value or this project's."""

ToolLike = Mapping[str, Any] | ollama.Tool | ToolSpec | Callable[..., Any]
"""A tool in any accepted form; a function is described by its signature and docstring."""


class ToolCallWithId(ollama.Message.ToolCall):
    """A tool call with the id that pairs it with its result; the library drops it."""

    id: str | None = None


class ChatMessage(ollama.Message):
    """A chat message with the ids of its tool calls."""

    tool_calls: Sequence[ToolCallWithId] | None = None
    tool_call_id: str | None = None


class ChatResponse(ollama.ChatResponse):
    """A chat answer, or one piece of it."""

    message: ChatMessage


class ShownModel(ollama.ShowResponse):
    """A model's details, with the host of one that runs in the cloud; the library drops it."""

    remote_host: str | None = None


def http_options(
    host: OllamaHost | None, silence_timeout: float, connect_timeout: float
) -> dict[str, Any]:
    """Return options for the library's clients, which default to no timeouts and a small pool."""
    return {
        "follow_redirects": False,
        "trust_env": False,
        "headers": host.headers if host is not None else {},
        "verify": _tls_context(),
        "timeout": httpx.Timeout(silence_timeout, connect=connect_timeout),
        "limits": httpx.Limits(
            max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_KEPT_CONNECTIONS
        ),
    }


@cache
def _tls_context() -> ssl.SSLContext:
    """Load the certificates once: for each client of a summary they cost more than all the rest."""
    return httpx.create_ssl_context(trust_env=False)


def library_body(
    *,
    model: str,
    messages: Sequence[ChatMessageLike],
    tools: Sequence[ToolLike] | None,
    think: Think | None,
    context_window: int | None,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the body of a streaming chat request, from values of any accepted form."""
    rest = dict(more)
    options = rest.pop("options", None)
    if isinstance(options, BaseModel):
        options = options.model_dump(exclude_none=True)
    body = chat_body(
        model=model,
        messages=[entry for message in messages for entry in _message(message)],
        tools=[_tool(tool) for tool in tools or ()],
        think=think,
        context_window=context_window,
        options=options,
    )
    return {**rest, **body}


def parse_piece(line: bytes, model: str) -> ChatResponse:
    """Parse one line of a chat answer.

    Raises:
        ModelError: It is an error line, or can't be read.
    """
    try:
        return ChatResponse.model_validate_json(line)
    except ValidationError as error:
        words = errors.parse_error(line)
        if words.is_envelope:
            raise errors.error_from_answer(None, words, model=model) from None
        raise errors.invalid_answer("a line can't be read.") from error


def join_pieces(pieces: Sequence[ChatResponse]) -> ChatResponse:
    """Join the pieces of an answer."""
    calls = [call for piece in pieces for call in piece.message.tool_calls or ()]
    message = ChatMessage(
        role="assistant",
        content="".join(piece.message.content or "" for piece in pieces),
        thinking="".join(piece.message.thinking or "" for piece in pieces) or None,
        tool_calls=calls or None,
    )
    return pieces[-1].model_copy(update={"message": message})


def tags_from(listed: ollama.ListResponse) -> list[Tag]:
    """Convert the server's list."""
    return [
        Tag(
            name=item.model,
            digest=item.digest or "",
            size=int(item.size or 0),
            modified_at=int(item.modified_at.timestamp()) if item.modified_at else None,
        )
        for item in listed.models
        if item.model
    ]


def details_from(shown: ollama.ShowResponse) -> ModelDetails:
    """Convert a model's details."""
    details = shown.details
    return ModelDetails(
        format=(details and details.format) or "",
        family=(details and details.family) or "",
        parameter_size=(details and details.parameter_size) or "",
        quantization_level=(details and details.quantization_level) or "",
        capabilities=tuple(shown.capabilities or ()),
        facts=dict(shown.modelinfo or {}),
        remote_host=shown.remote_host or None if isinstance(shown, ShownModel) else None,
    )


@contextmanager
def typed_errors(
    public_host: str,
    model: str | None = None,
    *,
    passing: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Translate exceptions of the library and of httpx to ``ModelError``s, except ``passing``."""
    try:
        yield
    except passing:
        raise
    except ollama.ResponseError as error:
        status = error.status_code if error.status_code > 0 else None
        if status is not None and 300 <= status < 400:
            raise errors.redirected(status, "") from error
        # The library has removed the envelope, so a missing model and a wrong address differ by
        # their message alone.
        words = errors.parse_error(str(error.error))
        words = msgspec.structs.replace(
            words, is_envelope=_MODEL_MISSING.search(words.text) is not None
        )
        raise errors.error_from_answer(status, words, model=model) from error
    except (ConnectionError, httpx.ConnectError) as error:
        raise errors.unreachable(public_host, "the connection failed") from error
    except httpx.ConnectTimeout as error:
        raise errors.unreachable(public_host, "the connection timed out") from error
    except httpx.TimeoutException as error:
        raise errors.timed_out(None) from error
    except httpx.HTTPError as error:
        raise errors.interrupted(f"{type(error).__name__}: {error}.") from error
    except (ValueError, TypeError, AttributeError) as error:
        # The library does not validate answers: JSON of another shape fails anywhere in it.
        raise errors.invalid_answer("it is not what Ollama sends.") from error


def _message(message: ChatMessageLike) -> list[dict[str, Any]]:
    match message:
        case Mapping():
            return [dict(message)]
        case ollama.Message():
            return [message.model_dump(exclude_none=True)]
        case _:
            return wire_messages([message])


def _tool(tool: ToolLike) -> dict[str, Any]:
    match tool:
        case ToolSpec():
            return wire_tools([tool])[0]
        case ollama.Tool():
            described = tool.model_dump(exclude_none=True)
        case Mapping():
            described = dict(tool)
        case _:
            described = ollama_utils.convert_function_to_tool(tool).model_dump(exclude_none=True)
    function = dict(described.get("function") or {})
    if isinstance(function.get("parameters"), Mapping):
        function["parameters"] = inline_references(function["parameters"])
    return {**described, "function": function}
