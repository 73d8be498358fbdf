"""Decides which tools a turn offers its model: the server's and the client's. Pure."""

from collections.abc import Sequence

import msgspec

from chat.context.tokens import estimate_tools
from chat.context.window import limit_of
from chat.start.turn_request import ToolChoice, TurnRequest
from chat.turn.job import FirstCall
from models_app.errors import ToolsNotSupported
from models_app.language_model import ModelInfo
from sessions_app.errors import ValidationFailed
from sessions_app.messages import ToolCall, ToolSpec
from sessions_app.session import Session, SessionMetadata, agent_named
from tools_app.available_tools import NO_AVAILABLE_TOOLS, AvailableTools, choose_tools
from tools_app.tool_search import FIND_TOOLS
from tools_app.toolset import ToolListing

LEAST_TOKENS, MOST_TOKENS = 2_000, 20_000
"""The bounds of the tokens of schemas that are sent, unless they are configured."""


def offered_tools(
    request: TurnRequest,
    listing: ToolListing | None,
    session: Session,
    info: ModelInfo | None,
    open_calls: Sequence[ToolCall],
    *,
    most_tokens: int | None = None,
) -> AvailableTools:
    """Return the tools that the model of a turn may call.

    Args:
        request: The client's request.
        listing: The server's tools that were looked up; None if none are needed.
        session: The session, whose long results the model may read on.
        info: The facts about the model, if known.
        open_calls: The calls that the turn resumes.
        most_tokens: As of ``with_own_tools``.

    Raises:
        ToolNotFound: A selected tool does not exist.
        ToolsNotSupported: The model can't call tools.
        ValidationFailed: Two tools have the same name, or the client chooses one that is not
            offered.
    """
    tools, metadata = NO_AVAILABLE_TOOLS, session.metadata
    if listing is not None:
        tools = choose_tools(listing, metadata, request.selected_tools, open_calls)
    if request.client_tools:
        client = _by_name(request.client_tools, tools)
        tools = msgspec.structs.replace(tools, client_tools=client)
    if request.tool_choice != "auto":
        tools = _chosen(request.tool_choice, tools, metadata, open_calls)
    _require_calls(tools, info, metadata.model, selects=request.selected_tools is not None)
    if request.tool_choice in ("auto", "required"):
        tools = with_own_tools(tools, session, info, most_tokens)
    return msgspec.structs.replace(tools, result_tokens=tenth_of_window(session, info))


def with_own_tools(
    tools: AvailableTools, session: Session, info: ModelInfo | None, most_tokens: int | None
) -> AvailableTools:
    """Let a model that can call tools read long results on, and find tools if they are many.

    Args:
        tools: The tools.
        session: The session, whose model may have found some.
        info: The facts about the model, if known.
        most_tokens: The tokens up to which schemas are sent; None for a tenth of the model's limit,
            between 2,000 and 20,000; 0 for any number.
    """
    if info is None or not info.can_call_tools:
        return tools
    if session.metadata.answering_agent is None:
        tools = msgspec.structs.replace(tools, results=())
    if most_tokens is None:
        share = tenth_of_window(session, info) or MOST_TOKENS
        most_tokens = min(max(share, LEAST_TOKENS), MOST_TOKENS)
    is_free = FIND_TOOLS.name not in {*tools.tools, *tools.resumed, *tools.client_tools}
    specs = [tool.spec for tool in tools.tools.values()]
    if most_tokens and is_free and estimate_tools(specs) > most_tokens:
        tools = msgspec.structs.replace(tools, loaded=())
    return tools.after(session.messages)


def tenth_of_window(session: Session, info: ModelInfo | None) -> int | None:
    """Return a tenth of the tokens that a request and its answer may take; None if unknown."""
    if info is None:
        return None
    limit = limit_of(
        session.window, max_context=info.context_length, context_limit=info.context_limit
    )
    return None if limit is None else limit // 10


def _by_name(specs: Sequence[ToolSpec], tools: AvailableTools) -> dict[str, ToolSpec]:
    client: dict[str, ToolSpec] = {}
    for index, spec in enumerate(specs):
        if spec.name in client or tools.allows(spec.name):
            again = "by the server too" if tools.allows(spec.name) else "twice"
            raise ValidationFailed(
                f"The tool {spec.name!r} is offered {again}. Each tool needs a name of its own.",
                field=f"client_tools[{index}].name",
                tool_name=spec.name,
            )
        client[spec.name] = spec
    return client


def first_call(choice: ToolChoice, info: ModelInfo | None) -> FirstCall:
    """Return how the model is made to call a tool in its first answer, if it has to."""
    if choice in ("auto", "none"):
        return "optional"
    return "forced" if info is not None and info.forces_tools else "asked_for"


def _chosen(
    choice: ToolChoice,
    tools: AvailableTools,
    metadata: SessionMetadata,
    open_calls: Sequence[ToolCall],
) -> AvailableTools:
    """Limit the tools to those that the client chose.

    Open calls may still run. An agent that answers the session stays in any case.
    """
    names = dict.fromkeys([*tools.tools, *tools.client_tools])
    if not isinstance(choice, str):
        names = dict.fromkeys(choice)
    elif choice == "none":
        names = {}
    if choice != "none" and not names:
        raise ValidationFailed("No tool is offered that could be called.", field="tool_choice")
    for name in names:
        if name not in tools.tools and name not in tools.client_tools:
            raise ValidationFailed(
                f"The tool {name!r} is not offered.", field="tool_choice", tool_name=name
            )
    answers = metadata.answering_agent is not None
    offered = {
        name: tool
        for name, tool in tools.tools.items()
        if name in names or (tool.delegated and answers)
    }
    resumed = {
        call.name: tools.tools[call.name]
        for call in open_calls
        if call.name in tools.tools and call.name not in offered
    }
    return msgspec.structs.replace(
        tools,
        tools=offered,
        resumed={**tools.resumed, **resumed},
        linked=tools.linked if choice == "required" else {},
        client_tools={name: it for name, it in tools.client_tools.items() if name in names},
    )


def _require_calls(
    tools: AvailableTools, info: ModelInfo | None, model: str, *, selects: bool
) -> None:
    offered = [*tools.tools.values()]
    if agent_named(model) is not None:  # it answers by being called; no other tool is for it
        offered = [tool for tool in offered if not tool.delegated]
    names = [*tools.client_tools, *(tool.name for tool in offered)]
    if not names or info is None or info.can_call_tools:
        return
    if tools.client_tools:
        field = "client_tools"
    elif selects:
        field = "selected_tools"
    elif all(tool.delegated for tool in offered):
        field = "agent_settings"
    else:
        field = "tool_settings"
    raise ToolsNotSupported(
        f"The model {model!r} can't call tools, and this turn would offer it {', '.join(names)} "
        f"({field}). Take them out, or choose a model that can.",
        field=field,
        model=model,
    )
