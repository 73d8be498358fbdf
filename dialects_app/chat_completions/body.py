"""Declares the body of ``POST /v1/chat/completions``, with the fields that are read.

Other fields are ignored: clients send dozens of them. Fields that clients send as null have
``| None``; those of several shapes are ``Any`` and parsed by hand.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dialects_app.shared.effort import Effort
from sessions_app.bounds import FEW

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Tokens = Annotated[int, Meta(ge=-1, extra_json_schema={"not": {"const": 0}})]
Seed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Stop = Annotated[str, Meta(min_length=1)]

FewKeys = Annotated[Mapping[str, Any], FEW]


class PartIn(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message: ``text``, ``refusal``, ``image_url``, ``input_audio`` or ``file``.

    Attributes:
        type: The kind of part.
        text: The text.
        refusal: The assistant's refusal.
        image_url: An image: ``{"url": ...}``, or the URL itself.
        file: A file: ``{"file_data": ..., "filename": ...}`` or ``{"file_id": ...}``.
    """

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | FewKeys | None = None
    file: FewKeys | None = None


Role = Literal["system", "developer", "user", "assistant", "tool"]
FunctionName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}(?!\n)$")]


class CalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """The function of a call; ``arguments`` is JSON as text, or an object from some clients."""

    name: str
    arguments: str | FewKeys | None = None


class ToolCallIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of the model, sent back by the client."""

    id: str
    type: Literal["function"] | None = "function"
    function: CalledFunction


class MessageIn(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the conversation, of any role.

    Attributes:
        role: The author; ``developer`` is the same as ``system``.
        content: The text, or its parts.
        tool_calls: The calls of an assistant's message.
        tool_call_id: The call of a tool message.
        reasoning_content: The assistant's reasoning, sent back.
        reasoning: The same under another name.
        refusal: The assistant's refusal.
        function_call: The old form of ``tool_calls``; refused.
    """

    role: Role
    content: str | Sequence[PartIn] | None = None
    tool_calls: Sequence[ToolCallIn] | None = None
    tool_call_id: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: str | None = None
    function_call: Any = None


class FunctionIn(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the client runs; ``parameters`` is its JSON schema."""

    name: FunctionName
    description: str | None = None
    parameters: FewKeys | None = None
    strict: bool | None = None


class ToolIn(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the client runs; only functions are supported."""

    type: str
    function: FunctionIn | None = None


class JsonSchemaIn(msgspec.Struct, frozen=True, kw_only=True):
    """The schema that the answer must match."""

    name: str
    schema: FewKeys | None = None


class ResponseFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The form of the answer: ``text``, ``json_object`` or ``json_schema``."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaIn | None = None


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a stream; ``include_usage`` adds a last chunk with the tokens used."""

    include_usage: bool | None = None


class ReasoningIn(msgspec.Struct, frozen=True, kw_only=True):
    """The effort of reasoning, or only whether to reason, in the form of OpenRouter."""

    effort: Effort | None = None
    enabled: bool | None = None


class CompletionIn(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a chat completion. Other fields are ignored.

    Attributes:
        model: A model's name, ``profile:<name>`` or ``agent:<name>``; absent or empty takes the
            session's, or the default one.
        messages: The whole conversation, oldest first.
        stream: Whether to send the answer as server-sent events.
        stream_options: The options of the stream.
        tools: The functions that the client runs.
        tool_choice: ``auto``, ``none``, ``required``, a function, or ``allowed_tools``.
        parallel_tool_calls: Parallel calls can't be prevented; see ``x-mochi-warning``.
        response_format: The form of the answer, once it calls no tools.
        temperature: From 0 to 2.
        top_p: From 0 to 1.
        max_tokens: The longest answer, in tokens; -1 for no limit.
        max_completion_tokens: The same under its newer name, which takes precedence.
        stop: Texts that end the answer.
        seed: Makes answers reproducible, if the provider supports it.
        presence_penalty: From -2 to 2.
        frequency_penalty: From -2 to 2.
        reasoning_effort: How hard a thinking model reasons.
        reasoning: The same in OpenRouter's form.
        store: Whether to save a session, and continue if the client disconnects.
        metadata: Saved with the session if ``store`` is true: up to 16 pairs of strings.
        n: More than one answer is refused.
        logprobs: Refused if true.
        top_logprobs: Refused unless 0.
        logit_bias: Not supported; see ``x-mochi-warning``.
        modalities: Output other than text is refused.
        audio: Refused.
        functions: The old form of ``tools``; refused.
        function_call: The old form of ``tool_choice``; refused.
    """

    model: str | None = None
    messages: Annotated[Sequence[MessageIn], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[Sequence[ToolIn], FEW] | None = None
    tool_choice: str | FewKeys | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    stop: Stop | Annotated[Sequence[Stop], FEW] | None = None
    seed: Seed | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    reasoning_effort: Effort | None = None
    reasoning: ReasoningIn | None = None
    store: bool | None = None
    metadata: Any = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    logit_bias: FewKeys | None = None
    modalities: Annotated[Sequence[Literal["text"]], FEW] | None = None
    audio: Any = None
    functions: Any = None
    function_call: Any = None

    @property
    def model_name(self) -> str:
        """Return the model, once the route has filled in the one of a request without."""
        return self.model or ""
