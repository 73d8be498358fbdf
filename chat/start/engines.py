"""Builds what drives the turns of clients: their tools, and who is asked about them."""

from collections.abc import Mapping

import msgspec

from chat.approvals.approver import Approver
from chat.approvals.server_questions import Elicits
from chat.approvals.store import ConfirmationStore
from chat.start.claiming import ClaimedTurn
from chat.start.preparation import TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.turn.engine import TurnEngine
from chat.turn.observer import TurnObserver
from chat.turn.tool_calls import ToolCallRunner

_ELICITS: Mapping[str, Elicits] = {
    **dict.fromkeys(("chat_completions", "responses", "messages", "ollama"), "never"),
    "ag_ui": "between_calls",
}
"""The protocols whose clients can't be shown all questions of servers (docs/decisions/0195)."""


def build_engine(
    preparer: TurnPreparer,
    confirmation_store: ConfirmationStore,
    observer: TurnObserver,
    claimed: ClaimedTurn,
    request: TurnRequest,
) -> TurnEngine:
    """Return what drives a claimed turn."""
    job, writer = claimed.job, claimed.session_writer
    runner = ToolCallRunner(
        preparer.toolset,
        available_tools=job.available_tools,
        session_id=job.session.session_id,
        delegate=preparer.delegate,
        observer=observer,
    )
    approver = Approver(
        confirmation_store,
        session_id=job.session.session_id,
        turn_id=job.turn_id,
        available_tools=job.available_tools,
        mode=request.approvals,
        keep_settings=writer.keep_tool_settings,
        request=msgspec.to_builtins(request.noted(), enc_hook=dict),
        asked_at=job.asked_at,
        elicits=_ELICITS.get(request.dialect, "always"),
    )
    return TurnEngine(
        job,
        stream=claimed.stream,
        session_writer=writer,
        tools=runner,
        approver=approver,
        observer=observer,
    )
