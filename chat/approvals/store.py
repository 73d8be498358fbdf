"""Stores requests for approval and their answers; an answer is valid for one call.

A question is up to three records, seen by every process::

    asked      the question; replaced if the same call is asked about again
    decided    the answer; created exclusively, so exactly one of many answers is valid
    used       the approved call was passed to its tool; created exclusively as well

A denial replaces an approval that was not used. It creates ``used`` first, so that either the tool
runs or the denial is valid, and never both.

The call does not run without an answer, after a late one, if the question was withdrawn, or if a
record is unreadable. Records are written atomically, and are durable when a method returns, so a
process may die at any point: without ``decided`` there was no answer, without ``used`` no tool has
run, and a ``used`` call never runs again.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Unpack

import msgspec
from msgspec.structs import replace

from chat.approvals.confirmation import (
    ApprovalDecision,
    Confirmation,
    Decision,
    Reason,
    expiry,
    hash_call,
    is_kept,
    read_moment,
)
from chat.approvals.questions import About, new_question
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired, ConfirmationNotFound
from sessions_app.decoding import decode_as
from sessions_app.errors import SessionNotFound
from sessions_app.ids_and_clock import SESSION_ID, is_session_id
from sessions_app.messages import ToolCall
from sessions_app.store.records import (
    SharedRecords,
    kinds_of,
    read_or_empty,
    record_name,
    sweep_records,
)
from tools_app.policy import RememberedPolicy

ASKED, DECIDED, USED = KINDS = ("asked", "decided", "used")
"""The kinds of records, in the order in which those of a question are removed, ``asked`` first."""
CONFIRMATION_RECORDS = rf"{SESSION_ID}/conf_[0-9a-f]{{32}}\.(?:{'|'.join(KINDS)})"
"""A regular expression for the names of records."""

_utc_now = partial(datetime.now, UTC)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)

Notice = Callable[[Confirmation, bool], object]
"""Called with a question, and whether it was just answered or just asked."""


class ConfirmationStore:
    """Stores the questions and answers of all sessions. All calls block.

    Args:
        records: The records, with names like ``CONFIRMATION_RECORDS``.
        timeout_seconds: How long a question is open, and how long an approval may wait for its
            turn to be resumed.
        now: Returns the time, with time zone.
        notice: Called for each question that is asked, and for each that is answered.
    """

    def __init__(
        self,
        records: SharedRecords,
        *,
        timeout_seconds: float,
        now: Callable[[], datetime] = _utc_now,
        notice: Notice | None = None,
    ) -> None:
        self._records = records
        self.timeout_seconds = timeout_seconds
        self.now = now
        self._notice = notice or (lambda *_: None)

    def ask(self, *, session_id: str, call: ToolCall, **about: Unpack[About]) -> Confirmation:
        """Ask a question, or ask it again: an open one about the same call keeps its id.

        Asking again restarts the timeout. An answer may arrive just before: look for one first.

        Args:
            session_id: The session.
            call: The call.
            about: The rest of the question.

        Raises:
            SessionNotFound: The session's id is malformed.
            ValidationFailed: The call's arguments can't be written as JSON.
            StorageFull: No space is left.
        """
        if not is_session_id(session_id):
            raise SessionNotFound(session_id)
        question = new_question(session_id, call, self.now(), self.timeout_seconds, **about)
        again = self._ask_again(question) if question.kind == "call" else None
        if again is None:
            self._put(question, ASKED, question, exclusive=True)
        self._notice(again or question, False)
        return again or question

    def renew(self, question: Confirmation, turn_id: str) -> Confirmation:
        """Ask a server's question again, for a turn that goes on."""
        expires_at = expiry(self.now(), question.timeout_seconds or self.timeout_seconds)
        again = replace(question, turn_id=turn_id, expires_at=expires_at)
        self._put(again, ASKED, again)
        self._notice(again, False)
        return again

    def left_open(self, session_id: str, message_id: str) -> list[Confirmation]:
        """Return the questions of ended calls of a message whose answers were not used, in order.

        The calls are repeated with the answers.
        """
        found = self._questions(session_id, lambda kinds: USED not in kinds)
        of_message = [asked for asked, _ in found if asked.message_id == message_id]
        return sorted((it for it in of_message if it.retry), key=lambda it: it.created_at)

    def take(self, question: Confirmation) -> ApprovalDecision | None:
        """Use up the answer to a server's question, whatever it is; None if it was used before."""
        decision = self.decision_of(question)
        return decision if self._use_up(question) else None

    def decide(
        self,
        session_id: str,
        decision: Decision,
        *,
        repeatable: bool = False,
        dry: bool = False,
        is_final: bool = False,
        remembered: RememberedPolicy | None = None,
    ) -> tuple[Confirmation, ApprovalDecision]:
        """Answer a question; the first answer succeeds, and a denial as long as no tool ran.

        Returns the question, with the turn to wake, and the valid answer.

        Args:
            session_id: The session that asked.
            decision: The answer; only ``True`` counts as yes.
            repeatable: Whether to repeat the recorded answer succeeds, and a late denial.
            dry: Whether to raise what would be raised, and to record nothing.
            is_final: Whether a denial, too, must be the first answer.
            remembered: The policy that an approval sets for further calls.

        Raises:
            ConfirmationNotFound: This session has no such question, or it was withdrawn.
            ConfirmationExpired, ConfirmationAlreadyDecided: This answer comes too late.
            ValidationFailed, StorageFull: It does not fit; no space is left. It stays open.
        """
        confirmation_id = decision.confirmation_id
        question = self._question(session_id, confirmation_id)
        if question is None:
            raise ConfirmationNotFound(confirmation_id)
        before = self.decision_of(question)
        is_late = before.reason == "timeout" if before else not question.is_open(self.now())
        is_yes = decision.approved is True
        reason: Reason = "denied" if not is_yes else "timeout" if is_late else "approved"
        answer = question.answer(reason, self.now(), decision, remembered)
        standing = self._record(question, answer, dry=dry, is_final=is_final)
        if standing.reason == "withdrawn":
            raise ConfirmationNotFound(confirmation_id)
        is_same = repeatable and standing.says(decision, question)
        if not is_same and (is_late or standing is not answer):
            is_late |= standing.reason == "timeout"
            raise (ConfirmationExpired if is_late else ConfirmationAlreadyDecided)(confirmation_id)
        # Read again: a turn that asked again meanwhile either saw the answer or is the one to wake.
        return self._question(session_id, confirmation_id) or question, standing

    def expire(self, question: Confirmation) -> ApprovalDecision:
        """Answer an expired question with no; return the valid answer, maybe an earlier one."""
        return self._claim(question, question.answer("timeout", self.now()))

    def decision(self, session_id: str, confirmation_id: str) -> ApprovalDecision | None:
        """Return the answer to a question of a session; None if one of the two does not exist."""
        question = self._question(session_id, confirmation_id)
        return None if question is None else self.decision_of(question)

    def decision_of(self, question: Confirmation) -> ApprovalDecision | None:
        """Return the answer to the question; None without one.

        An unreadable answer counts as no, since a question must not be answered twice.
        """
        data = self._read(question.session_id, question.confirmation_id, DECIDED)
        if data is None:
            return None
        try:
            found = decode_as(data, ApprovalDecision)
        except _UNREADABLE:
            return question.answer("timeout", self.now())
        return found if found.is_answer_to(question) else question.answer("timeout", self.now())

    def restore(self, question: Confirmation) -> None:
        """Write a question again if its record was lost, while its turn still waits.

        If the answer was lost, too, it has to be given again.
        """
        if self._read(question.session_id, question.confirmation_id, ASKED) is None:
            self._put(question, ASKED, question, exclusive=True)

    def find_decided(
        self, session_id: str, message_id: str, call: ToolCall, tool_digest: str | None = None
    ) -> ApprovalDecision | None:
        """Return the answer for an open call, for a turn that resumes; None to ask again.

        A no is valid as long as it is stored, even if the tool has changed; a yes for
        as long as its question, and only if it was not used. Expired questions are asked again.
        """
        wanted = hash_call(call.name, call.arguments)
        approvals = []
        for question, kinds in self._questions(session_id, lambda kinds: DECIDED in kinds):
            if not question.is_about(message_id, call.id, wanted, question.tool_digest):
                continue
            decision = self.decision_of(question)
            if decision is not None and decision.reason == "denied":
                return decision
            if USED in kinds or question.tool_digest not in (None, tool_digest):
                continue
            if decision is None or not decision.approved:
                continue
            if self.is_recent(decision.decided_at, question.timeout_seconds):
                approvals.append(decision)
        return max(approvals, key=lambda decision: decision.decided_at, default=None)

    def calls_asked(self, session_id: str, message_id: str) -> set[str] | None:
        """Return the calls of a message that were asked about; None if a question is unreadable.

        One question that is left tells of those that were swept.
        """
        asked = [self._question(session_id, name) for name in kinds_of(self._records, session_id)]
        of_message = [each for each in asked if each and each.message_id == message_id]
        ids = {call_id for each in of_message for call_id in (each.tool_call_id, *each.call_ids)}
        return None if None in asked else ids

    def consume(self, session_id: str, confirmation_id: str) -> bool:
        """Use up an approval and return True; its tool may run only then.

        Returns False if the call was not approved, or the approval was used before.
        """
        question = self._question(session_id, confirmation_id)
        decision = self.decision_of(question) if question is not None else None
        if question is None or decision is None or not decision.approved:
            return False
        return self._use_up(question)

    def withdraw(self, questions: Iterable[Confirmation]) -> None:
        """Withdraw questions, so that they can't be answered any more.

        Approvals that were given already are used up.
        """
        for question in questions:
            standing = self.decision_of(question)
            if standing is None:
                standing = self._claim(question, question.answer("withdrawn", self.now()))
            if standing.approved or question.kind != "call":
                self._use_up(question)

    def withdraw_all(self, session_id: str) -> None:
        """Withdraw all questions and unused approvals of a session."""
        unused = self._questions(session_id, lambda kinds: USED not in kinds)
        self.withdraw(question for question, _ in unused)

    def pending(self, session_id: str) -> list[Confirmation]:
        """Return the questions that wait for an answer, oldest first."""
        return sorted(
            self._open(session_id), key=lambda question: (question.created_at, question.call_index)
        )

    def unanswered(self, session_id: str) -> list[Confirmation]:
        """Return the questions without an answer, open or expired, in no particular order."""
        return [question for question, _ in self._questions(session_id, lambda it: it == {ASKED})]

    def answered(self, session_id: str) -> list[Confirmation]:
        """Return the questions that have an answer, yes or no, in no particular order."""
        decided = self._questions(session_id, lambda kinds: DECIDED in kinds)
        return [question for question, _ in decided]

    def is_answered_by_person(self, question: Confirmation) -> bool:
        """Return whether a person answered it: it neither expired nor was it withdrawn."""
        decision = self.decision_of(question)
        return decision is not None and decision.reason in {"approved", "denied"}

    def stamps(self) -> Mapping[str, Hashable]:
        """Return the sessions that may have questions, each with a stamp of its records.

        While the stamp is the same, ``pending`` returns the same questions, except those that have
        expired since.
        """
        return self._records.stamps()

    def is_recent(self, moment: str, seconds: float | None = None) -> bool:
        """Return whether an approval of that time counts; False also if it can't be read."""
        try:
            age = self.now() - read_moment(moment)
        except ValueError:
            return False
        return timedelta(0) <= age <= timedelta(seconds=seconds or self.timeout_seconds)

    def discard_session(self, session_id: str) -> None:
        """Remove all records of a session."""
        self._records.discard(session_id)

    def sweep(self, older_than_seconds: float) -> int:
        """Remove questions that have not changed for that long; return how many.

        Open questions and usable approvals are kept regardless of their age.
        """
        newest = self.now().timestamp() - max(older_than_seconds, self.timeout_seconds)
        return sweep_records(self._records, newest, partial(is_kept, now=self.now()))

    def _ask_again(self, question: Confirmation) -> Confirmation | None:
        """Ask an existing open question about the same call again; return None without one."""
        session_id = question.session_id
        call = question.message_id, question.tool_call_id, question.arguments_hash
        for open_one in self._open(session_id):
            if open_one.is_about(*call, question.tool_digest):
                ids = {"confirmation_id": open_one.confirmation_id}
                again = replace(question, created_at=open_one.created_at, **ids)
                self._put(again, ASKED, again)
                decision = self.decision_of(again)
                if decision is None or decision.reason in {"approved", "denied"}:
                    return again
            elif open_one.is_about(*call, open_one.tool_digest):
                # Its tool was another one then: an answer would say nothing of what runs now.
                self.withdraw([open_one])
        return None

    def _open(self, session_id: str) -> Iterator[Confirmation]:
        return (each for each in self.unanswered(session_id) if each.is_open(self.now()))

    def _questions(
        self, session_id: str, have: Callable[[set[str]], bool]
    ) -> Iterator[tuple[Confirmation, set[str]]]:
        """Yield the questions of a session that have such kinds of records, with these kinds."""
        for confirmation_id, kinds in kinds_of(self._records, session_id).items():
            question = self._question(session_id, confirmation_id) if have(kinds) else None
            if question is not None:
                yield question, kinds

    def _question(self, session_id: str, confirmation_id: str) -> Confirmation | None:
        """Return a question of this session; None without a valid one."""
        try:
            data = self._read(session_id, confirmation_id, ASKED)
            question = decode_as(data or b"", Confirmation)
        except _UNREADABLE:
            return None
        named_so = (question.session_id, question.confirmation_id) == (session_id, confirmation_id)
        return question if named_so and question.is_sound else None

    def _record(
        self, question: Confirmation, answer: ApprovalDecision, *, dry: bool, is_final: bool
    ) -> ApprovalDecision:
        """Record an answer; return the valid one: a denial replaces what let no call begin."""
        standing = (self.decision_of(question) or answer) if dry else self._claim(question, answer)
        is_final |= question.kind != "call" or standing.reason in {"denied", "withdrawn"}
        if answer.reason != "denied" or is_final:
            return standing
        if dry:
            return answer
        if standing.approved and not self._use_up(question):
            return standing
        self._put(question, DECIDED, answer)
        self._notice(question, True)
        return answer

    def _claim(self, question: Confirmation, answer: ApprovalDecision) -> ApprovalDecision:
        """Record an answer; return the valid one: ``answer`` itself if it was the first."""
        if self._put(question, DECIDED, answer, exclusive=True):
            self._notice(question, True)
            return answer
        return self.decision_of(question) or question.answer("timeout", self.now())

    def _use_up(self, question: Confirmation) -> bool:
        """Create ``used``; what a person filled in is then removed."""
        used = {"version": question.version_of_kind}
        is_first = self._put(question, USED, used, exclusive=True)
        standing = self.decision_of(question) if question.schema is not None else None
        if standing is not None and standing.content is not None:
            self._put(question, DECIDED, replace(standing, content=None))
        return is_first

    def _put(
        self, question: Confirmation, kind: str, record: Any, *, exclusive: bool = False
    ) -> bool:
        name = record_name(question.session_id, question.confirmation_id, kind)
        data = msgspec.json.encode(record)
        return self._records.put(name, data, exists=False if exclusive else None)

    def _read(self, session_id: str, confirmation_id: str, kind: str) -> bytes | None:
        return read_or_empty(self._records, record_name(session_id, confirmation_id, kind))
