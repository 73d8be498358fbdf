"""Creates responses: finds what they continue, applies approvals, starts their turns."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from agents_app.catalogue import AgentCatalogue
from chat.errors import ConfirmationError, HistoryChanged
from chat.service import ChatRequest, ChatService, OpenTurn
from chat.start.preparation import ChatPreparation, TurnPreparer
from chat.start.turn_limits import TurnPlaces
from chat.start.turn_request import TurnRequest
from chat.turn.turn_ids import new_turn_id
from dialects_app.responses.answers import Answers
from dialects_app.responses.body import ResponseIn, what_was_sent
from dialects_app.responses.compacting import CompactionOut, compact, items_of_user
from dialects_app.responses.continuing import Continued, find_continued
from dialects_app.responses.conversations import NO_MODEL, Conversations
from dialects_app.responses.errors import ItemNotFound
from dialects_app.responses.items import ParsedInput, parse_input
from dialects_app.responses.record import ResponseRecord
from dialects_app.responses.request import (
    ParsedResponse,
    name_of_field,
    read_request,
    shown_conversation,
)
from dialects_app.responses.started_response import StartedResponse
from dialects_app.responses.store import ResponseStore
from dialects_app.responses.tools import ServerTools, changed_settings
from dialects_app.shared.additions import MODELS_WITH_TOOLS
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.fields import refuse, renamed_fields
from dialects_app.shared.files import with_files
from dialects_app.shared.ids import item_id
from dialects_app.shared.transcripts import Transcripts
from dialects_app.shared.warnings import notes_on_choice
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from sessions_app.calls import open_calls
from sessions_app.errors import SessionBusy, SessionNotFound
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.messages import Message, ToolMessage
from sessions_app.service import SessionManager
from sessions_app.session import fork, make_session
from sessions_app.session_settings import change_settings
from tools_app.catalogue import ToolCatalogue

_Plan = tuple[ChatRequest, Continued | None, Answers | None, str, ParsedInput]
"""A requested turn, what it continues, its decisions, its model, and its input."""


class ResponseMaker(msgspec.Struct, frozen=True, kw_only=True):
    """Creates responses.

    Attributes:
        chat: Runs their turns.
        sessions: The sessions that they continue.
        tools: The tools of this server.
        models: The models.
        files: Stores images and files.
        transcripts: Saves the conversations of clients that keep their own.
        agents: The agents that a request may offer.
        default_model: Chooses the model of sessions that name none.
        places: Limits how many turns run.
    """

    chat: ChatService
    sessions: SessionManager
    tools: ToolCatalogue
    models: ModelCatalogue
    files: RequestFiles
    transcripts: Transcripts
    agents: AgentCatalogue
    default_model: DefaultModel
    places: TurnPlaces

    async def start(
        self,
        body: ResponseIn,
        *,
        key: str | None = None,
        client: str | None = None,
        conversation: str | None = None,
    ) -> StartedResponse:
        """Start a response. Nothing is saved if it is refused.

        Args:
            body: The request.
            key: Its ``Idempotency-Key``, if any.
            client: The client, if turns are limited per client.
            conversation: The name of the client's conversation, if such are saved.

        Raises:
            MochiError: It is refused; fields have this protocol's names.
        """
        parsed = read_request(body)
        with renamed_fields(partial(name_of_field, body=body)):
            identity = what_was_sent(body)
            before = await self.chat.opened_before(key, identity) if key is not None else None
            if before is not None:
                return await self._again(body, parsed, before)
            plan = await self._plan(body, parsed)
            while True:
                try:
                    started = await self._begin(
                        body, parsed, plan, identity, key=key, client=client
                    )
                    break
                except (SessionBusy, HistoryChanged) as error:
                    # Another response to the same previous one has begun meanwhile, and may have
                    # ended: this one branches off.
                    plan = await self._plan(body, parsed, beside=error.details.get("turn_id"))
                    if isinstance(error, SessionBusy) and plan[0].new is None:
                        raise
            request, continued, *_, new_input = plan
            if conversation is not None and request.ephemeral and continued is None:
                self.transcripts.save(
                    conversation, started.model, request.turn, started.turn, words=new_input.words
                )
            return started

    async def count(self, body: ResponseIn, preparer: TurnPreparer) -> int:
        """Estimate the prompt tokens of a response's first model call.

        Nothing is saved, no approval is decided, and no model is called.

        Raises:
            MochiError: The response would be refused.
        """
        parsed = read_request(body)
        with renamed_fields(partial(name_of_field, body=body)):
            request, continued, *_ = await self._plan(body, parsed, saves=False)
            session = request.new if continued is None else request.new or continued.session
            assert session is not None  # noqa: S101 - a request makes a session or continues one
            prepare = await ChatPreparation(preparer, request.turn).look_up(session)
            job = await asyncio.to_thread(prepare, new_turn_id(), session)
        return job.plan.estimate.tokens if job.plan else 0

    async def compaction(
        self, body: ResponseIn, *, client: str | None = None
    ) -> tuple[str, asyncio.Task[CompactionOut]]:
        """Begin to write what a client sends back as input; return the model that does, and it.

        It takes the place of a turn, though it is none.

        Raises:
            MochiError: The request is invalid, or too many turns run.
        """
        with renamed_fields(partial(name_of_field, body=body)):
            continued, new_input = await asyncio.to_thread(self._read, body)
            history = continued.session.messages[: continued.length] if continued else ()
            session_id = continued.session.session_id if continued else ""
            if not (history or new_input.messages):
                refuse("input", "There is nothing to compact: 'input' is empty.")
            model = await self._model(body, continued)
        leave = self.places.take(client)
        writing = asyncio.create_task(
            compact(
                [*history, *new_input.messages],
                items_of_user(history, session_id, body.input),
                model=model,
                models=self.models,
            )
        )
        writing.add_done_callback(lambda _: leave())
        return model, writing

    async def _begin(
        self,
        body: ResponseIn,
        parsed: ParsedResponse,
        plan: _Plan,
        identity: Mapping[str, Any],
        *,
        key: str | None,
        client: str | None,
    ) -> StartedResponse:
        """Start the turn; one of a known key is found again."""
        request, continued, answers, model, new_input = plan
        record = _record(body, parsed, continued)
        if answers is not None:
            await answers.require_open_calls()
        is_kept = not request.ephemeral or request.keep
        store = ResponseStore(self.chat.space_for(request).records)
        announce = {"announce": partial(store.keep, record=record)} if is_kept else {}
        try:
            opened = await self.chat.open(
                request, key, client=client, identity=identity, **announce
            )
        except ConfirmationError as error:
            if answers is not None:
                answers.name_field(error)
            raise
        if key is not None:
            kept = await asyncio.to_thread(store.known_record, opened.session_id, opened.turn_id)
            record = kept or record
        notes = notes_on_choice(parsed.turn.tool_choice, model, self.models)
        return StartedResponse(
            turn=opened,
            model=model,
            record=record,
            warnings=[*parsed.warnings, *new_input.left_out, *notes],
            store=store if is_kept else None,
        )

    async def _again(
        self, body: ResponseIn, parsed: ParsedResponse, turn: OpenTurn
    ) -> StartedResponse:
        """Return a response that the same request started before, with the same key."""
        space = await self.chat.space_with(turn.session_id)
        store = ResponseStore(space.records)
        kept = await asyncio.to_thread(store.known_record, turn.session_id, turn.turn_id)
        model = body.model
        if model is None:
            session = await asyncio.to_thread(space.repository.load, turn.session_id)
            model = session.metadata.model
        notes = notes_on_choice(parsed.turn.tool_choice, model, self.models)
        return StartedResponse(
            turn=turn,
            model=model,
            record=kept or _record(body, parsed, None),
            warnings=[*parsed.warnings, *notes],
            store=None if kept is None else store,
        )

    async def _plan(
        self,
        body: ResponseIn,
        parsed: ParsedResponse,
        *,
        beside: str | None = None,
        saves: bool = True,
    ) -> _Plan:
        """Return the requested turn, and what belongs to it.

        Args:
            body: The request.
            parsed: The same, parsed.
            beside: The turn that runs, if one does.
            saves: Whether images and files are stored, or only measured.
        """
        continued, new_input = await asyncio.to_thread(self._read, body)
        messages, files = new_input.messages, new_input.files
        kept = await (self.files.keep(messages, files) if saves else self.files.measure(files))
        new_input = replace(new_input, messages=with_files(new_input.messages, kept))
        answers = None
        if new_input.approvals:
            answers = await self._answers(new_input, continued)
            continued = answers.continued
        model = await self._model(body, continued)
        turn = await self._turn(parsed, new_input, continued, answers, model)
        request = self._request(body, parsed, turn, continued, answers, model=model, beside=beside)
        return request, continued, answers, model, new_input

    def _read(self, body: ResponseIn) -> tuple[Continued | None, ParsedInput]:
        """Return what is continued, and the input. Blocks."""
        saved = self.chat.space_for(ChatRequest(turn=TurnRequest()))
        store = ResponseStore(saved.records)
        continued = find_continued(body, self.sessions, store)
        if body.input is None:
            if continued is None:
                refuse("input", "Missing required parameter: 'input'.")
            return continued, ParsedInput(messages=(), approvals=(), new_from=0)
        history = continued.session.messages[: continued.length] if continued else ()
        find = Conversations(self.sessions, store).finder(body.input)
        return continued, parse_input(body.input, history=history, find=find)

    async def _answers(self, new_input: ParsedInput, continued: Continued | None) -> Answers:
        """Return the decisions, with the session of their approval requests."""
        first = new_input.approvals[0]
        session_id = first.session_id
        if continued is not None and continued.session.session_id != session_id:
            refuse(first.path, "This approval was asked for in another conversation.")
        if any(each.session_id != session_id for each in new_input.approvals):
            refuse(first.path, "Approvals are given to one response at a time.")
        if continued is not None and any(
            not isinstance(message, ToolMessage) for message in new_input.messages
        ):
            refuse("input", "Approvals come alone: say more when the calls have run.")
        space = await self.chat.space_with(session_id)
        try:
            session = await asyncio.to_thread(space.repository.load, session_id)
        except SessionNotFound as missing:
            raise ItemNotFound(
                item_id("mcpr", session_id, first.confirmation_id), field=first.path
            ) from missing
        return Answers(
            space=space,
            approvals=new_input.approvals,
            continued=Continued(
                session=session,
                length=len(session.messages),
                is_conversation=continued is not None and continued.is_conversation,
            ),
        )

    async def _turn(
        self,
        parsed: ParsedResponse,
        new_input: ParsedInput,
        continued: Continued | None,
        answers: Answers | None,
        model: str,
    ) -> TurnRequest:
        """Return the requested turn, without settings of its session."""
        messages: Sequence[Message] = new_input.messages
        if answers is not None:
            messages = answers.outputs(new_input)
        elif not messages and not open_calls(continued.session.messages if continued else ()):
            refuse("input", "There is nothing to answer: 'input' is empty.")
        return replace(
            parsed.turn,
            messages=messages,
            decisions=() if answers is None else answers.decisions,
            selected_tools=await self._selected(parsed.tools.server, model),
        )

    async def _selected(self, server: ServerTools | None, model: str) -> Sequence[str] | None:
        """Return the offered tools of this server; None uses those of the model."""
        if server is None:
            return None if model.startswith(MODELS_WITH_TOOLS) else ()
        for agent in server.agents or ():
            await self.agents.usable(agent)
        if server.names is not None:
            return server.names
        listing = await self.tools.listing()
        tools = listing.tools.items()  # built-in ones are offered by their names alone
        return tuple(name for name, it in tools if not (it.delegated or it.is_built_in))

    async def _model(self, body: ResponseIn, continued: Continued | None) -> str:
        known = None if continued is None else continued.session.metadata.model
        model = body.model or (None if known == NO_MODEL else known)
        return model or await self.default_model.name()

    def _request(
        self,
        body: ResponseIn,
        parsed: ParsedResponse,
        turn: TurnRequest,
        continued: Continued | None,
        answers: Answers | None,
        *,
        model: str,
        beside: str | None,
    ) -> ChatRequest:
        now = utc_now()
        wants_ephemeral = body.store is False
        keep = wants_ephemeral and bool(body.background)
        if continued is None:
            new = make_session(new_session_id(), model, now=now)
            settings = changed_settings(new, model, parsed.tools.server)
            new = change_settings(new, settings, now=now)
            return ChatRequest(turn=turn, new=new, ephemeral=wants_ephemeral, keep=keep)
        session = continued.session
        settings = changed_settings(session, model, parsed.tools.server)
        if answers is None and (continued.branches_beside(beside) or wants_ephemeral):
            index = continued.length - 1 if continued.is_old else None
            copy = fork(session, session_id=new_session_id(), now=now, message_index=index)
            copy = change_settings(copy, settings, now=now)
            return ChatRequest(turn=turn, new=copy, ephemeral=wants_ephemeral, keep=keep)
        is_ephemeral = answers is not None and answers.space is self.chat.space_for(
            ChatRequest(turn=turn, ephemeral=True)
        )
        return ChatRequest(
            turn=replace(turn, settings=settings, expects=session.last_message_id),
            session_id=session.session_id,
            ephemeral=is_ephemeral,
            keep=keep,
        )


def _record(
    body: ResponseIn, parsed: ParsedResponse, continued: Continued | None
) -> ResponseRecord:
    echo = dict(parsed.echo)
    if continued is not None and continued.is_conversation:
        echo["conversation"] = shown_conversation(continued.session.session_id)
    return ResponseRecord(
        echo=echo,
        background=bool(body.background),
        include=tuple(body.include or ()),
        forms=parsed.tools.forms,
    )
