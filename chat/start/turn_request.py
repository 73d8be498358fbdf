"""Defines what a client asks of a turn."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from chat.approvals.approver import ApprovalMode
from chat.turn.observer import Dialect
from models_app.language_model import Think
from sessions_app.edits import Rewind
from sessions_app.messages import Attachment, Message, ToolSpec

ToolChoice = Literal["auto", "none", "required"] | Sequence[str]


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request for a turn.

    Attributes:
        message: What the user says; None continues from the history.
        attachments: Images and files of ``message``, which is then a text, if an empty one.
        think: Whether and how hard to reason; None was not said.
        selected_tools: The server's tools of this turn; None leaves it to the session's settings.
        detached: Whether the turn goes on when its client leaves.
        approvals: What becomes of calls that need an approval: the turn waits for the answer of a
            listener, ends until the next request, or denies them at once and tells the model.
        messages: What is appended to the history instead of ``message``: what the user says,
            results of the client's tools, a whole history. Messages that the session ends with,
            unanswered, are not said twice. Every call of a client's tool must have its result.
        instructions: System text for this turn, before the session's own prompt; it is not saved.
        client_tools: Tools that the client runs. A call of one ends the turn, once the server's
            calls of the same answer have run.
        tool_choice: ``none`` offers no tools; ``required`` makes the model call one; of names, it
            calls one of these, and no others are offered. That holds for the first answer of the
            turn. Where a provider can force nothing (``ModelInfo.forces_tools``), the prompt says
            it.
        options: Sampling options by Ollama's names, over the session's.
        answer_schema: A JSON schema that the answer must fit; not together with tools.
        settings: Settings that the session has from this turn on, by the names of
            ``sessions_app.settings.SettingsChanges``; they are saved with the turn.
        rewind: The user message that is answered anew; what was said since is removed when the
            turn begins, and put back if the turn ends without an answer.
        dialect: The protocol that it came by, for those who count; it changes nothing.
    """

    message: str | None = None
    attachments: tuple[Attachment, ...] = ()
    think: Think | None = None
    selected_tools: Sequence[str] | None = None
    detached: bool = False
    approvals: ApprovalMode = "wait"
    messages: Sequence[Message] = ()
    instructions: str | None = None
    client_tools: Sequence[ToolSpec] = ()
    tool_choice: ToolChoice = "auto"
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    answer_schema: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    rewind: Rewind | None = None
    dialect: Dialect = "native"
