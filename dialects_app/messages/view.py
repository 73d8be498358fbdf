"""Answers requests for messages: opens the turn, then streams it or waits for its end."""

import asyncio
from functools import partial

import msgspec
from django.http.response import HttpResponseBase

from chat.context.tokens import estimate_message, estimate_tools
from chat.service import ChatService, OpenTurn
from chat.start.preparation import ChatPreparation, TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.turn.turn_ids import new_turn_id
from dialects_app.messages.answer import whole_message
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.errors import REQUEST_ID_HEADER
from dialects_app.messages.projector import MessageProjector
from dialects_app.messages.request import name_of_field, read_request
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.ids import item_id
from dialects_app.shared.parsed_request import (
    ParsedRequest,
    RequestContext,
    with_kept_files,
    with_notes,
)
from dialects_app.shared.refused_turns import events_at_end
from dialects_app.shared.streams import json_response, stream_or_refusal
from dialects_app.shared.transcripts import Transcripts
from models_app.catalogue import ModelCatalogue


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """Answers requests for messages, with the services that it takes."""

    chat: ChatService
    models: ModelCatalogue
    preparer: TurnPreparer
    files: RequestFiles
    transcripts: Transcripts

    async def create(self, body: MessagesIn, context: RequestContext) -> HttpResponseBase:
        """Return the next message, as a stream or as one object.

        Raises:
            MochiError: The turn could not start or, without streaming, an error ended it.
        """
        parsed = await self._read(body, context)
        kept = await self.files.keep(parsed.chat.turn.messages, parsed.files)
        parsed = with_kept_files(parsed, kept)
        # Whether it is asked for as a stream makes no other turn of it.
        sent = msgspec.structs.replace(body, stream=None)
        with renamed_fields(partial(name_of_field, paths=parsed.paths)):
            turn = await self.chat.open(
                parsed.chat,
                context.key,
                client=context.client,
                identity=[sent, context.session_id, context.own_tools],
            )
            if parsed.chat.ephemeral and context.chat_id is not None:
                self.transcripts.save(
                    context.chat_id, body.model, parsed.chat.turn, turn, words=parsed.words
                )
            answer = await self._answer(body, parsed.chat.turn, turn)
        answer[REQUEST_ID_HEADER] = f"req_{turn.turn_id}"
        return with_notes(answer, parsed, turn.session_id, self.models)

    async def count(self, body: CountTokensIn) -> int:
        """Return the estimated tokens of a request. Nothing is saved, and no model is called.

        Raises:
            MochiError: The request would be refused.
        """
        parsed = await self._read(body, RequestContext())
        parsed = with_kept_files(parsed, await self.files.measure(parsed.files))
        session = parsed.chat.new
        assert session is not None  # noqa: S101 - none is continued
        with renamed_fields(partial(name_of_field, paths=parsed.paths)):
            prepare = await ChatPreparation(self.preparer, parsed.chat.turn).look_up(session)
            job = await asyncio.to_thread(prepare, new_turn_id(), session)
        return job.plan.estimate.tokens if job.plan else 0

    async def _read(self, body: CountTokensIn, context: RequestContext) -> ParsedRequest:
        return await asyncio.to_thread(
            read_request,
            body,
            can_think=body.thinks and await self._can_think(body.model),
            session_id=context.session_id,
            own_tools=context.own_tools,
        )

    async def _can_think(self, model: str) -> bool:
        language_model, name = self.models.resolve(model)
        info = language_model.recall(name) or await self.models.look_up(model)
        return info is not None and info.can_think

    async def _answer(
        self, body: MessagesIn, request: TurnRequest, turn: OpenTurn
    ) -> HttpResponseBase:
        projector = MessageProjector(
            item_id("msg", turn.session_id, turn.turn_id),
            body.model,
            input_tokens=_estimate(request),
            shows_reasoning=body.shows_reasoning,
        )
        if body.stream:
            return await stream_or_refusal(turn, projector, body.model)
        return json_response(whole_message(projector, await events_at_end(turn, body.model)))


def _estimate(request: TurnRequest) -> int:
    """Return the estimated tokens of a request; the end of the message has the counted ones."""
    messages = sum(map(estimate_message, request.messages))
    tools = () if request.tool_choice == "none" else request.client_tools
    return messages + estimate_tools(tools)
