"""Asks the model for one answer of a turn and streams it (docs/decisions/0032)."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from msgspec import UNSET

from chat.context.window import WindowChoice, grow
from chat.errors import AnswerInvalid, TurnLimitReached
from chat.stream.commit_point import CommitPoint
from chat.stream.events import ContentReset, Event, StatusChanged
from chat.stream.notes import RoundBegan
from chat.stream.turn_stream import TurnStream
from chat.turn.answer_check import check_answer, correction, described
from chat.turn.attached_files import have_attachments
from chat.turn.job import TurnJob
from chat.turn.loop_guard import LoopGuard
from chat.turn.model_answer import ModelAnswer
from chat.turn.model_requests import (
    asked_again,
    asked_for_call,
    asked_to_fit,
    asked_to_write_again,
    rest_of,
)
from chat.turn.session_writer import SessionWriter
from chat.turn.state_machine import TurnMachine
from models_app.errors import CallRefused, ModelError, ToolCallUnreadable
from models_app.language_model import (
    Delta,
    Finished,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
)
from models_app.window_sizes import fills_window
from sessions_app.messages import NO_EXTRA, ToolSpec
from tools_app.output_limit import cut

logger = logging.getLogger(__name__)

LOADING_SECONDS = 2.0
MAX_CALLS_AT_ONCE = 128
LONGEST_STEP = 1 << 16
UNREADABLE = "The model wrote a tool call that could not be read; it is called again."
EMPTY = "The model gave an empty answer; it is called again."
ONLY_REASONING = "Only reasoning came from the model, no answer. Ask again, or ask another model."
UNFIT = "The model's answer does not fit the schema; it is called again, without tools."
CORRECTIONS = 2
"""The corrections of an answer that must fit a schema."""


class AnswerSink:
    """Passes text straight to the stream; everything else goes through the turn's loop.

    Has slots, and no callback to the engine (``TurnStream.take_no_more``): with a thousand streams
    the memory that a token touches costs more than the code (docs/decisions/0091).
    """

    __slots__ = ("_answer", "_commit_point", "_has_begun", "_stream")

    def __init__(self, answer: ModelAnswer, commit_point: CommitPoint, stream: TurnStream) -> None:
        self._answer = answer
        self._commit_point = commit_point
        self._stream = stream
        self._has_begun = False

    def take(self, batch: Sequence[Delta]) -> bool:
        """Add a batch of text and send its events; return False if the turn must handle it."""
        if not self._has_begun:
            self._has_begun = self._commit_point.is_committed and self._answer.has_output
            if not self._has_begun:
                return False
        if not self._stream.has_room:
            return False
        events = self._answer.absorb_text(batch)
        if events:
            self._stream.emit(events)
        return events is not None


class ModelCaller:
    """Calls the model of one turn, once per round.

    Args:
        job: The turn: its model, its tools, its phases.
        stream: Receives the answer's events.
        commit_point: Decides when the first event may be sent.
        session_writer: Has the session, with the messages that the turn saved.
        machine: Says whether the turn is to be stopped; asked with every batch, because a library
            may have swallowed the cancellation.

    Attributes:
        window: The context window of the next request.
    """

    def __init__(
        self,
        job: TurnJob,
        *,
        stream: TurnStream,
        commit_point: CommitPoint,
        session_writer: SessionWriter,
        machine: TurnMachine,
    ) -> None:
        self.window = job.window
        self._job = job
        self._stream = stream
        self._commit_point = commit_point
        self._session_writer = session_writer
        self._machine = machine
        self._compactor = job.compactor()
        self._first_call = job.first_call
        self._loop_guard = LoopGuard(job.tool_limits.repeats)
        self._loaded = job.loaded

    async def ask(
        self, answer: ModelAnswer, tools: Sequence[ToolSpec], *, planning: bool = False
    ) -> None:
        """Request an answer, which is filled as it arrives; ask again once if it is empty.

        Args:
            answer: The answer; the model goes on with what it has.
            tools: The tools that the model may call.
            planning: Whether the turn is in the first of its two phases.

        Raises:
            ModelError: The model call failed.
            TurnLimitReached: The answer has too many tool calls, or is too long.
            ToolLoop: The answer repeats a call whose result stayed the same.
            StorageError: The answer can't be journalled.
        """
        self._stream.require_room()
        replaced_id = self._job.continuation.replaced_id
        self._stream.note(
            RoundBegan(
                message_id=answer.message_id,
                model=self._job.model,
                replaced_id=UNSET if replaced_id is None else replaced_id,
                first_call_index=answer.first_call_index,
            )
        )
        request = await self._request(answer, () if planning else tools, planning=planning)
        try:
            if answer.text:  # another process began it
                await self._continue_answer(answer, request, self.window)
            else:
                request = await self._stream_first(answer, request)
            await self._go_on_in_larger_windows(answer, request)
            if answer.holds_text or (self._job.requires_fit and not answer.calls):
                await self._fit_to_schema(answer, request)
            elif answer.is_empty and (request.tools or not answer.thinking):
                self._commit_point.send_or_hold([StatusChanged(state="retrying", message=EMPTY)])
                await self._stream_answer(answer, asked_again(request, self.window.window))
                self._note_growth(answer)
        finally:
            if answer.holds_text:  # it broke off, and nobody has seen it
                answer.drop_text()
        if answer.is_empty and answer.thinking:  # docs/decisions/0124
            status = StatusChanged(state="warning", message=ONLY_REASONING)
            self._commit_point.send_or_hold([status])
        self._loop_guard.require_progress(answer.calls)

    async def _stream_first(self, answer: ModelAnswer, request: ModelRequest) -> ModelRequest:
        """Stream an answer, once more if its calls could not be read; return the last request."""
        try:
            await self._stream_answer(answer, request)
        except ToolCallUnreadable as error:
            if answer.shows_text:
                raise
            self._note_growth(answer)
            again = asked_to_write_again(
                request,
                error.details["reason"],
                default_prompt=self._job.rules.default_prompt,
                window=self.window.window,
            )
        else:
            return request
        self._commit_point.send_or_hold([StatusChanged(state="retrying", message=UNREADABLE)])
        answer.begin_again()
        await self._stream_answer(answer, again)
        return again

    async def _fit_to_schema(self, answer: ModelAnswer, request: ModelRequest) -> None:
        """Show an answer that fits the schema, or ask again without tools.

        Raises:
            AnswerInvalid: The turn requires an answer that fits, and none did.
        """
        schema, is_required = request.answer_schema or {}, self._job.requires_fit
        for repeats in range(CORRECTIONS + 1):
            answer.parsed, faults = await asyncio.to_thread(check_answer, answer.text, schema)
            if not faults:
                self._commit_point.send_or_hold(answer.show_text())
                return
            if repeats == CORRECTIONS:
                raise AnswerInvalid([*map(described, faults)], cut(answer.text))
            events: list[Event] = [StatusChanged(state="retrying", message=UNFIT)]
            if answer.text and not answer.holds_text:
                events.append(ContentReset(message_id=answer.message_id))
            self._commit_point.send_or_hold(events)
            again = asked_to_fit(
                request, answer.drop_text(), correction(faults[0]), self.window.window
            )
            await self._stream_answer(answer, again)
            self._note_growth(answer)
            if answer.calls or not is_required:
                return

    async def _go_on_in_larger_windows(self, answer: ModelAnswer, request: ModelRequest) -> None:
        """Continue an answer that reached the end of the window, in a larger one if possible.

        The model continues its own last message. If the call fails, the answer ends there.
        """
        self._note_growth(answer)
        while (larger := self._larger_window(answer)) is not None:
            cut = answer.finished
            said = answer.raw_text
            try:
                if not await self._continue_answer(answer, request, larger):
                    return
            except (ModelError, CallRefused) as error:
                if answer.raw_text != said or answer.finished is not cut:
                    raise
                logger.info("an answer was not continued", extra={"code": error.code})
                return
            self.window = larger
            self._note_growth(answer)

    async def _continue_answer(
        self, answer: ModelAnswer, request: ModelRequest, window: WindowChoice
    ) -> bool:
        """Have the model go on with its answer; return False if its token limit is reached."""
        rest = rest_of(request, answer, window)
        if rest is None:
            answer.finished = answer.finished or Finished("length")
            return False
        answer.go_on()
        await self._stream_answer(answer, rest)
        return True

    def _larger_window(self, answer: ModelAnswer) -> WindowChoice | None:
        """Return the next larger window if the answer filled this one and it may grow."""
        done, window = answer.finished, self.window.window
        if done is None or done.done_reason != "length" or answer.calls:
            return None
        size = window or self.window.default
        if not fills_window(done.prompt_eval_count, done.eval_count, size):
            return None
        larger = grow(
            self.window,
            max_context=self._job.rules.max_context,
            usage_tokens=(done.prompt_eval_count or 0) + (done.eval_count or 0),
        )
        return larger if (larger.window or 0) > (window or 0) else None

    def _note_growth(self, answer: ModelAnswer) -> None:
        """Remember the window that the provider grew to, if it did."""
        grown, answer.context_window = answer.context_window, None
        if grown is not None:
            self.window = WindowChoice(window=grown, reason="usage_threshold")

    async def _stream_answer(self, answer: ModelAnswer, request: ModelRequest) -> None:
        loading = asyncio.get_running_loop().call_later(
            LOADING_SECONDS, self._commit_point.send_or_hold, [StatusChanged(state="loading_model")]
        )
        has_begun = False
        if answer.asked_at is None:
            answer.asked_at = time.perf_counter()
        try:
            async with aclosing(self._job.language_model.stream(request)) as batches:
                async for batch in batches:
                    steps = in_steps(batch)
                    is_long = len(steps) > 1
                    for part in steps if has_begun or is_long else from_first_text(batch):
                        if self._machine.stopping is not None:
                            raise asyncio.CancelledError
                        if self._take(answer, part) and not has_begun:
                            has_begun = True
                            loading.cancel()
                            answer.first_output_at = answer.first_output_at or time.perf_counter()
                            # Clients get it before the turn goes on: where the rest has
                            # arrived too, it would first read and save all of it.
                            await asyncio.sleep(0)
                        elif is_long:
                            await asyncio.sleep(0)  # others go on
                    if self._stream.is_congested:
                        await self._stream.flushed()
        finally:
            answer.ended_at = time.perf_counter()
            loading.cancel()

    async def _request(
        self, answer: ModelAnswer, tools: Sequence[ToolSpec], *, planning: bool
    ) -> ModelRequest:
        self._loop_guard.watch(self._session_writer.session.messages)
        if self._loaded is not None:
            self.window, self._loaded = self._job.window_with(await self._loaded), None
        compacted = await self._compactor.compact(
            self._session_writer.session,
            self.window,
            keep=self._session_writer.keep_context,
            announce=self._announce_compression,
        )
        self.window = compacted.window
        messages, phases = self._loop_guard.noted(compacted.messages), self._job.phases
        if phases is not None:
            messages = phases.planning(messages) if planning else phases.executing(messages)
        files: Mapping[str, bytes] = NO_EXTRA
        if self._job.attached is not None and have_attachments(messages):
            messages, files = await asyncio.to_thread(self._job.attached.load, messages)
        first_call, self._first_call = self._first_call, "optional"
        options = {**self._job.options}
        if planning:
            options.pop("stop", None)
        request = ModelRequest(
            model=self._job.model,
            messages=messages,
            tools=tools,
            think=self._job.think,
            context_window=self.window.window,
            options=options,
            answer_schema=self._job.answer_schema,
            requires_call=first_call == "forced",
            purpose=self._job.purpose,
            sink=AnswerSink(answer, self._commit_point, self._stream).take,
            files=files,
        )
        return asked_for_call(request) if first_call == "asked_for" else request

    def _take(self, answer: ModelAnswer, batch: Sequence[Delta]) -> bool:
        """Add a batch and send its events; return whether the answer has any output."""
        events = answer.absorb(batch)
        if len(answer.calls) > MAX_CALLS_AT_ONCE:
            raise TurnLimitReached(
                f"The model asked for more than {MAX_CALLS_AT_ONCE} tools at once."
            )
        if not answer.has_output:
            self._commit_point.send_or_hold(events)
            return False
        if not self._commit_point.is_committed:
            self._commit_point.commit(events)
        elif events:
            self._stream.emit(events)
        self._stream.require_room()
        return True

    def _announce_compression(self) -> None:
        self._commit_point.send_or_hold([StatusChanged(state="compressing_context")])


def in_steps(batch: Sequence[Delta]) -> Sequence[Sequence[Delta]]:
    """Cut texts that take long to clean, so that others can go on in between."""
    if not any(
        isinstance(delta, TextDelta | ThinkingDelta) and len(delta.text) > LONGEST_STEP
        for delta in batch
    ):
        return (batch,)
    steps: list[Sequence[Delta]] = []
    for delta in batch:
        if isinstance(delta, TextDelta | ThinkingDelta):
            cuts = range(0, len(delta.text), LONGEST_STEP)
            steps += [[type(delta)(delta.text[at : at + LONGEST_STEP])] for at in cuts]
        else:
            steps.append([delta])
    return steps


def from_first_text(batch: Sequence[Delta]) -> Sequence[Sequence[Delta]]:
    """Split the first batch of an answer after its first text, so that it is sent without delay."""
    for end, delta in enumerate(batch, start=1):
        if isinstance(delta, TextDelta | ThinkingDelta) and end < len(batch):
            return batch[:end], batch[end:]
    return (batch,)
