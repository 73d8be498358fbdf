"""Builds what drives the turns of clients: their tools, and who is asked about them."""

from dataclasses import dataclass

from chat.approvals.approver import Approver
from chat.approvals.store import ConfirmationStore
from chat.start.claiming import ClaimedTurn
from chat.start.preparation import TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.turn.engine import TurnEngine
from chat.turn.observer import TurnObserver
from chat.turn.tool_calls import ToolCallRunner


@dataclass(frozen=True, slots=True)
class TurnEngines:
    """Builds the engines of clients' turns.

    Attributes:
        preparer: Has the tools and the agents.
        confirmation_store: Stores questions and answers.
        observer: Observes the turns.
    """

    preparer: TurnPreparer
    confirmation_store: ConfirmationStore
    observer: TurnObserver

    def build(self, claimed: ClaimedTurn, request: TurnRequest) -> TurnEngine:
        """Return what drives a claimed turn."""
        job = claimed.job
        return TurnEngine(
            job,
            stream=claimed.stream,
            session_writer=claimed.session_writer,
            tools=ToolCallRunner(
                self.preparer.toolset,
                available_tools=job.available_tools,
                session_id=job.session.session_id,
                delegate=self.preparer.delegate,
                observer=self.observer,
            ),
            approver=Approver(
                self.confirmation_store,
                session_id=job.session.session_id,
                turn_id=job.turn_id,
                available_tools=job.available_tools,
                mode=request.approvals,
                keep_settings=claimed.session_writer.keep_tool_settings,
                asked_at=job.asked_at,
            ),
            observer=self.observer,
        )
