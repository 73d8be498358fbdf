"""Converts messages and tools to pydantic-ai's, in a form that every vendor accepts.

A history may hold answers of other providers: call ids that a vendor would refuse are replaced,
every call is followed by its result, and signatures are sent only to the model that made them.
Importing this module imports pydantic_ai (a second), so a thread does it on a vendor's first use.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from models_app.tool_schemas import bounded, inline_all
from models_app.vendors.signatures import RESPONSES, phase_of, plain, state_of
from models_app.vendors.vendor import Vendor
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    NO_EXTRA,
    AssistantMessage,
    Attachment,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
    unmark_cancelled,
)
from sessions_app.variants import turn_start

_BEGINNING = "(The beginning of this conversation was left out.)"
_ACCEPTED = "OK"


def model_messages(
    messages: Sequence[Message],
    vendor: Vendor,
    model: str,
    files: Mapping[str, bytes] = NO_EXTRA,
    *,
    by_responses: bool = False,
) -> list[ModelMessage]:
    """Return the conversation, oldest first, as a request to a model of a vendor holds it.

    Attachments are sent if they are in ``files``. Files of a tool's result follow it as a user
    message, because most vendors accept only text in results.

    Reasoning is left out, except the model's own in the current round of tool calls, which it
    requires to continue.
    """
    history = _History(vendor, model, files, RESPONSES if by_responses else None)
    begin = turn_start(messages)
    for index, message in enumerate(messages):
        match message:
            case SystemMessage():
                history.ask(SystemPromptPart(content=message.content))
            case UserMessage():
                history.ask(_prompt(message.content, history.sent(message.attachments)))
            case AssistantMessage():
                history.answer(message, with_thinking=index >= begin)
            case ToolMessage():
                history.result(message)
    return history.finish()


def request_parameters(
    tools: Sequence[ToolSpec], answer_schema: Mapping[str, Any] | None = None
) -> ModelRequestParameters:
    """Return the parameters of a request: its tools, and a schema for its answer.

    Tool schemas are sent unchanged. An answer schema needs a model with structured output.
    """
    form = (
        OutputObjectDefinition(json_schema=bounded(answer_schema), name="answer")
        if answer_schema is not None
        else None
    )
    return ModelRequestParameters(
        output_mode="native" if form else "text",
        output_object=form,
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema=parameters,
                strict=False,  # strict mode would rewrite the schema
            )
            for tool, parameters in zip(
                tools, inline_all(tool.parameters for tool in tools), strict=True
            )
        ],
    )


class _History:
    """Builds the conversation, request by response, each call with its result right after it."""

    def __init__(
        self, vendor: Vendor, model: str, files: Mapping[str, bytes], api: str | None
    ) -> None:
        self._vendor = vendor
        self._model = model
        self._files = files
        self._api = api
        self._shown: list[UserPromptPart] = []
        self._messages: list[ModelMessage] = []
        self._parts: list[ModelRequestPart] = []
        self._open: dict[str, ToolCall] = {}
        self._results: dict[str, ToolReturnPart] = {}
        self._spoken = False

    def ask(self, part: ModelRequestPart) -> None:
        self._close_calls()
        self._parts.append(part)
        self._spoken = self._spoken or isinstance(part, UserPromptPart)

    def answer(self, message: AssistantMessage, *, with_thinking: bool) -> None:
        content = unmark_cancelled(message.content) if message.cancelled else message.content
        if not content.strip() and not message.tool_calls:
            return
        self._close_calls()
        if not self._spoken:  # vendors require a user message first
            self.ask(UserPromptPart(content=_BEGINNING))
        self._flush()
        parts = self._text(content, message)
        for number, call in enumerate(message.tool_calls):
            thinking = self._thinking(call, message) if with_thinking else []
            if number == 0:  # the text came before the calls, after the thinking that led to it
                led = [part for part, is_after in thinking if not is_after]
                parts = [*led, *parts]
                thinking = [each for each in thinking if each[1]]
            parts += [part for part, _ in thinking]
            parts.append(self._call(call, message))
        self._open = {call.id: call for call in message.tool_calls}
        self._messages.append(ModelResponse(parts=parts, provider_name=self._vendor.name))

    def result(self, message: ToolMessage) -> None:
        call = self._open.get(message.tool_call_id or "")
        if call is None and message.tool_call_id is None:  # old session files have no ids
            waiting = (it for it in self._open.values() if it.id not in self._results)
            call = next((it for it in waiting if it.name == message.tool_name), None)
        if call is None:  # a result without its call, which vendors refuse
            return
        self._results[call.id] = ToolReturnPart(
            tool_name=call.name,
            content=message.content,
            tool_call_id=self._vendor.call_id(call.id, self._model),
        )

        if files := self.sent(message.attachments):
            self._shown.append(_prompt(f"The result of {call.name} has:", files))

    def sent(self, attachments: Sequence[Attachment]) -> list[BinaryContent]:
        return [
            BinaryContent(data=self._files[one.id], media_type=one.media_type)
            for one in attachments
            if one.id in self._files
        ]

    def finish(self) -> list[ModelMessage]:
        self._close_calls()
        self._flush()
        last = self._messages[-1].parts[-1:] if self._messages else ()
        for part in last:  # an answer to go on with: Anthropic refuses blanks at its end
            if isinstance(part, TextPart):
                part.content = part.content.rstrip()
        return self._messages

    def _close_calls(self) -> None:
        for call in self._open.values():
            self._parts.append(
                self._results.get(call.id)
                or ToolReturnPart(
                    tool_name=call.name,
                    content=INTERRUPTED_RESULT,
                    tool_call_id=self._vendor.call_id(call.id, self._model),
                )
            )
        self._parts += self._shown
        self._open, self._results, self._shown = {}, {}, []

    def _flush(self) -> None:
        results = [part for part in self._parts if isinstance(part, ToolReturnPart)]
        if 0 < len(results) < len(self._parts) and self._vendor.is_mistral(self._model):
            # "Unexpected role 'user' after role 'tool'"; pydantic_ai.models.mistral does the same.
            accepted = ModelResponse(parts=[TextPart(content=_ACCEPTED)])
            self._messages += [ModelRequest(parts=results), accepted]
            self._parts = [part for part in self._parts if part not in results]
        if self._parts:
            self._messages.append(ModelRequest(parts=self._parts))
            self._parts = []

    def _text(self, content: str, message: AssistantMessage) -> list[ModelResponsePart]:
        """Return the text of an answer; OpenAI's, with the phase that it had."""
        if self._api is None:
            is_sent = content.strip() or self._vendor.fills_empty_text
            return [TextPart(content=content if content.strip() else "")] if is_sent else []
        if not content.strip():
            return []
        phase = phase_of(message, self._vendor.name)
        details = {"phase": phase} if phase else None
        own = self._vendor.name if phase else None
        return [TextPart(content=content, provider_name=own, provider_details=details)]

    def _thinking(
        self, call: ToolCall, asking: AssistantMessage
    ) -> list[tuple[ModelResponsePart, bool]]:
        """Return the thinking that led to a call, and of each part whether it came after text."""
        state = state_of(call, asking, self._vendor.name, self._model, self._api)
        stored = [part for part in state.get("thinking", ()) if isinstance(part, Mapping)]
        if self._api is not None:
            # Without these, the part would be sent as a text of the model.
            ids = {
                part.get("id")
                for part in stored
                if part.get("signature") or "raw_content" in (_details(part) or {})
            }
            stored = [part for part in stored if part.get("id") in ids]
        return [
            (
                ThinkingPart(
                    content=str(part.get("content", "")),
                    id=part.get("id"),
                    signature=part.get("signature"),
                    provider_name=self._vendor.name,
                    provider_details=_details(part),
                ),
                part.get("after_text") is True,
            )
            for part in stored
        ]

    def _call(self, call: ToolCall, asking: AssistantMessage) -> ToolCallPart:
        state = state_of(call, asking, self._vendor.name, self._model, self._api)
        details = _details(state)
        return ToolCallPart(
            tool_name=call.name,
            args=json.dumps(plain(call.arguments), ensure_ascii=False),
            tool_call_id=self._vendor.call_id(call.id, self._model),
            provider_name=self._vendor.name if details else None,
            provider_details=details,
        )


def _prompt(text: str, files: Sequence[BinaryContent]) -> UserPromptPart:
    if not files:
        return UserPromptPart(content=text)
    return UserPromptPart(content=[*([text] if text.strip() else []), *files])


def _details(state: Mapping[str, Any]) -> dict[str, Any] | None:
    details = state.get("details")
    return dict(plain(details)) if isinstance(details, Mapping) and details else None
