"""Defines a client's request for a turn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec

from chat.approvals.confirmation import Decision
from chat.approvals.server_questions import ApprovalMode
from chat.turn.observer import Dialect
from mochi_project.keys.key import require_scope
from mochi_project.principal import Principal, principal
from models_app.language_model import Think
from sessions_app.decoding import convert_to
from sessions_app.edits import Rewind
from sessions_app.messages import Attachment, Message, ToolSpec
from sessions_app.session import OnCrash, ToolSettings
from tools_app.policy import allows_without_asking

_NOTED = (
    "think",
    "selected_tools",
    "approvals",
    "instructions",
    "client_tools",
    "tool_choice",
    "options",
    "answer_schema",
    "requires_fit",
    "on_crash",
    "dialect",
    "key_id",
    "models",
)
"""The fields of a request that nothing else in a session or a journal has."""

ToolChoice = Literal["auto", "none", "required"] | Sequence[str]


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request for a turn.

    Attributes:
        message: The user's message; None continues from the history.
        message_id: The id of ``message``, which is then said whatever the session ends with.
        attachments: Images and files of ``message``, which is then a text, maybe an empty one.
        think: Whether and how hard to reason; None if not requested.
        selected_tools: The server's tools of this turn; None leaves it to the session's settings.
        detached: Whether the turn goes on when its client leaves.
        approvals: How to deal with calls that need an approval: wait for a listener's answer, end
            the turn until the next request, or deny them at once.
        messages: Messages to append to the history instead of ``message``: user messages, results
            of the client's tools, or a whole history. Unanswered messages that the session ends
            with are not appended twice. Every call of a client's tool must have its result.
        instructions: System text for this turn, after the session's own prompt; it is not saved.
        client_tools: Tools that the client runs. A call of one ends the turn, once the server's
            calls of the same answer have run.
        tool_choice: ``none`` offers no tools; with ``required`` the model must call one; with names
            it must call one of these, and no others are offered. The obligation is for the first
            answer of the turn. If the provider can't enforce it (``ModelInfo.forces_tools``), the
            prompt asks for it.
        options: Sampling options by Ollama's names, over the session's.
        answer_schema: A JSON schema that the answer must fit, once it calls no tools.
        requires_fit: Whether an answer that does not fit after corrections ends the turn with an
            error; without it, answers are checked only beside tools (docs/decisions/0127).
        settings: Settings that the session has from this turn on, by the names of
            ``sessions_app.session_settings.SettingsChanges``; they are saved with the turn.
        rewind: The user message to answer again; later messages are removed when the turn begins,
            and restored if it ends without an answer.
        decisions: Decisions about open calls, which are recorded when the turn begins; a turn that
            can't begin records none of them.
        expects: The id of the last message that the client, or what made this request of its input,
            has seen; the turn is refused if the session ends with another (``HistoryChanged``).
            None accepts any; empty stands for a session without messages.
        dialect: The protocol of the request.
        on_crash: What becomes of the turn if its process dies; None leaves it to the session, and
            then to the server.
        keyed: Whether an ``Idempotency-Key`` stands for it.
        key_id: The key of who sent it, with which the turn ends; None without one.
        models: Patterns of the models that this key is for.
    """

    message: str | None = None
    message_id: str | None = None
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
    requires_fit: bool = False
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    rewind: Rewind | None = None
    decisions: Sequence[Decision] = ()
    expects: str | None = None
    dialect: Dialect = "native"
    on_crash: OnCrash | None = None
    keyed: bool = False
    key_id: str | None = None
    models: tuple[str, ...] = ("*",)

    @property
    def principal(self) -> Principal:
        """The principal of its turn, whoever begins it: the owner of now, with the sender's key."""
        now = principal()
        if (now.key_id, now.models) == (self.key_id, self.models):
            return now
        return replace(now, key_id=self.key_id, models=self.models)

    def noted(self) -> Mapping[str, Any]:
        """Return what another process needs to go on with the turn, as ``request_of`` reads it."""
        given = {name: getattr(self, name) for name in _NOTED}
        return {name: value for name, value in given.items() if value != _DEFAULTS[name]}


_DEFAULTS = {name: getattr(TurnRequest(), name) for name in _NOTED}


def admitted(request: TurnRequest) -> TurnRequest:
    """Return a request with the key of who acts.

    Raises:
        ScopeMissing: It answers approvals, or relaxes policies, for somebody who may not.
    """
    tools: ToolSettings | None = request.settings.get("tool_settings")
    if request.decisions or (tools is not None and allows_without_asking(tools)):
        require_scope("approve")
    sender = principal()
    if sender.key_id is None:
        return request
    return msgspec.structs.replace(request, key_id=sender.key_id, models=sender.models)


def request_of(noted: Mapping[str, Any]) -> TurnRequest:
    """Return the request that was noted, to go on with its turn.

    Raises:
        msgspec.ValidationError: A newer server noted it.
    """
    return convert_to({name: noted[name] for name in _NOTED if name in noted}, TurnRequest)
