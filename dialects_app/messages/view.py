"""Answers requests for messages: opens the turn, then streams it or waits for its end."""

import asyncio
from collections.abc import Mapping
from functools import partial

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from chat.context.tokens import estimate_message, estimate_tools
from chat.service import ChatService, OpenTurn
from chat.start.preparation import ChatPreparation, TurnPreparer
from chat.start.turn_request import TurnRequest
from chat.stream.encoding import ascii_json
from chat.turn.turn_ids import new_turn_id
from dialects_app.messages.answer import whole_message
from dialects_app.messages.body import CountTokensIn, MessagesIn
from dialects_app.messages.errors import REQUEST_ID_HEADER
from dialects_app.messages.projector import MessageProjector
from dialects_app.messages.request import ParsedRequest, read_request
from dialects_app.shared.additions import SESSION_HEADER
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.body import beside
from dialects_app.shared.fields import renamed_fields
from dialects_app.shared.ids import item_id
from dialects_app.shared.refused_turns import events_at_end
from dialects_app.shared.streams import StartedTurn
from dialects_app.shared.transcripts import Transcripts
from dialects_app.shared.warnings import notes_on_choice, warning_headers
from models_app.catalogue import ModelCatalogue


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """The headers of a request that matter here.

    Attributes:
        headers: All of them, by which clients name their conversations.
        session_id: The session that it continues (``X-Mochi-Session-Id``).
        named_tools: Tools of this server (``X-Mochi-Tools``).
        key: Its ``Idempotency-Key``.
        client: The client, if turns are limited per client.
    """

    headers: Mapping[str, str]
    session_id: str | None = None
    named_tools: str | None = None
    key: str | None = None
    client: str | None = None


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
        parsed = parsed.with_files(kept)
        # Whether it is asked for as a stream makes no other turn of it.
        sent = msgspec.structs.replace(body, stream=None)
        with renamed_fields(parsed.name_of_field):
            turn = await self.chat.open(
                parsed.chat,
                context.key,
                client=context.client,
                identity=[sent, context.session_id, context.named_tools],
            )
            conversation = self.transcripts.conversation_of(context.headers)
            if parsed.chat.ephemeral and conversation is not None:
                self.transcripts.save(conversation, body.model, parsed.chat.turn, turn)
            answer = await self._answer(body, parsed.chat.turn, turn)
        return self._with_headers(answer, parsed, turn)

    async def count(self, body: CountTokensIn) -> int:
        """Return the estimated tokens of a request. Nothing is saved, and no model is called.

        Raises:
            MochiError: The request would be refused.
        """
        parsed = await self._read(body, RequestContext(headers={}))
        parsed = parsed.with_files(await self.files.measure(parsed.files))
        session = parsed.chat.new
        assert session is not None  # noqa: S101 - none is continued
        with renamed_fields(parsed.name_of_field):
            prepare = await ChatPreparation(self.preparer, parsed.chat.turn).look_up(session)
            job = await asyncio.to_thread(prepare, new_turn_id(), session)
        return job.plan.estimate.tokens if job.plan else 0

    async def _read(self, body: CountTokensIn, context: RequestContext) -> ParsedRequest:
        return await beside(
            body.parts,
            partial(
                read_request,
                body,
                can_think=body.thinks and await self._can_think(body.model),
                session_id=context.session_id,
                named_tools=context.named_tools,
            ),
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
            return await StartedTurn(turn, projector).stream_or_refusal(body.model)
        try:
            message = whole_message(projector, await events_at_end(turn, body.model))
        finally:
            turn.leave()
        return HttpResponse(ascii_json(message), content_type="application/json")

    def _with_headers(
        self, answer: HttpResponseBase, parsed: ParsedRequest, turn: OpenTurn
    ) -> HttpResponseBase:
        request = parsed.chat.turn
        model = parsed.chat.model or (parsed.chat.new.metadata.model if parsed.chat.new else "")
        notes = [*parsed.warnings, *notes_on_choice(request.tool_choice, model, self.models)]
        headers = {REQUEST_ID_HEADER: f"req_{turn.turn_id}", **warning_headers(notes)}
        if not parsed.chat.ephemeral:
            headers[SESSION_HEADER] = turn.session_id
        for name, value in headers.items():
            answer[name] = value
        return answer


def _estimate(request: TurnRequest) -> int:
    """Return the estimated tokens of a request; the end of the message has the counted ones."""
    messages = sum(map(estimate_message, request.messages))
    return messages + estimate_tools(request.client_tools)
