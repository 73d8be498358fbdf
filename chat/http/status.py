"""Builds the body of ``/sessions/{id}/status``."""

import asyncio
from collections.abc import Sequence

import msgspec

from chat.http.status_schemas import (
    ActiveTurnOut,
    InboxStatusOut,
    SessionUsageOut,
    StatusOut,
    WindowStatusOut,
)
from chat.remote.remote_turns import ActiveTurn
from chat.start.preparation import TurnPreparer
from chat.turn.usage import SessionUsage
from sessions_app.session import AgentSettings, Session, ToolSettings

OFFER_SECONDS = 2.0


async def offered_tools(session: Session, preparer: TurnPreparer) -> Sequence[str]:
    """Return the names of the tools that the session's next request offers.

    When that is not known within two seconds, those that its settings name: an MCP server that is
    just starting must not delay the status.
    """
    try:
        async with asyncio.timeout(OFFER_SECONDS):
            available = await preparer.available_tools_of(session)
    except TimeoutError:
        return list(dict.fromkeys((session.metadata.tool_settings or ToolSettings()).tools))
    return list(available.tools)


def status_of(
    session: Session,
    active: ActiveTurn | None,
    *,
    max_context: int | None,
    dynamic_allowed: bool,
    active_tools: Sequence[str] = (),
    usage: SessionUsage,
) -> StatusOut:
    """Gather the status of a session.

    Args:
        session: The session.
        active: The turn that runs on it.
        max_context: The model's longest context in tokens; None when it is not known just now.
        dynamic_allowed: Whether this server lets windows grow at all.
        active_tools: The tools that are offered.
        usage: What its answers cost.
    """
    metadata, window = session.metadata, session.window
    tools = metadata.tool_settings or ToolSettings()
    agents = list((metadata.agent_settings or AgentSettings()).enabled_agents)
    return StatusOut(
        session_id=session.session_id,
        model=metadata.model,
        message_count=len(session.messages),
        context_window=WindowStatusOut(
            dynamic_enabled=window.dynamic_enabled and dynamic_allowed,
            current_window=window.current_window,
            model_max_context=max_context,
            last_adjustment_reason=window.last_adjustment,
            manual_override=window.manual_override,
        ),
        tools_enabled=bool(tools.tools or tools.tool_group),
        active_tools=list(active_tools),
        execution_policy=tools.execution_policy,
        agents_enabled=bool(agents),
        enabled_agents=agents,
        system_prompt_file=session.system_prompt.source_file if session.system_prompt else None,
        summary=dict(metadata.summary) if metadata.summary else None,
        summary_model=metadata.summary_model,
        active_turn=ActiveTurnOut.model_validate(msgspec.structs.asdict(active))
        if active
        else None,
        inbox=InboxStatusOut(count=metadata.queued or 0, paused=metadata.queue_paused),
        usage=SessionUsageOut.model_validate(msgspec.structs.asdict(usage)),
    )
