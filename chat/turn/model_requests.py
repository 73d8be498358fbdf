"""Changes the requests of a turn: with notes to the model, for the rest of an answer. Pure."""

from collections.abc import Sequence

import msgspec

from chat.context.plan import with_prompt
from chat.context.tokens import estimate_text
from chat.context.window import WindowChoice
from chat.turn.model_answer import ModelAnswer
from models_app.language_model import TOKEN_LIMITS, ModelRequest
from sessions_app.messages import AssistantMessage, Message, SystemMessage, UserMessage


def rest_of(
    request: ModelRequest, answer: ModelAnswer, window: WindowChoice
) -> ModelRequest | None:
    """Return the request for the rest of an answer; None if the token limit is reached.

    The tokens of an answer whose process died are estimated.
    """
    options = dict(request.options)
    said = answer.finished.eval_count if answer.finished else estimate_text(answer.raw_text)
    for name in TOKEN_LIMITS:
        limit = options.get(name)
        if isinstance(limit, int) and limit > 0:
            if limit <= (said or 0):
                return None
            options[name] = limit - (said or 0)
    messages = request.messages
    if answer.text:
        begun = AssistantMessage(content=answer.raw_text, message_id="", timestamp="")
        messages = [*messages, begun]
    return msgspec.structs.replace(
        request, messages=messages, context_window=window.window, options=options
    )


def asked_again(request: ModelRequest, window: int | None) -> ModelRequest:
    """Return the request with a note that the answer was empty, and the names of the tools.

    Ollama drops calls of unknown tools, which leaves an empty answer; the model would repeat it.
    """
    names = ", ".join(tool.name for tool in request.tools)
    tools = f"You can call these tools and no others: {names}." if names else "There are no tools."
    note = f"(Your last answer was empty. {tools} Answer now, in words if no tool is needed.)"
    return msgspec.structs.replace(
        request, messages=_with_note(request.messages, note), context_window=window
    )


def asked_to_write_again(
    request: ModelRequest, reason: str, *, default_prompt: str | None, window: int | None
) -> ModelRequest:
    """Return the request with a note that the model's last tool call could not be read."""
    note = (
        f"Your last tool call could not be read ({reason}). Write the call again, exactly in the "
        "required format."
    )
    # A profile adds its prompt to a conversation without a system message, which this would be.
    messages = with_prompt(request.messages, default_prompt)
    messages = [*messages, SystemMessage(content=note, message_id="", timestamp="")]
    return msgspec.structs.replace(request, messages=messages, context_window=window)


def asked_to_fit(
    request: ModelRequest, answer: str, correction: str, window: int | None
) -> ModelRequest:
    """Return the request without tools, with the answer that does not fit and its correction."""
    messages = request.messages
    if answer:
        messages = [*messages, AssistantMessage(content=answer, message_id="", timestamp="")]
    return msgspec.structs.replace(
        request, messages=_with_note(messages, correction), tools=(), context_window=window
    )


def asked_for_call(request: ModelRequest) -> ModelRequest:
    """Return the request with a note asking for a tool call, for providers that can't force one."""
    names = ", ".join(tool.name for tool in request.tools)
    note = f"(Call one of these tools now, before you say anything: {names}.)"
    return msgspec.structs.replace(request, messages=_with_note(request.messages, note))


def _with_note(messages: Sequence[Message], note: str) -> list[Message]:
    """Return the messages with a note to the model at their end."""
    noted = list(messages)
    last = noted[-1] if noted else None
    if isinstance(last, UserMessage):  # some models want question and answer by turns
        noted[-1] = msgspec.structs.replace(last, content=f"{last.content}\n\n{note}")
    else:
        noted.append(UserMessage(content=note, message_id="", timestamp=""))
    return noted
