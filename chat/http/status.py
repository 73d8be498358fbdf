"""Builds the body of ``/sessions/{id}/status``."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

from chat.http.status_schemas import (
    ActiveTurnOut,
    InboxStatusOut,
    SessionUsageOut,
    StatusOut,
    WindowStatusOut,
)
from chat.remote.remote_turns import ActiveTurn
from chat.start.preparation import TurnPreparer
from chat.turn.usage import all_answers, cost_of, has_ended, tokens_of
from models_app.prices import money
from sessions_app.messages import usage_of
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
    usage: SessionUsageOut,
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
        active_turn=None if active is None else ActiveTurnOut.model_validate(active),
        inbox=InboxStatusOut(count=metadata.queued or 0, paused=metadata.queue_paused),
        usage=usage,
    )


def usage_of_session(session: Session) -> SessionUsageOut:
    """Return the total usage of a session's answers, including replaced ones."""
    answers = [usage_of(message) for message in all_answers(session.messages)]
    known = [usage for usage in answers if usage is not None]
    costs = [cost for usage in known if (cost := cost_of(usage)) is not None]
    unpriced = any(has_ended(usage) and cost_of(usage) is None for usage in known)
    return SessionUsageOut(
        **{name: tokens or 0 for name, tokens in tokens_of(known).items()},
        cost_usd=money(sum(costs, Decimal(0))) if costs or not answers else None,
        cost_known=not unpriced and len(known) == len(answers),
    )
