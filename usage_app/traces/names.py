"""Names the spans and their attributes, as OpenTelemetry's GenAI conventions do. Pure.

The conventions are still in development and rename attributes, so all names are defined here only.
Dashboards know the names of version 1.36, which are used unless the newest ones are requested, as
the conventions demand (docs/decisions/0089).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sessions_app.surrogates import join_surrogates

Value = str | bool | int | float | Sequence[str]

TURN = "turn"
MODEL_CALL = "model call"
TOOL_CALL = "tool call"

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
MCP_TOOLS_CALL = "tools/call"


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """An attribute of spans.

    Attributes:
        name: Its name in the newest conventions.
        meaning: Its description.
        spans: The kinds of spans that have it.
        former: Its names up to version 1.36, if they differ.
        is_content: Whether it holds content of messages, which is left out by default.
    """

    name: str
    meaning: str
    spans: tuple[str, ...]
    former: tuple[str, ...] = ()
    is_content: bool = False


_ALL = (TURN, MODEL_CALL, TOOL_CALL)

OPERATION = Attribute(
    "gen_ai.operation.name", "`invoke_agent` for a turn, `chat`, `execute_tool`", _ALL
)
CONVERSATION = Attribute(
    "gen_ai.conversation.id", "the session; of an agent's turn and tools, its own one", _ALL
)
AGENT = Attribute("gen_ai.agent.name", "the agent whose turn it is", (TURN,))
PROVIDER = Attribute(
    "gen_ai.provider.name",
    "`openai`, `anthropic`, `gcp.gemini`, `ollama`, a configured provider's name",
    (MODEL_CALL,),
    former=("gen_ai.system", "gen_ai.provider.name"),
)
REQUEST_MODEL = Attribute("gen_ai.request.model", "the model", (TURN, MODEL_CALL))
STREAM = Attribute("gen_ai.request.stream", "whether the answer is streamed", (MODEL_CALL,))
OUTPUT_TYPE = Attribute("gen_ai.output.type", "`json` for structured answers", (MODEL_CALL,))
TEMPERATURE = Attribute("gen_ai.request.temperature", "as it was set", (MODEL_CALL,))
TOP_P = Attribute("gen_ai.request.top_p", "as it was set", (MODEL_CALL,))
TOP_K = Attribute("gen_ai.request.top_k", "as it was set", (MODEL_CALL,))
SEED = Attribute("gen_ai.request.seed", "as it was set", (MODEL_CALL,))
MAX_TOKENS = Attribute("gen_ai.request.max_tokens", "the longest answer", (MODEL_CALL,))
FREQUENCY_PENALTY = Attribute("gen_ai.request.frequency_penalty", "as it was set", (MODEL_CALL,))
PRESENCE_PENALTY = Attribute("gen_ai.request.presence_penalty", "as it was set", (MODEL_CALL,))
FINISH_REASONS = Attribute("gen_ai.response.finish_reasons", "why it stopped", (MODEL_CALL,))
FIRST_CHUNK = Attribute(
    "gen_ai.response.time_to_first_chunk", "seconds to the first output", (MODEL_CALL,)
)
INPUT_TOKENS = Attribute("gen_ai.usage.input_tokens", "tokens of the request", (MODEL_CALL,))
OUTPUT_TOKENS = Attribute("gen_ai.usage.output_tokens", "tokens of the answer", (MODEL_CALL,))
CACHED_TOKENS = Attribute(
    "gen_ai.usage.cache_read.input_tokens", "those of the request from a cache", (MODEL_CALL,)
)
REASONING_TOKENS = Attribute(
    "gen_ai.usage.reasoning.output_tokens", "those of the answer that are reasoning", (MODEL_CALL,)
)
SERVER_ADDRESS = Attribute("server.address", "the provider's host", (MODEL_CALL,))
SERVER_PORT = Attribute("server.port", "its port", (MODEL_CALL,))
TOOL_NAME = Attribute("gen_ai.tool.name", "the tool", (TOOL_CALL,))
TOOL_CALL_ID = Attribute("gen_ai.tool.call.id", "the call", (TOOL_CALL,))
TOOL_TYPE = Attribute("gen_ai.tool.type", "`function`; `extension` for MCP", (TOOL_CALL,))
MCP_METHOD = Attribute("mcp.method.name", "`tools/call`, of MCP servers", (TOOL_CALL,))
MCP_SERVER = Attribute("mochi.mcp.server", "the server's name in `mcp.json`", (TOOL_CALL,))
ERROR_TYPE = Attribute("error.type", "the code of the error; the status is then `Error`", _ALL)
TURN_ID = Attribute("mochi.turn.id", "the turn", (TURN,))
TURN_STATE = Attribute("mochi.turn.state", "how it ended: `completed`, `cancelled`, ...", (TURN,))
ROUNDS = Attribute("mochi.turn.rounds", "how many times its model was called", (TURN,))
TOOL_CALLS = Attribute("mochi.turn.tool_calls", "how many tool calls were executed", (TURN,))
PURPOSE = Attribute(
    "mochi.purpose", "`chat`, `agent`, `compaction`, `summary`, `structured`", (TURN, MODEL_CALL)
)
STOPPED = Attribute(
    "mochi.stopped", "`cancelled` or `interrupted`, where it was", (MODEL_CALL, TOOL_CALL)
)
INSTRUCTIONS = Attribute(
    "gen_ai.system_instructions", "the system prompt", (MODEL_CALL,), is_content=True
)
INPUT_MESSAGES = Attribute(
    "gen_ai.input.messages", "the new messages; the request's", (TURN, MODEL_CALL), is_content=True
)
OUTPUT_MESSAGES = Attribute("gen_ai.output.messages", "the answer", (TURN,), is_content=True)
ARGUMENTS = Attribute("gen_ai.tool.call.arguments", "the arguments", (TOOL_CALL,), is_content=True)
RESULT = Attribute("gen_ai.tool.call.result", "the result", (TOOL_CALL,), is_content=True)

ATTRIBUTES: tuple[Attribute, ...] = tuple(
    each for each in list(globals().values()) if isinstance(each, Attribute)
)
"""Every attribute, in the order of the docs."""

OPTIONS: Mapping[str, Attribute] = {
    "temperature": TEMPERATURE,
    "top_p": TOP_P,
    "top_k": TOP_K,
    "seed": SEED,
    "num_predict": MAX_TOKENS,
    "max_tokens": MAX_TOKENS,
    "frequency_penalty": FREQUENCY_PENALTY,
    "presence_penalty": PRESENCE_PENALTY,
}
"""Sampling options, by Ollama's names, and the attributes that hold them."""

_PROVIDERS: Mapping[str, str] = {"google": "gcp.gemini"}


def provider_name(provider: str) -> str:
    """Return the conventions' name of a provider, or its own name."""
    return _PROVIDERS.get(provider, provider)


class Naming:
    """Names attributes, in one version of the conventions.

    Args:
        latest: Whether the newest names are used.
    """

    def __init__(self, *, latest: bool) -> None:
        self._names = {
            each: (each.name,) if latest or not each.former else each.former for each in ATTRIBUTES
        }

    def attributes(self, values: Mapping[Attribute, Value | None]) -> dict[str, Value]:
        """Return the attributes of a span, without empty ones.

        Lone surrogates, which models and tools may return, would fail a whole export.
        """
        return {
            name: join_surrogates(value) if isinstance(value, str) else value
            for attribute, value in values.items()
            if value is not None
            for name in self._names[attribute]
        }
