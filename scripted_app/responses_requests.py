"""Reads and checks requests of OpenAI's Responses API, as strictly as the service does."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripted_app.openai_wire import any_model, check_effort
from scripted_app.received_files import with_files
from scripted_app.replies import RequestMessage, estimate_tokens
from scripted_app.wire import ChatRequest, Refused, check_length

SMALLEST_CACHED = 1024
CACHE_STEP = 128
# The fields of https://platform.openai.com/docs/api-reference/responses/create
_PARAMETERS = frozenset(
    """access_programs background background_options context_management conversation image
    include input instructions max_output_tokens max_tool_calls metadata model moderation
    parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options
    prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
    temperature text tool_choice tools top_logprobs top_p truncation user""".split()  # noqa: SIM905 - a list of words reads better as words
)
_ID_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
_ANSWERS = ("message", "function_call")


class ResponsesRequest(ChatRequest, frozen=True, kw_only=True):
    """A request of the Responses API.

    Attributes:
        summarizes: Whether the summary of its reasoning is shown.
        encrypts: Whether its reasoning is handed out encrypted.
    """

    summarizes: bool
    encrypts: bool

    @property
    def cached_tokens(self) -> int:
        """The tokens of the previous request, if they are enough to be cached."""
        roles = [said.role for said in self.messages]
        answered = max((at for at, role in enumerate(roles) if role == "assistant"), default=0)
        tokens = estimate_tokens(sum(len(said.text) for said in self.messages[:answered]))
        return tokens - tokens % CACHE_STEP if tokens >= SMALLEST_CACHED else 0


def read_chat(body: Mapping[str, Any]) -> ResponsesRequest:
    """Check a body of ``POST /v1/responses``.

    Raises:
        Refused: With an HTTP status.
    """
    name = body.get("model")
    card = any_model(name)
    name = card.name if name is None else name
    for parameter in body:
        if parameter not in _PARAMETERS:
            raise _refused(f"Unknown parameter: '{parameter}'.", parameter, "unknown_parameter")
    for parameter in ("previous_response_id", "conversation", "background"):
        if body.get(parameter):
            words = f"'{parameter}' cannot be used due to Zero Data Retention."
            raise _refused(words, parameter, "unsupported_parameter")
    reasoning = body.get("reasoning") or {}
    effort = reasoning.get("effort")
    if reasoning and "thinking" not in card.capabilities:
        raise _unsupported("reasoning.effort")
    check_effort(card, effort, "reasoning.effort", card.efforts)
    think = effort != "none" if card.efforts else effort not in (None, "none")
    for parameter in ("temperature", "top_p"):
        if think and body.get(parameter) is not None:
            raise _unsupported(parameter)
    if body.get("tools") and "tools" not in card.capabilities:
        raise _unsupported("tools")
    request = ResponsesRequest(
        card=card,
        name=name,
        messages=_messages(body, name),
        stream=body.get("stream") is True,
        think=think,
        format=_format(body.get("text")),
        answer_tokens=body.get("max_output_tokens"),
        calls_first=bool(body.get("tools")),
        summarizes=reasoning.get("summary") is not None,
        encrypts="reasoning.encrypted_content" in (body.get("include") or ()),
    )
    words = "Your input exceeds the context window of this model: {tokens} of {limit} tokens."
    check_length(request, words)
    return request


def encrypted(model: str, item_id: str) -> str:
    """Return what stands for encrypted reasoning; only this model accepts it."""
    return base64.b64encode(f"scripted {item_id} {model}".encode()).decode()


def _refused(words: str, parameter: str, code: str | None = None, status: int = 400) -> Refused:
    return Refused(status, words, details={"param": parameter, "code": code})


def _unsupported(parameter: str) -> Refused:
    words = f"Unsupported parameter: '{parameter}' is not supported with this model."
    return _refused(words, parameter, "unsupported_parameter")


def _messages(body: Mapping[str, Any], model: str) -> list[RequestMessage]:
    """Return the conversation; the items of one answer are one message of the assistant."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        words = "Missing required parameter: 'input'."
        raise _refused(words, "input", "missing_required_parameter")
    if not all(isinstance(item, dict) for item in items):
        raise _refused("Invalid type for 'input': expected objects.", "input", "invalid_type")
    _check_items(items, model)
    instructions = body.get("instructions")
    messages = [RequestMessage("system", instructions)] if instructions else []
    answering = False
    for role, said in _said(items):
        text = said.replace("<\u200d|", "<|")  # broken up, as in Chat Completions
        continues = answering and role == "assistant"
        answering = role == "assistant"
        if continues:
            messages[-1] = RequestMessage(role, messages[-1].text + text)
        else:
            messages.append(RequestMessage(role, text))
    return messages


def _said(items: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for item in items:
        match _type(item):
            case "message":
                yield str(item.get("role")), _text(item.get("content"))
            case "function_call_output":
                yield "tool", _text(item.get("output"))
            case _:
                yield "assistant", ""


def _type(item: Mapping[str, Any]) -> str:
    return str(item.get("type", "message"))


def _check_items(items: Sequence[Mapping[str, Any]], model: str) -> None:
    calls: set[Any] = set()
    waiting: set[Any] = set()
    for index, item in enumerate(items):
        kind, place = _type(item), f"input[{index}]"
        _check_id(item, kind, place)
        match kind:
            case "message":
                pass
            case "reasoning":
                _check_reasoning(item, items[index + 1 : index + 2], model)
            case "function_call":
                calls.add(item.get("call_id"))
                waiting.add(item.get("call_id"))
            case "function_call_output":
                called = item.get("call_id")
                if called not in calls:
                    words = f"No tool call found for function call output with call_id {called}."
                    raise _refused(words, "input")
                waiting.discard(called)
            case _:
                raise _refused(f"Invalid value: '{kind}'.", f"{place}.type", "invalid_value")
    for call_id in waiting:
        raise _refused(f"No tool output found for function call {call_id}.", "input")


def _check_id(item: Mapping[str, Any], kind: str, place: str) -> None:
    item_id = item.get("id")
    if kind == "item_reference" or (kind == "reasoning" and not item.get("encrypted_content")):
        raise _refused(
            f"Item with id '{item_id}' not found. Items are not persisted when `store` is set to "
            "false. Try again with `store` set to true, or remove this item from your input.",
            "input",
            status=404,
        )
    prefix = _ID_PREFIXES.get(kind, "")
    if item_id is not None and not str(item_id).startswith(prefix):
        words = f"Invalid '{place}.id': '{item_id}'. Expected an ID that begins with '{prefix}'."
        raise _refused(words, f"{place}.id", "invalid_value")


def _check_reasoning(
    item: Mapping[str, Any], following: Sequence[Mapping[str, Any]], model: str
) -> None:
    item_id = item.get("id")
    if item["encrypted_content"] != encrypted(model, str(item_id)):
        raise _refused(
            f"The encrypted content for item {item_id} could not be verified. Reason: Encrypted "
            "content could not be decrypted or parsed.",
            "input",
            "invalid_encrypted_content",
        )
    if not any(
        _type(each) in _ANSWERS and each.get("role") in (None, "assistant") for each in following
    ):
        words = f"Item '{item_id}' of type 'reasoning' was provided without its required following"
        raise _refused(f"{words} item.", "input")


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return with_files(
        "".join(str(part["text"]) for part in content if "text" in part),
        [part["image_url"] for part in content if part.get("type") == "input_image"]
        + [part["file_data"] for part in content if part.get("type") == "input_file"],
    )


def _format(text: Any) -> str | Mapping[str, Any] | None:
    form = text.get("format") if isinstance(text, dict) else None
    match form:
        case {"type": "json_object"}:
            return "json"
        case {"type": "json_schema", "schema": dict(schema)} if schema:
            return schema
        case _:
            return None
