"""Defines requests for approval of a tool call, and the answers to them. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from chat.approvals.arguments import check_arguments
from chat.stream.events import AskedBecause
from sessions_app.decoding import decode_as
from sessions_app.errors import ValidationFailed
from tools_app.elicitation import Action, InputAnswer, fill, secrets_in
from tools_app.policy import RememberedPolicy

VERSION = 2
"""The newest version of questions and answers on disk; version 0 has no such field."""
_VERSION_OF_CALLS = 1
"""The version of questions about calls, which older servers may answer; they know no others."""

Kind = Literal["call", "input", "url"]
"""The kinds of questions: whether a call may run, values for a form, or an address to open."""

Reason = Literal["approved", "denied", "timeout", "withdrawn"]
_ACTIONS: Mapping[Reason, Action] = {"approved": "accept", "denied": "decline"}


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a repeated call that has ended with questions (MCP from 2026-07-28 on).

    Attributes:
        key: The server's name for this question.
        request_state: The server's state, which it gets back unchanged.
        round: How often the call has asked, from 1.
        plainly: Whether it is repeated without answers.
        arguments: Those that the call ran with.
        was_edited: Whether a person had changed them.
        approval_id: The question whose answer allowed the call, if one did.
    """

    key: str
    request_state: str | None
    round: int
    plainly: bool = False
    arguments: Mapping[str, Any]
    was_edited: bool = False
    approval_id: str | None = None


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a person whether a call may run, or what the server of a running call wants to know.

    The answer is valid only for this session, assistant message, call, tool and arguments.

    Attributes:
        confirmation_id: ``conf_`` and 32 hex digits, 128 random bits.
        session_id: The session on whose behalf the tool would run.
        message_id: The assistant message that asked for the tool.
        tool_call_id: The call within that message.
        call_index: The call's number within its turn, from 0.
        tool_name: The tool.
        arguments: The model's arguments.
        arguments_hash: ``hash_call`` of tool and arguments.
        turn_id: The turn that waits for the answer, or asked last.
        created_at: When it was first asked; UTC, ISO 8601.
        expires_at: When it expires; UTC, ISO 8601.
        agent_name: The agent that asks, if any.
        reason: Why it is asked regardless of the policies: ``tool_changed``, since the session
            enabled the tool; ``may_have_run``, as it had begun when its process died.
        tool_digest: The digest of the tool when it was asked, if the tool has one.
        parameters: The JSON schema of the tool's arguments; None if an older server asked.
        call_ids: The calls that were asked about together with it; empty if an older server asked.
        timeout_seconds: How long it is open, and its answer counts; None for the server's default.
        request: The request with which the next turn goes on by itself, once all is answered; None
            if its turn waits as long, or another request has to go on.
        kind: What is asked; all below is there for the other kinds than ``call`` only.
        server: The server that asks.
        message: Its words.
        schema: The flat JSON schema of the values for a form (``input``).
        url: The address to open (``url``).
        retry: What the call is repeated with; None if it is still open in its process.
        version: Of the record; 0 for one of an older server.
    """

    confirmation_id: str
    session_id: str
    message_id: str
    tool_call_id: str
    call_index: int
    tool_name: str
    arguments: Mapping[str, Any]
    arguments_hash: str
    turn_id: str
    created_at: str
    expires_at: str
    agent_name: str | None = None
    reason: AskedBecause | None = None
    tool_digest: str | None = None
    parameters: Mapping[str, Any] | None = None
    call_ids: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    request: Mapping[str, Any] | None = None
    kind: Kind = "call"
    server: str | None = None
    message: str | None = None
    schema: Mapping[str, Any] | None = None
    url: str | None = None
    retry: Retry | None = None
    version: int = 0

    @property
    def secret_names(self) -> Sequence[str]:
        """Return the names of values that look like secrets, which a server must not ask for."""
        return secrets_in(self.schema)

    @property
    def is_sound(self) -> bool:
        """Return whether the record is valid; False if its file was edited."""
        return _is_valid(self, self.tool_name, self.created_at, self.expires_at)

    def is_open(self, now: datetime) -> bool:
        """Return whether it can be answered at this time.

        Processes share only the wall clock. To set it can close a question early. It can keep one
        open for longer only if no turn waits, since a waiting turn uses its own monotonic clock.
        """
        return read_moment(self.created_at) <= now < read_moment(self.expires_at)

    def is_about(
        self, message_id: str, tool_call_id: str, arguments_hash: str, tool_digest: str | None
    ) -> bool:
        """Return whether it asks if this call may run: these arguments, this version of the tool.

        Questions of older servers have no digest, and match every version.
        """
        asked = (self.kind, self.message_id, self.tool_call_id, self.arguments_hash)
        is_same_tool = self.tool_digest in (None, tool_digest)
        return is_same_tool and asked == ("call", message_id, tool_call_id, arguments_hash)

    def answer(
        self,
        reason: Reason,
        now: datetime,
        decision: "Decision | None" = None,
        remembered: RememberedPolicy | None = None,
    ) -> "ApprovalDecision":
        """Return an answer; only an approval may have other arguments or content, or set a policy.

        Raises:
            ValidationFailed: The arguments can't be written as JSON, or don't fit the tool; or the
                content does not fit the form.
        """
        arguments, arguments_hash, content = self.arguments, self.arguments_hash, None
        if reason == "approved" and decision is not None:
            self._require_fitting_parts(decision)
            content = self.filled(decision.content)
            if isinstance(decision.arguments, Mapping):
                arguments = decision.arguments
                arguments_hash = hash_call(self.tool_name, arguments)
        edited = arguments_hash != self.arguments_hash
        if edited and self.parameters is not None:
            check_arguments(arguments, self.parameters, of_model=self.arguments)
        return ApprovalDecision(
            confirmation_id=self.confirmation_id,
            reason=reason,
            arguments=arguments,
            arguments_hash=arguments_hash,
            decided_at=written(now),
            edited=edited,
            remembered=remembered if reason == "approved" else None,
            content=content,
            version=self.version_of_kind,
        )

    @property
    def version_of_kind(self) -> int:
        """Return the version of the records about it."""
        return _VERSION_OF_CALLS if self.kind == "call" else VERSION

    def filled(self, content: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return the values for the form, with its defaults; None if it has none.

        Raises:
            ValidationFailed: They don't fit the form.
        """
        return None if self.schema is None else fill(content or {}, self.schema)

    def _require_fitting_parts(self, decision: "Decision") -> None:
        if isinstance(decision.arguments, Mapping) and self.kind != "call":
            raise ValidationFailed("This question has no arguments.", field="arguments")
        if decision.content is not None and self.schema is None:
            raise ValidationFailed("This question is not for content.", field="content")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that a client sends about a question.

    Attributes:
        confirmation_id: The question.
        approved: Whether the call may run.
        arguments: The arguments to run it with; None for the model's; ``UNSET`` in protocols that
            can't change them, for those of an earlier approval, else the model's.
        content: The values for a form.
    """

    confirmation_id: str
    approved: bool
    arguments: Mapping[str, Any] | UnsetType | None = UNSET
    content: Mapping[str, Any] | None = None


class ApprovalDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The valid answer to a question.

    Attributes:
        confirmation_id: The question.
        reason: Why the call may or may not run.
        arguments: The arguments to run the tool with: the model's, or a person's edit of them.
        arguments_hash: ``hash_call`` of the tool's name and these arguments.
        decided_at: When it was decided; UTC, ISO 8601.
        edited: Whether the person changed the arguments.
        remembered: The policy that it sets for further calls, if it does.
        content: The values for a form, until they are used.
        version: Of the record; 0 for one of an older server.
    """

    confirmation_id: str
    reason: Reason
    arguments: Mapping[str, Any]
    arguments_hash: str
    decided_at: str
    edited: bool = False
    remembered: RememberedPolicy | None = None
    content: Mapping[str, Any] | None = None
    version: int = 0

    @property
    def approved(self) -> bool:
        """Return whether the call may run, once."""
        return self.reason == "approved"

    @property
    def for_server(self) -> InputAnswer:
        """Return the answer to a server's question."""
        return InputAnswer(action=_ACTIONS.get(self.reason, "cancel"), content=self.content)

    def says(self, decision: Decision, question: Confirmation) -> bool:
        """Return whether it is this decision: the same arguments and values, or any denial.

        Any values are those that were used, and of which nothing is kept.
        """
        if not (self.approved and decision.approved):
            return self.approved is decision.approved
        if question.kind != "call":
            return self.content in (None, question.filled(decision.content))
        if decision.arguments is UNSET:
            return True
        wanted = question.arguments if decision.arguments is None else decision.arguments
        return self.arguments_hash == hash_call(question.tool_name, wanted)

    def is_answer_to(self, question: Confirmation) -> bool:
        """Return whether the record is a valid answer to the question."""
        is_same = self.confirmation_id == question.confirmation_id
        return is_same and _is_valid(self, question.tool_name, self.decided_at)


class _Record(msgspec.Struct):
    version: int = 0
    timeout_seconds: float | None = None
    expires_at: str = ""


def is_kept(record: bytes, now: datetime) -> bool:
    """Return whether a record that has not changed for long stays.

    It does if it is of a later version than this server knows, or if the question is open for
    longer than others, or was: an answer counts for as long.
    """
    try:
        found = decode_as(record, _Record)
        seconds = found.timeout_seconds or 0.0
        lasts = seconds and now < read_moment(found.expires_at) + timedelta(seconds=seconds)
    except (msgspec.MsgspecError, ValueError):
        return False
    return bool(lasts) or found.version > VERSION


def hash_call(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of a call's canonical JSON.

    The order of keys does not matter. All else does, since a tool may see the difference: ``1`` is
    neither ``1.0`` nor ``true``, and text is compared by code points. At worst, a person is asked
    once more.

    Raises:
        ValidationFailed: The arguments can't be written as JSON.
    """
    try:
        canonical = json.dumps(
            [tool_name, dict(arguments)],
            sort_keys=True,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationFailed(
            f"The arguments can't be written as JSON: {error}.", field="arguments"
        ) from error
    return hashlib.sha256(canonical).hexdigest()


def written(moment: datetime) -> str:
    """Format a time for records: UTC, ISO 8601 with microseconds and offset."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def expiry(now: datetime, seconds: float) -> str:
    """Return when a question expires that is asked now."""
    return written(now + timedelta(seconds=seconds))


def read_moment(text: str) -> datetime:
    """Parse a time of a record.

    Raises:
        ValueError: The text is not a time, or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment


def _is_valid(record: Confirmation | ApprovalDecision, tool_name: str, *moments: str) -> bool:
    try:
        for moment in moments:
            read_moment(moment)
        is_intact = hash_call(tool_name, record.arguments) == record.arguments_hash
    except (ValueError, ValidationFailed):
        return False
    return is_intact and record.version <= VERSION
