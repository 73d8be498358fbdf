"""Declares the errors of turns.

The tree::

    MochiError
      * NoActiveTurn          NO_ACTIVE_TURN
      * TooManyTurns          TOO_MANY_TURNS (retryable)
      * ShuttingDown          SHUTTING_DOWN (retryable)
      * TooManyListeners      TOO_MANY_LISTENERS (retryable)
      * TurnLimitReached      TURN_LIMIT_REACHED
      * ToolLoop              TOOL_LOOP
      * EmptyAnswer           EMPTY_ANSWER (retryable)
      * AnswerInvalid         ANSWER_INVALID
      * NothingToContinue     VALIDATION_ERROR
      * HistoryChanged        MESSAGE_CHANGED (retryable)
      * MissingToolResult     MISSING_TOOL_RESULT
      + TurnInterrupted       TURN_INTERRUPTED (retryable)
        * TurnLost              TURN_INTERRUPTED (retryable)
      * JournalUnavailable    SERVICE_UNAVAILABLE (retryable)
      * TurnCrashed           INTERNAL_ERROR (retryable)
      * TurnFailed            what its journal says
      * MessageDeleted        MESSAGE_DELETED
      * KeyReused             VALIDATION_ERROR
      * KeyOfOtherVersion     VALIDATION_ERROR
      * EventNotReached       VALIDATION_ERROR
      + ConfirmationError
        * ConfirmationNotFound        CONFIRMATION_NOT_FOUND
        * ConfirmationAlreadyDecided  CONFIRMATION_ALREADY_DECIDED
        * ConfirmationExpired         TOOL_CONFIRMATION_TIMEOUT
      * SummaryNotFound       SUMMARY_NOT_FOUND
      * SummaryNotPossible    VALIDATION_ERROR
      * SummaryTimedOut       SERVICE_UNAVAILABLE (retryable)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.errors import MochiError


class NoActiveTurn(MochiError):
    """The session has no running turn to stop."""

    code = "NO_ACTIVE_TURN"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"Session {session_id} has no running turn.", session_id=session_id)


class EventNotReached(MochiError):
    """An event id names an event that its turn, which runs, has not come to."""

    code = "VALIDATION_ERROR"

    def __init__(self, number: int, last_number: int) -> None:
        super().__init__(
            f"The running turn has {last_number} events so far; there is no event {number} after "
            "which to go on. Send the id of the last event that was received, or none to get the "
            "turn from its beginning.",
            field="after",
        )


class TooManyTurns(MochiError):
    """As many turns run as may: ``MOCHI_MAX_ACTIVE_TURNS``, ``MOCHI_MAX_TURNS_PER_CLIENT``."""

    code = "TOO_MANY_TURNS"
    retryable = True

    def __init__(self, limit: int, *, of_client: bool = False) -> None:
        super().__init__(
            f"You have as many turns running as one client may ({limit}). Try again when one has "
            "ended."
            if of_client
            else f"{limit} turns are running already. Try again shortly.",
            limit=limit,
        )


class ShuttingDown(MochiError):
    """The server is stopping; what there was of the answer is on disk."""

    code = "SHUTTING_DOWN"
    retryable = True

    def __init__(self) -> None:
        super().__init__("The server is shutting down.")


class TooManyListeners(MochiError):
    """As many clients follow what changes as may (``MOCHI_MAX_LISTENERS``)."""

    code = "TOO_MANY_LISTENERS"
    retryable = True

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} clients follow what changes already. Try again shortly.", limit=limit
        )


class TurnLimitReached(MochiError):
    """The turn took too long, said too much, or its model asked for tools too often."""

    code = "TURN_LIMIT_REACHED"


class ToolLoop(MochiError):
    """The model repeated a call whose result stayed the same; its last call did not run."""

    code = "TOOL_LOOP"

    def __init__(self, tool_name: str, count: int) -> None:
        super().__init__(
            f"The model called the tool {tool_name!r} {count} times with the same arguments, and "
            "the result was the same each time; the last call did not run. Ask in other words, ask "
            "another model, or set MOCHI_TOOL_LOOP_LIMIT.",
            tool_name=tool_name,
            count=count,
        )


class EmptyAnswer(MochiError):
    """The model was asked twice, and its answers held neither text nor a call."""

    code = "EMPTY_ANSWER"
    retryable = True

    def __init__(self, offered: Sequence[str]) -> None:
        why = (
            "It may have called a tool that it was not offered (offered were "
            f"{', '.join(offered)}): providers drop such a call. Offer the tool in the session's "
            "tool_settings, or ask another model."
        )
        super().__init__(
            "The model gave an empty answer, also on a second try. "
            + (why if offered else "Rephrase the message, or choose another model."),
            offered_tools=list(offered),
        )


class AnswerInvalid(MochiError):
    """The model's answer does not fit the schema of the request, also after two corrections."""

    code = "ANSWER_INVALID"

    def __init__(self, errors: Sequence[Mapping[str, str]], content: str) -> None:
        super().__init__(
            "The model's answer does not fit the schema, also after corrections. Make the schema "
            "simpler, or ask another model.",
            errors=list(errors),
        )
        self.details["content"] = content  # longer than other texts in errors


class NothingToContinue(MochiError):
    """A chat request without a message found no user message to answer."""

    code = "VALIDATION_ERROR"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            "There is nothing to continue from: send a message.",
            session_id=session_id,
            field="message",
        )


class MissingToolResult(MochiError):
    """The client was asked to run a tool, and its next request lacks the result."""

    code = "MISSING_TOOL_RESULT"

    def __init__(self, tool_call_id: str) -> None:
        super().__init__(
            f"No tool output found for function call {tool_call_id}.",
            field="messages",
            tool_call_id=tool_call_id,
        )


class TurnInterrupted(MochiError):
    """The process that ran the turn died; what clients had seen is in the session."""

    code = "TURN_INTERRUPTED"
    retryable = True

    def __init__(self, *, resumes: int = 0) -> None:
        super().__init__(
            "The server stopped while it ran this turn. Send it again to continue.",
            **({"resumes": resumes} if resumes else {}),
        )


class TurnLost(TurnInterrupted):
    """Others took this turn's process for dead: they end the turn, and it says no other word.

    See docs/decisions/0069.
    """


class JournalUnavailable(MochiError):
    """A turn's words can't be kept just now; what there was of the answer is in the session."""

    code = "SERVICE_UNAVAILABLE"
    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "The store of running turns could not be reached for too long. What there was of the "
            "answer is saved; send it again to continue."
        )


class TurnCrashed(MochiError):
    """A defect of this server ended the turn; the log has the traceback."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("An unexpected error ended the turn.")


class TurnFailed(MochiError):
    """A turn of another process failed; code and words are those of its journal."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, **details: Any) -> None:
        super().__init__(message, **details)
        self.code = code  # type: ignore[misc]  # a class's code but here, where it was written down
        self.retryable = retryable


class MessageDeleted(MochiError):
    """A request was repeated whose message, or whose answer, was deleted since."""

    code = "MESSAGE_DELETED"

    def __init__(self, session_id: str, **named: str) -> None:
        super().__init__(
            "This request was sent before, and its message, or messages of its turn, were deleted "
            "since. Use a new key to send it again.",
            session_id=session_id,
            **named,
        )


class KeyReused(MochiError):
    """An ``Idempotency-Key`` came again with another request."""

    code = "VALIDATION_ERROR"

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was used for another request. Use a new key for a new request.",
            field="Idempotency-Key",
        )


class KeyOfOtherVersion(MochiError):
    """An ``Idempotency-Key`` is in use by a newer server on the same data directory."""

    code = "VALIDATION_ERROR"

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was taken by a newer version of this server. Use a new key.",
            field="Idempotency-Key",
        )


class HistoryChanged(MochiError):
    """The session has messages that a request does not expect; it is read again and sent again."""

    code = "MESSAGE_CHANGED"
    retryable = True

    def __init__(self) -> None:
        super().__init__("The conversation has changed meanwhile. Send the request again.")


class ConfirmationError(MochiError):
    """Something about a question whether a tool call may run."""


class ConfirmationNotFound(ConfirmationError):
    """This session asks no such question, or took it back when its turn was stopped."""

    code = "CONFIRMATION_NOT_FOUND"

    def __init__(self, confirmation_id: str) -> None:
        super().__init__(
            "This session has no such confirmation. It may have been withdrawn with its turn.",
            confirmation_id=confirmation_id[:64],  # whatever was sent
        )


class ConfirmationAlreadyDecided(ConfirmationError):
    """It was answered already; only a denial of a call that did not run replaces an approval."""

    code = "CONFIRMATION_ALREADY_DECIDED"

    def __init__(self, confirmation_id: str) -> None:
        super().__init__(
            "This confirmation was decided already. That decision stands.",
            confirmation_id=confirmation_id,
        )


class ConfirmationExpired(ConfirmationError):
    """The answer came too late: the tool call was denied."""

    code = "TOOL_CONFIRMATION_TIMEOUT"

    def __init__(self, confirmation_id: str) -> None:
        super().__init__(
            "The time to answer was over, so the tool call was denied. To be asked again, send "
            "the chat request again.",
            confirmation_id=confirmation_id,
        )


class SummaryNotFound(MochiError):
    """The session has no summary yet; `details.due` says whether one is on its way."""

    code = "SUMMARY_NOT_FOUND"

    def __init__(self, session_id: str, *, due: bool) -> None:
        super().__init__(
            f"Session {session_id} has no summary yet. POST to summarize makes one.",
            session_id=session_id,
            due=due,
        )


class SummaryNotPossible(MochiError):
    """There is nothing to summarize, or the model can't write summaries."""

    code = "VALIDATION_ERROR"


class SummaryTimedOut(MochiError):
    """The model took too long over a summary."""

    code = "SERVICE_UNAVAILABLE"
    retryable = True

    def __init__(self, model: str) -> None:
        super().__init__(f"Model '{model}' took too long over the summary.", model=model)
