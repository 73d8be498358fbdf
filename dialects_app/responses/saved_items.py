"""Converts saved messages to items, with the same ids and fields as in streams. Pure."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from dialects_app.responses.output_items import Item
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.rounds import PHASE
from dialects_app.responses.saved_events import answer_events, ending_event
from dialects_app.responses.tool_forms import NO_FORMS, ToolForms, form_in
from dialects_app.shared.ids import item_id
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
)

NO_QUESTIONS: Mapping[str, str] = {}


FindForms = Callable[[str], ToolForms]
"""Returns the forms of the client's tools in a turn."""


def no_forms(_: str) -> ToolForms:
    """Return no forms: the client's tools are plain functions."""
    return NO_FORMS


def items_of(
    messages: Sequence[Message],
    session_id: str,
    *,
    questions: Mapping[str, str] = NO_QUESTIONS,
    forms_in: FindForms = no_forms,
) -> list[Item]:
    """Return the items of a session's messages, oldest first, with unique names.

    Args:
        messages: The messages, including the results of their calls.
        session_id: The session.
        questions: The pending confirmations, by call id.
        forms_in: Finds the forms of the client's tools in a turn.
    """
    items: list[Item] = []
    messages = distinct_calls(messages)
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            results = results_of(messages, index)
            forms = _forms_of(message, forms_in)
            items += _answer_items(message, results, session_id, questions, forms)
            items += _output_items(message, results, session_id, forms)
        elif isinstance(message, ToolMessage):
            continue
        else:
            items.append(said_item(message, session_id))
    return items


def _forms_of(answer: AssistantMessage, forms_in: FindForms) -> ToolForms:
    """Return the forms of the client's tools that an answer calls."""
    calls = [call for call in answer.tool_calls if call.client_side]
    forms = forms_in(answer.turn_id) if calls and answer.turn_id else NO_FORMS
    sent = {call.name: form for call in calls if (form := form_in(call)) is not None}
    return {**forms, **sent}


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


def _answer_items(
    answer: AssistantMessage,
    results: Sequence[ToolMessage | None],
    session_id: str,
    questions: Mapping[str, str],
    forms: ToolForms,
) -> Sequence[Item]:
    """Return the items of an answer and of its calls, as its response shows them.

    Calls of agents keep the name of their tool: items that are sent back become calls again.
    """
    record = ResponseRecord(forms=forms)
    projector = ResponseProjector(session_id, "", record, after=sys.maxsize, names_agents=False)
    projector.replay(answer_events(answer, results, questions, with_answered=False))
    projector.replay([ending_event(answer)])
    items = projector.end_output()
    phase = answer.extra.get(PHASE)
    if phase is None:
        return items
    return [{**item, PHASE: phase} if item["type"] == "message" else item for item in items]


def _output_items(
    answer: AssistantMessage,
    results: Sequence[ToolMessage | None],
    session_id: str,
    forms: ToolForms,
) -> Iterator[Item]:
    """Yield the items of outputs from the client."""
    for call, result in zip(answer.tool_calls, results, strict=True):
        if call.client_side and result is not None:
            form = forms.get(call.name)
            is_custom = form is not None and form.is_custom
            yield output_item(call, result, session_id, is_custom=is_custom)


def output_item(
    call: ToolCall, result: ToolMessage, session_id: str, *, is_custom: bool = False
) -> Item:
    """Return the item of a call's output from the client."""
    return {
        "id": item_id("ctco" if is_custom else "fco", session_id, result.message_id),
        "type": "custom_tool_call_output" if is_custom else "function_call_output",
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
