"""Builds what drives the turns of clients: their tools, and who is asked about them."""

import msgspec

from chat.approvals.approver import Approver
from chat.approvals.store import ConfirmationStore
from chat.start.claiming import ClaimedTurn
from chat.start.preparation import TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.turn.engine import TurnEngine
from chat.turn.observer import TurnObserver
from chat.turn.tool_calls import ToolCallRunner

_WITHOUT_QUESTIONS = frozenset({"chat_completions", "responses", "messages", "ollama"})
"""The protocols whose clients can't be shown the questions of servers."""


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
        elicits=request.dialect not in _WITHOUT_QUESTIONS,
    )
    return TurnEngine(
        job,
        stream=claimed.stream,
        session_writer=writer,
        tools=runner,
        approver=approver,
        observer=observer,
    )
