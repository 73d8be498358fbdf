"""Tracks which messages of a session are not sent any more, and adds to them. Pure."""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from chat.context.attachment_costs import AttachmentRules
from chat.context.attachments import with_mentions
from chat.context.history import for_model
from chat.context.processors import with_summary
from chat.context.strategy import Strategy
from models_app.vendors.signatures import without_state
from sessions_app.context_state import ContextState, digest_of
from sessions_app.messages import Message, ToolMessage, ToolSpec, shown
from sessions_app.variants import answer_start, turn_start
from tools_app.recall.arguments import EXPAND

Reason = Literal["summarized", "truncated", "filtered", "without_text", "hidden"]


class DroppedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not sent, and the reason."""

    message_id: str
    role: str
    reason: Reason


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The messages, and the images and PDFs, to drop before the request is sent.

    Attributes:
        state: The state to save in the session's metadata, after adding a summary where one is
            wanted.
        messages: The messages that are dropped from now on, oldest first.
        previous: The summary of those that were dropped before.
        summarize: Whether a summary of both is wanted.
    """

    state: ContextState
    messages: Sequence[Message]
    previous: str | None
    summarize: bool


class SessionHistory:
    """A session's messages, and what of them is dropped already.

    Args:
        messages: The session's messages, all of them; those that are hidden count nowhere.
        state: What was left out so far, as the session's file says.
        strategy: What to do if a request is too long.
        rules: What the model takes of attachments.
        tools: The tools that are offered: what a summary stands for may be read with one.

    Attributes:
        state: The state as far as it holds.
        strategy: As it was given.
        rules: As they were given.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        state: ContextState | None,
        strategy: Strategy,
        rules: AttachmentRules,
        *,
        tools: Sequence[ToolSpec] = (),
    ) -> None:
        self._expands = any(tool.name == EXPAND for tool in tools)
        self._all = messages
        self._messages = shown(messages)
        span = span_of(self._messages, state, strategy)
        self.state = state if span is not None else None
        self.strategy = strategy
        self._span = span if span is not None else range(0)
        self.rules = rules
        self._attached = [each.message_id for each in self._messages if each.attachments]
        self._without_files: Collection[str] = ()
        if self.state is not None and self.state.files_until is not None:
            self._leave_files_out(self.state, self.state.files_until)

    def _leave_files_out(self, state: ContextState, until: str) -> None:
        """Leave out what the state says; where that message is gone, begin anew."""
        if until in self._attached:
            self._without_files = self._attached[: self._attached.index(until) + 1]
        else:
            self.state = msgspec.structs.replace(state, files_until=None) if state.count else None

    @property
    def has_attachments(self) -> bool:
        """Return whether any message has attachments."""
        return bool(self._attached)

    @property
    def files_since(self) -> str:
        """When images and PDFs were left out; empty where none are."""
        return self.since if self._without_files else ""

    @property
    def since(self) -> str:
        """When the beginning became what it is; empty where nothing is left out."""
        return self.state.created_at if self.state else ""

    def sent(self) -> Sequence[Message]:
        """Return what is sent, as a model is sent it."""
        sent = self._sent()
        if not self._attached:
            return sent
        return with_mentions(sent, self.rules, left_out=frozenset(self._without_files))

    def _sent(self) -> Sequence[Message]:
        if self.state is None:
            return for_model(self._messages)
        span = self._span
        last = answer_start(self._messages) - 1
        asked = [self._messages[last]] if last in span else []
        shown = for_model([*self._messages[: span.start], *asked, *self._messages[span.stop :]])
        kept = _without_bound_thinking(shown, self.since)
        summary = self.state.summary
        return with_summary(kept, summary, expands=self._expands) if summary else kept

    def cut(self, removed: Sequence[Message], *, now: str) -> Compaction | None:
        """Return what to leave out so that these messages are; None if there is nothing."""
        ids = {message.message_id for message in removed} - {""}
        places = [at for at, message in enumerate(self._messages) if message.message_id in ids]
        if not places:
            return None
        start, stop = min(places), max(places) + 1
        while stop < len(self._messages) and isinstance(self._messages[stop], ToolMessage):
            stop += 1  # a result that was made up in the place of a lost one has no id
        if self._span:
            start, stop = min(start, self._span.start), max(stop, self._span.stop)
        covered = self._messages[start:stop]
        previous = self.state.summary if self.state else None
        # What has no summary because the model failed gets it now. The question of a long turn is
        # still sent itself, but may be in the summary alone one day.
        summarized = self._span if previous or not self.strategy.summarizes else range(0)
        new = [at for at in range(start, stop) if at not in summarized]
        return Compaction(
            state=ContextState(
                strategy=self.strategy.name,
                first_id=covered[0].message_id,
                last_id=covered[-1].message_id,
                count=len(covered),
                digest=digest_of(covered),
                created_at=now,
                files_until=self.state.files_until if self.state else None,
            ),
            messages=for_model([self._messages[at] for at in new]),
            previous=previous,
            summarize=self.strategy.summarizes,
        )

    def leave_files_out(self, until: str, compaction: Compaction | None, *, now: str) -> Compaction:
        """Return the compaction that leaves out images and PDFs too, up to that message."""
        if compaction is not None:
            state = msgspec.structs.replace(compaction.state, files_until=until)
            return msgspec.structs.replace(compaction, state=state)
        state = self.state or ContextState(
            strategy=self.strategy.name, first_id="", last_id="", count=0, digest="", created_at=""
        )
        return Compaction(
            state=msgspec.structs.replace(state, files_until=until, created_at=now),
            messages=(),
            previous=None,
            summarize=False,
        )

    def dropped(self, messages: Sequence[Message], *, filtered: bool) -> list[DroppedMessage]:
        """Return which messages are not among those that are sent, and why."""
        if self.state is None and len(messages) == len(self._all):
            return []
        there = {message.message_id for message in messages}
        covered: Reason = "summarized" if self.state and self.state.summary else "truncated"
        otherwise: Reason = "filtered" if filtered else "without_text"
        in_span = {
            message.message_id for message in self._messages[self._span.start : self._span.stop]
        }
        return [
            DroppedMessage(
                message_id=message.message_id,
                role=message.role,
                reason="hidden"
                if message.hidden
                else covered
                if message.message_id in in_span
                else otherwise,
            )
            for message in self._all
            if message.message_id not in there
        ]


def span_of(
    messages: Sequence[Message], state: ContextState | None, strategy: Strategy
) -> range | None:
    """Return where the shown messages stand that a state leaves out; None if it does not hold."""
    if state is None or state.strategy != strategy.name:
        return None
    if not state.count:
        return range(0) if state.files_until is not None else None
    start = next((at for at, m in enumerate(messages) if m.message_id == state.first_id), None)
    if start is None:
        return None
    span = range(start, start + state.count)
    if span.stop > len(messages) or messages[span.stop - 1].message_id != state.last_id:
        return None
    return span if digest_of(messages[span.start : span.stop]) == state.digest else None


def _without_bound_thinking(messages: Sequence[Message], since: str) -> Sequence[Message]:
    """Return the messages without signed thinking of the running round from before that time.

    Models that bind their thinking to what came before it refuse it in another history.
    """
    start = stop = turn_start(messages)
    while stop < len(messages) and messages[stop].timestamp <= since:
        stop += 1
    return [*messages[:start], *without_state(messages[start:stop]), *messages[stop:]]
