"""Converts saved messages to items, with the same ids and fields as in streams. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dialects_app.openai.ids import item_id
from sessions_app.attachments.media_type import IMAGES
from sessions_app.calls import distinct_calls, results_of
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    as_it_ran,
    result_content,
    unmark_cancelled,
)
from tools_app.toolset import AGENT_TOOL

Item = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete"]

SERVER_LABEL = "mochi"
FAILED = "Error: "
"""Begins the result of a call that failed, as the model gets it."""

NO_QUESTIONS: Mapping[str, str] = {}


def items_of(
    messages: Sequence[Message], session_id: str, *, questions: Mapping[str, str] = NO_QUESTIONS
) -> list[Item]:
    """Return the items of a session's messages, oldest first, with unique names.

    Args:
        messages: The messages, including the results of their calls.
        session_id: The session.
        questions: The pending confirmations, by call id.
    """
    items: list[Item] = []
    messages = distinct_calls(messages)
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            items += answer_items(message, session_id)
            items += call_items(
                message.tool_calls,
                results_of(messages, index),
                session_id,
                questions=questions,
            )
        elif isinstance(message, ToolMessage):
            continue
        else:
            items.append(said_item(message, session_id))
    return items


def said_item(message: UserMessage | SystemMessage, session_id: str) -> Item:
    """Return the item of a message other than an answer."""
    return {
        "id": item_id("msg", session_id, message.message_id),
        "type": "message",
        "role": message.role,
        "status": "completed",
        "content": [*_said_text(message), *_file_parts(message)],
    }


def _said_text(message: UserMessage | SystemMessage) -> Sequence[Item]:
    """Return the text part of a message; empty only beside images and files."""
    if not message.content and isinstance(message, UserMessage) and message.attachments:
        return ()
    return [{"type": "input_text", "text": message.content}]


def _file_parts(message: Message) -> Sequence[Item]:
    """Return the parts of a message's images and files, in a form that can be sent back."""
    if not isinstance(message, UserMessage | ToolMessage):
        return ()
    return [_file_part(each) for each in message.attachments]


def _file_part(file: Attachment) -> Item:
    if file.media_type not in IMAGES:
        return {"type": "input_file", "file_id": file.id, "filename": file.name}
    return {
        "type": "input_image",
        "file_id": file.id,
        "image_url": None,
        "detail": "auto",
        "filename": file.name,  # not of the protocol: an image keeps its name when it is sent back
    }


def answer_items(message: AssistantMessage, session_id: str) -> Iterator[Item]:
    """Yield the items of an answer's reasoning and text, if any."""
    broken_off = message.cancelled or message.interrupted
    text = unmark_cancelled(message.content) if message.cancelled else message.content
    if message.thinking:
        reasoned: Status = "incomplete" if broken_off and not text else "completed"
        yield reasoning_item(
            item_id("rs", session_id, message.message_id), message.thinking, status=reasoned
        )
    if text:
        cut = broken_off or message.done_reason == "length"
        yield text_item(
            item_id("msg", session_id, message.message_id),
            text,
            status="incomplete" if cut else "completed",
        )


def call_items(
    calls: Sequence[ToolCall],
    results: Sequence[ToolMessage | None],
    session_id: str,
    *,
    questions: Mapping[str, str] = NO_QUESTIONS,
) -> Iterator[Item]:
    """Yield the items of an answer's calls and their outcomes."""
    pairs = list(zip(calls, results, strict=True))
    for call, result in pairs:
        if call.client_side:
            continue
        question = questions.get(call.id) if result is None else None
        if question is not None:
            yield request_item(call, question, session_id)
        else:
            yield server_call_item(as_it_ran(call, result), result, session_id)
    for call, _ in pairs:
        if call.client_side:
            yield function_item(call, session_id)
    for call, result in pairs:
        if call.client_side and result is not None:
            yield output_item(call, result, session_id)


def reasoning_item(name: str, text: str, *, status: Status = "completed") -> Item:
    """Return the item of an answer's reasoning."""
    return {
        "id": name,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text}],
        "status": status,
    }


def text_item(name: str, text: str, *, status: Status = "completed") -> Item:
    """Return the item of an answer's text."""
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def function_item(call: ToolCall, session_id: str) -> Item:
    """Return the item of a call that the client runs."""
    return {
        "id": item_id("fc", session_id, call.id),
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
        "status": "completed",
    }


def output_item(call: ToolCall, result: ToolMessage, session_id: str) -> Item:
    """Return the item of a call's output from the client."""
    return {
        "id": item_id("fco", session_id, result.message_id),
        "type": "function_call_output",
        "call_id": call.id,
        "output": _output(result),
        "status": "completed",
    }


def _output(result: ToolMessage) -> str | Sequence[Item]:
    """Return an output as text, or as parts if it has images or files."""
    if not result.attachments:
        return result.content
    text = [{"type": "input_text", "text": result.content}] if result.content else []
    return [*text, *_file_parts(result)]


def server_call_item(
    call: ToolCall,
    result: ToolMessage | None,
    session_id: str,
    *,
    approval_request_id: str | None = None,
) -> Item:
    """Return the item of a call that this server ran, or could not run.

    Args:
        call: The call, as displayed.
        result: Its outcome.
        session_id: The session.
        approval_request_id: Its approval request, if its result has none.
    """
    asked = None if result is None else result.confirmation_id
    if asked is not None:
        approval_request_id = item_id("mcpr", session_id, asked)
    item: Item = {
        "id": item_id("mcp", session_id, call.id),
        "type": "mcp_call",
        "server_label": SERVER_LABEL,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
        "output": None,
        "error": None,
        "status": "incomplete",
        "approval_request_id": approval_request_id,
    }
    if result is not None and result.failed:
        return {**item, "error": error_of(result_content(result)), "status": "failed"}
    if result is not None:
        return {**item, "output": result_content(result), "status": "completed"}
    return item


def agent_call(call_id: str, agent_name: str, instruction: str) -> ToolCall:
    """Return the displayed call of an agent: a tool call with the agent's name."""
    return ToolCall(id=call_id, name=agent_name, arguments={"instruction": instruction})


def shown_call(call: ToolCall) -> ToolCall:
    """Return the displayed call; a call of an agent has its name."""
    agent, instruction = call.arguments.get("agent"), call.arguments.get("instruction")
    if call.name != AGENT_TOOL or not isinstance(agent, str):
        return call
    return agent_call(call.id, agent, instruction if isinstance(instruction, str) else "")


def request_item(call: ToolCall, confirmation_id: str, session_id: str) -> Item:
    """Return the item that asks for an approval."""
    return {
        "id": item_id("mcpr", session_id, confirmation_id),
        "type": "mcp_approval_request",
        "server_label": SERVER_LABEL,
        "name": call.name,
        "arguments": arguments_text(call.arguments),
    }


def error_of(text: str) -> Item:
    """Return the error of a failed call, for an item."""
    content = [{"type": "text", "text": text.removeprefix(FAILED)}]
    return {"type": "mcp_tool_execution_error", "content": content}


def error_text(error: Any) -> str:
    """Return the text of a call's error."""
    if not isinstance(error, Mapping):
        return str(error)
    content = error.get("content")
    if isinstance(content, list):
        return "\n".join(_texts(content))
    if isinstance(content, str):
        return content
    return str(error.get("message") or error.get("type") or "the call failed")


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON text."""
    return msgspec.json.encode(arguments, enc_hook=dict).decode()


def _texts(content: Iterable[Any]) -> Iterator[str]:
    for part in content:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
