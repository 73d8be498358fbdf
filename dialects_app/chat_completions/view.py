"""Answers requests for chat completions: opens the turn, then streams it or waits for its end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import msgspec
from django.http.response import HttpResponseBase

from chat.inbox.queued_stream import QueuedStream
from chat.inbox.service import InboxService, QueuedMessage
from chat.service import OpenTurn
from dialects_app.chat_completions.answer import completion_of
from dialects_app.chat_completions.body import CompletionIn
from dialects_app.chat_completions.branches import Branch, branch_from, branch_of_chat
from dialects_app.chat_completions.projector import ChunkProjector
from dialects_app.chat_completions.request import ParsedCompletion, read_request
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.parsed_request import (
    RequestContext,
    name_of_field,
    with_kept_files,
    with_notes,
)
from dialects_app.shared.refused_turns import events_at_end, rest_of_events
from dialects_app.shared.streams import json_response, stream_or_refusal, stream_when_taken
from dialects_app.shared.waiting import WHEN_BUSY_HEADER, open_or_queue
from models_app.catalogue import ModelCatalogue
from sessions_app.errors import SessionExists
from sessions_app.service import SessionManager


async def answer_completion(parsed: ParsedCompletion, turn: OpenTurn) -> HttpResponseBase:
    """Return the answer of a turn as a stream of chunks or as one object."""
    return await (_streamed(parsed, turn) if parsed.streams else _whole(parsed, turn))


class Completions(msgspec.Struct, frozen=True, kw_only=True):
    """Answers requests for completions, with the services that it takes."""

    inbox: InboxService
    sessions: SessionManager
    models: ModelCatalogue
    files: RequestFiles

    async def answer(
        self,
        body: CompletionIn,
        context: RequestContext,
        answer_with: Callable[
            [ParsedCompletion, OpenTurn], Awaitable[HttpResponseBase]
        ] = answer_completion,
    ) -> HttpResponseBase:
        """Return the response to a request, which ``answer_with`` makes of its turn.

        Raises:
            MochiError: The turn could not start or, without streaming, an error ended it.
        """
        parsed, turn = await self._open(body, context)
        with renamed_fields(partial(name_of_field, paths=parsed.paths)):
            if isinstance(turn, QueuedStream):
                answer = await _answer_later(parsed, turn)
            else:
                answer = await answer_with(parsed, turn)
        return with_notes(answer, parsed, turn.session_id, self.models)

    async def _open(
        self, body: CompletionIn, context: RequestContext
    ) -> tuple[ParsedCompletion, OpenTurn | QueuedStream]:
        """Open the turn on the session that holds the history, which is made if there is none.

        Of another program's chat only streaming requests belong to a session: titles and tags are
        requested without streaming.
        """
        while (branch := await asyncio.to_thread(self._branch, body, context)) is not None:
            with suppress(SessionExists):  # another request of the same chat has made it meanwhile
                return await self._open_as(body, context, branch)
        return await self._open_as(body, context)

    def _branch(self, body: CompletionIn, context: RequestContext) -> Branch | None:
        """Return the session that holds the resent history; None if none is compared. Blocks."""
        if context.session_id is None:
            if not (context.chat_id and body.stream):
                return None
            return branch_of_chat(self.sessions, context.chat_id, body.model_name, body.messages)
        if all(each.role != "assistant" for each in body.messages):  # only what is new is sent
            return None
        session = self.sessions.get(context.session_id)
        if session.metadata.model != body.model:  # refused by the turn
            return None
        return branch_from(session, body.messages)

    async def _open_as(
        self, body: CompletionIn, context: RequestContext, branch: Branch | None = None
    ) -> tuple[ParsedCompletion, OpenTurn | QueuedStream]:
        parsed = await asyncio.to_thread(
            read_request,
            body,
            session_id=context.session_id,
            branch=branch,
            own_tools=context.own_tools,
            turn=context.turn,
        )
        kept = await self.files.keep(parsed.chat.turn.messages, parsed.files)
        parsed = with_kept_files(parsed, kept)
        # Whether it is asked for as a stream makes no other turn of it.
        sent = msgspec.structs.replace(body, stream=None, stream_options=None)
        beside = [context.session_id, context.own_tools, *context.turn.options.items()]
        with renamed_fields(partial(name_of_field, paths=parsed.paths)):
            turn = await open_or_queue(
                self.inbox,
                parsed.chat,
                context.key,
                when_busy=context.when_busy,
                supported=("queue", "interrupt"),
                field=WHEN_BUSY_HEADER,
                client=context.client,
                identity=[sent, *beside],
            )
        if isinstance(turn, QueuedMessage):
            return parsed, await self.inbox.listen(turn.session_id, turn.message_id)
        return parsed, turn


async def _streamed(parsed: ParsedCompletion, turn: OpenTurn) -> HttpResponseBase:
    projector = ChunkProjector(turn.turn_id, parsed.model, includes_usage=parsed.includes_usage)
    return await stream_or_refusal(turn, projector, parsed.model)


async def _whole(parsed: ParsedCompletion, turn: OpenTurn) -> HttpResponseBase:
    events = await events_at_end(turn, parsed.model)
    return json_response(completion_of(turn.turn_id, parsed.model, events))


async def _answer_later(parsed: ParsedCompletion, queued: QueuedStream) -> HttpResponseBase:
    if parsed.streams:
        make = partial(ChunkProjector, model=parsed.model, includes_usage=parsed.includes_usage)
        return stream_when_taken(queued, make)
    try:
        events = await rest_of_events(queued)
    finally:
        queued.close()
    return json_response(completion_of(queued.turn_id, parsed.model, events))
