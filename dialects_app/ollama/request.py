"""Translates Ollama's requests to those for chat completions (docs/decisions/0174). Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dialects_app.chat_completions import body as completions
from dialects_app.ollama.body import AskIn, MessageIn
from dialects_app.shared.fields import refuse
from models_app.language_model import TOKEN_LIMITS
from sessions_app.http.sampling_options import check_options
from sessions_app.messages import INTERRUPTED_RESULT

_NOT_TAKEN = ("raw", "suffix", "template")
_PASSED_ON = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop"),
    *("repeat_penalty", "presence_penalty", "frequency_penalty"),
)
"""The options of a model that are obeyed. Those that size its window and its memory (``num_ctx``,
``num_gpu``) are not: for other ones a model is loaded anew (docs/decisions/0175)."""


def messages_of(body: AskIn) -> Sequence[MessageIn]:
    """Return the messages of a request; none if it only loads or unloads a model."""
    if body.messages or not (body.prompt or body.images):
        return body.messages or ()
    said = MessageIn(role="user", content=body.prompt, images=body.images)
    return (MessageIn(role="system", content=body.system), said) if body.system else (said,)


def completion_of(body: AskIn, model: str, *, thinks: bool) -> completions.CompletionIn:
    """Return the request for a chat completion.

    Args:
        body: The request.
        model: The model's name at this server.
        thinks: Whether the model can think.

    Raises:
        ValidationFailed: A value is invalid; ``field`` is its path.
    """
    for name in _NOT_TAKEN:
        if getattr(body, name):
            refuse(name, f"Prompts are sent as messages of a chat: leave out '{name}'.")
    think = body.think if thinks else None
    level, switch = (think, None) if isinstance(think, str) else (None, think)
    return completions.CompletionIn(
        model=model,
        messages=[*_translated(messages_of(body))],
        stream=body.stream is not False,
        tools=body.tools or None,
        reasoning_effort=level,
        reasoning=completions.ReasoningIn(enabled=switch),
        response_format=_form(body.format),
    )


def options_of(body: AskIn) -> Mapping[str, Any]:
    """Return the sampling options, and how long the model stays loaded.

    Raises:
        ValidationFailed: One of them is invalid.
    """
    given = {**(body.options or {}), "keep_alive": body.keep_alive}
    longest = given.get("num_predict")
    options = {name: given[name] for name in (*_PASSED_ON, "keep_alive")
               if given.get(name) is not None}  # fmt: skip
    try:
        check_options({**options, "num_predict": longest})
    except ValueError as error:
        refuse("options", f"{error}.")
    # Numbers below 1 stand for no limit.
    return options | dict.fromkeys(TOKEN_LIMITS if (longest or 0) > 0 else (), longest)


def _translated(messages: Sequence[MessageIn]) -> Iterator[completions.MessageIn]:
    """Yield the messages of a completion, in which all calls have ids and results.

    A refusal of a call whose client was interrupted would end the conversation for good.
    """
    waiting: list[completions.ToolCallIn] = []
    for index, message in enumerate(messages):
        answered = None
        if message.role in ("user", "assistant"):
            yield from map(_interrupted, waiting)
            waiting = []
        if message.role == "assistant":
            waiting = [
                completions.ToolCallIn(
                    id=call.id or f"call_{index}_{place}", function=call.function
                )
                for place, call in enumerate(message.tool_calls or ())
            ]
        elif message.role == "tool":
            answered = _answered(message, waiting, f"messages[{index}]")
        yield completions.MessageIn(
            role=message.role,
            content=_content(message),
            tool_calls=[*waiting] if message.role == "assistant" else None,
            tool_call_id=answered,
            reasoning_content=message.thinking,
        )
    yield from map(_interrupted, waiting)


def _interrupted(call: completions.ToolCallIn) -> completions.MessageIn:
    return completions.MessageIn(role="tool", content=INTERRUPTED_RESULT, tool_call_id=call.id)


def _answered(message: MessageIn, waiting: list[completions.ToolCallIn], path: str) -> str:
    """Return the id of the call that a result answers, and take the call from those that wait.

    It is the one with the id of the result, else one of its tool, else the first one: some clients
    send no ids, others ids of their own with the result alone.
    """
    if not waiting:
        refuse(path, "A result of a tool has to follow the call of it.")
    call_id, name = message.tool_call_id, message.tool_name or message.name
    call = min(waiting, key=lambda call: (call.id != call_id, call.function.name != name))
    waiting.remove(call)
    return call.id


def _content(message: MessageIn) -> str | Sequence[completions.PartIn]:
    if not message.images:
        return message.content or ""
    urls = (each if each[:5] == "data:" else f"data:;base64,{each}" for each in message.images)
    images = (completions.PartIn(type="image_url", image_url=url) for url in urls)
    return [completions.PartIn(type="text", text=message.content or ""), *images]


def _form(given: Any) -> completions.ResponseFormat | None:
    if not given:
        return None
    if given == "json":
        return completions.ResponseFormat(type="json_object")
    if isinstance(given, str):
        refuse("format", "The format is 'json', or a JSON schema.")
    schema = completions.JsonSchemaIn(name="answer", schema=given)
    return completions.ResponseFormat(type="json_schema", json_schema=schema)
