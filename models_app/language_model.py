"""Declares the port to a language model, ``LanguageModel``, its requests and its deltas."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, Protocol

import msgspec

from sessions_app.attachments.media_type import GIF, HEIC, JPEG, PDF, PNG, TEXT, WEBP
from sessions_app.messages import NO_EXTRA, Message, ToolCall, ToolSpec

ThinkLevel = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
Think = bool | ThinkLevel

PromptCache = Literal["5m", "1h", "off"]
"""The times for which providers keep the beginning of a request (docs/decisions/0137)."""

Purpose = Literal["chat", "agent", "compaction", "summary", "structured"]
"""The purposes of model calls; ``ModelCall`` reports them."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a model.

    Attributes:
        name: The name for requests, with its provider except for Ollama.
        size_mb: Size on disk in megabytes (10**6 bytes); 0 for models that run elsewhere.
        format: File format, e.g. ``gguf``.
        family: Model family, e.g. ``qwen3``.
        parameter_size: E.g. ``14.8B``.
        quantization_level: E.g. ``Q4_K_M``.
        capabilities: ``completion``, ``tools``, ``thinking``, ...
        context_length: The longest context the model was trained for, in tokens; None if unknown.
        provider: The name of its provider.
        modified_at: When it was last changed, in seconds since 1970; None if unknown.
        default_think: Whether to think, and with which effort, by default; a profile sets it.
        context_limit: The maximum tokens of a request, if a profile limits it.
        files_of: The name of the provider whose types of files it takes, where it is not its own.
        system_prompt: What the provider adds to a conversation without a system prompt: a
            profile's.
        digest: The digest of an installed model, in hexadecimal; empty if unknown.
        is_remote: Whether Ollama passes its requests on to its cloud.
        continues_answers: Whether it goes on with an answer that a request ends with; Ollama's
            models also while they may think.
    """

    name: str
    size_mb: float
    format: str = ""
    family: str = ""
    parameter_size: str = ""
    quantization_level: str = ""
    capabilities: Sequence[str] = ()
    context_length: int | None = None
    provider: str = "ollama"
    modified_at: int | None = None
    default_think: Think = False
    context_limit: int | None = None
    system_prompt: str | None = None
    files_of: str | None = None
    digest: str = ""
    is_remote: bool = False
    continues_answers: bool = False

    def continues_answer(self, think: Think | None) -> bool:
        """Return whether it goes on in the middle of an answer, if asked to think like this."""
        return self.continues_answers and (self.provider == "ollama" or not think)

    @property
    def takes_window(self) -> bool:
        """Return whether requests set the context window; other providers use the model's own."""
        return self.provider == "ollama" and not self.is_remote

    @property
    def forces_tools(self) -> bool:
        """Return whether its provider can make it call a tool (``ModelRequest.requires_call``)."""
        return self.provider != "ollama"

    @property
    def can_chat(self) -> bool:
        """Return whether the model answers conversations; embedding models, for one, do not."""
        return "completion" in self.capabilities

    @property
    def can_think(self) -> bool:
        """Return whether the model streams its reasoning when asked."""
        return "thinking" in self.capabilities

    @property
    def can_see(self) -> bool:
        """Return whether the model may be sent images; assumed if unknown."""
        return not self.capabilities or "vision" in self.capabilities

    def takes(self, media_type: str) -> bool:
        """Return whether the model may be sent a file of this type; texts are read to it."""
        if media_type == TEXT:
            return True
        taken = _TAKEN.get(self.files_of or self.provider, IMAGES_OF_MOST)
        return self.can_see and media_type in taken

    @property
    def can_call_tools(self) -> bool:
        """Return whether the model may be offered tools; assumed if unknown."""
        return not self.capabilities or "tools" in self.capabilities


IMAGES_OF_MOST = frozenset({PNG, JPEG, WEBP, GIF})
_TAKEN: Mapping[str, frozenset[str]] = {
    "ollama": frozenset({PNG, JPEG, WEBP}),
    "anthropic": IMAGES_OF_MOST | {PDF},
    "google": frozenset({PNG, JPEG, WEBP, HEIC, PDF}),
    "openai": IMAGES_OF_MOST | {PDF},
    "openrouter": IMAGES_OF_MOST | {PDF},
}
"""The types that providers take, by their documents; other servers copy OpenAI's images."""

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
"""The ``answer_schema`` of an answer that may be any JSON object."""

TOKEN_LIMITS = ("num_predict", "max_tokens")
"""The options that limit the tokens of an answer: Ollama's and the vendors'. A session or a profile
may set either."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model.

    Attributes:
        model: The model's name, without its provider.
        messages: The conversation, oldest first.
        tools: The tools that the model may call.
        think: Whether to think, and with which effort; None leaves it out (models that can't).
        context_window: Tokens of context to reserve (``num_ctx``); None leaves it to the provider.
        options: Sampling options (temperature, seed, ...) by Ollama's names, which Ollama gets as
            they are and other providers as far as they know them.
        keeps_window: Whether ``context_window`` must not grow: a request that does not fit is then
            refused (``ContextOverflow``) instead of sent with a larger one.
        answer_schema: A JSON schema that the answer must match, if the model supports it;
            others need it in the prompt. With tools it is for an answer that calls none.
        requires_call: Whether the answer must call a tool, if the provider can force it;
            others need it in the prompt.
        sink: Called with a batch where it arrives; returns whether it accepted it. A refused batch
            is yielded. It saves waking a task for every token (docs/decisions/0019), and a
            provider may ignore it. It must not raise.
        purpose: The purpose of the call; not sent to providers.
        files: The bytes of the messages' attachments that are to be sent, by id; an attachment
            that is not among them is left out.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    think: Think | None = None
    context_window: int | None = None
    keeps_window: bool = False
    options: Mapping[str, Any] = NO_EXTRA
    answer_schema: Mapping[str, Any] | None = None
    requires_call: bool = False
    sink: "Callable[[Sequence[Delta]], bool] | None" = None
    files: Mapping[str, bytes] = NO_EXTRA
    purpose: Purpose = "chat"


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the answer's text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the model's reasoning."""

    text: str


class CallDelta(msgspec.Struct, frozen=True):
    """A whole tool call."""

    call: ToolCall


class CallArgumentsDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of a tool call's arguments; the whole call follows as ``CallDelta``.

    Only from providers that stream arguments; together the pieces are the arguments' JSON.

    Attributes:
        call_index: Which call of this answer it belongs to, from 0.
        call_id: The call's id, the one that its ``CallDelta`` will have.
        name: The tool's name, if known yet; may be empty at first.
        arguments: The piece of JSON text.
    """

    call_index: int
    call_id: str
    name: str
    arguments: str


class Retrying(msgspec.Struct, frozen=True, gc=False):
    """The request failed before its first delta and is tried again."""

    reason: str


class Warned(msgspec.Struct, frozen=True, gc=False):
    """A warning for the caller; yielded first, and the answer continues."""

    message: str


class SchemaLeftOut(msgspec.Struct, frozen=True, gc=False):
    """The tools were sent without the answer schema; yielded before the answer.

    Providers that fit answers to a schema token by token never call a tool with one. If the answer
    calls none and does not fit, it can be asked for without tools.
    """


class WindowGrown(msgspec.Struct, frozen=True, gc=False):
    """The request did not fit and is tried again with this many tokens of context."""

    context_window: int


class AnsweredBy(msgspec.Struct, frozen=True, gc=False):
    """The model that a profile sends the request to; yielded first."""

    model: str


class Finished(msgspec.Struct, frozen=True, gc=False):
    """The last delta: the model is done.

    Attributes:
        done_reason: Why it stopped (``stop``, ``length``, ...).
        prompt_eval_count: Tokens of the request; None if the provider did not state them.
        eval_count: Tokens of the answer; None if the provider did not state them.
        cached_count: Prompt tokens read from the provider's cache, if reported.
        reasoning_count: Reasoning tokens, if reported.
        cache_write_count: Tokens of the request that the provider put into its cache, where it says
            so.
        cache_write_1h_count: Those of them that it keeps for an hour, at another price.
        cost: The cost in US dollars; None if unknown. Not set by providers.
    """

    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    cached_count: int | None = None
    reasoning_count: int | None = None
    cache_write_count: int | None = None
    cache_write_1h_count: int | None = None
    cost: Decimal | None = None


Delta = (
    TextDelta
    | ThinkingDelta
    | CallArgumentsDelta
    | CallDelta
    | Retrying
    | Warned
    | SchemaLeftOut
    | WindowGrown
    | AnsweredBy
    | Finished
)


class LanguageModel(Protocol):
    """The port to the models of a provider."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta], None]:
        """Send a request and yield batches of deltas, one batch for each network read.

        Why batches: docs/decisions/0001.

        The last delta is ``Finished``; a stream that breaks off before it raises. Close the
        generator (``aclosing``) to stop the model; that closes the connection.

        Raises:
            ModelError: A subclass, before the first batch or between batches.
        """
        ...

    def recall(self, model: str) -> ModelInfo | None:
        """Return the cached result of ``describe``, or None. Thread-safe."""
        ...

    async def describe(self, model: str) -> ModelInfo:
        """Return a model's facts, from a cache while they are fresh.

        Raises:
            ModelNotFound: The provider does not have it.
            ModelError: The provider can't be asked.
        """
        ...


class AgentModels(LanguageModel, Protocol):
    """The models of all agents, agents' names being the models'."""

    async def list_models(self) -> list[ModelInfo]:
        """Return the agents that can be used, by name."""
        ...
