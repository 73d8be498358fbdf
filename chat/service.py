"""Opens turns for chat requests: finds or makes the session, and the turn of a key."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from chat.approvals.service import ConfirmationService
from chat.creation import SessionCreation
from chat.live_turn import LiveTurn, abandon
from chat.registry import TurnRegistry
from chat.remote.deleted_turns import require_not_deleted
from chat.remote.remote_turns import RemoteTurns
from chat.start.fingerprint import fingerprint_of_request
from chat.start.held_keys import KeyOfMessage, free_key, freed_on_failure, under_key
from chat.start.turn_request import TurnRequest
from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord, fingerprint_of
from chat.stream.numbered_event import Listener
from chat.stream.subscription import Subscription
from chat.turn.outcome import Outcome
from models_app.default_model import DefaultModel
from sessions_app.errors import (
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    ValidationFailed,
)
from sessions_app.ids_and_clock import new_session_id, utc_now
from sessions_app.messages import Message
from sessions_app.session import Session, ToolSettings, make_session
from sessions_app.store.records import Records
from sessions_app.store.repository import SessionRepository

Started = TypeVar("Started")
Announce = Callable[[str, str], None]
"""Takes in the session and the turn that is about to begin."""


def _ignore(session_id: str, turn_id: str) -> None:
    """Do nothing."""


def _call_both(first: Announce, second: Announce, session_id: str, turn_id: str) -> None:
    first(session_id, turn_id)
    second(session_id, turn_id)


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A chat request: the turn that is wanted, and the session or the model of a new one.

    Attributes:
        turn: The turn.
        session_id: The session; None makes one. With ``new``, its id, which is no other one then.
        model: The model of a new session; of another one, it must be the session's.
        new: The session to make, with its settings and maybe messages; it gets another id if its
            own is taken, unless ``session_id`` names it.
        ephemeral: Whether the session is one that is not saved: it is in no list, and goes when
            its turn has ended and the last listener has left. One that waits for an approval stays
            until the approval can't be given any more.
        keep: Whether such a session stays as long as the turn's journal, so that others can still
            listen to the turn and read what became of it.
    """

    turn: TurnRequest
    session_id: str | None = None
    model: str | None = None
    new: Session | None = None
    ephemeral: bool = False
    keep: bool = False


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as the client of one request sees it.

    Attributes:
        session_id: The session.
        turn_id: The turn.
        listener: Its stream from the first event on.
        committed: Waits for the first event; raises the error of a turn that ended before.
        finished: Waits for the end; returns the outcome.
        leave: Stops listening.
        messages: Returns the messages of its session, with those that the turn has added so far;
            None if another request started the turn.
    """

    session_id: str
    turn_id: str
    listener: Listener
    committed: Callable[[], Awaitable[None]]
    finished: Callable[[], Awaitable[Outcome]]
    leave: Callable[[], None]
    messages: Callable[[], Sequence[Message]] | None = None


class SessionSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Bundles the sessions of one storage with the services for their turns.

    Attributes:
        repository: The sessions.
        turns: Their turns, in this process and in others.
        remote: The turns of other processes only, and ended ones.
        confirmations: Lists and decides their approval requests.
        records: Details of requests in other protocols, which sessions don't have.
    """

    repository: SessionRepository
    turns: TurnRegistry
    remote: RemoteTurns
    confirmations: ConfirmationService
    records: Records


class ChatService:
    """Opens turns for chat requests.

    Args:
        saved: The sessions of people.
        ephemeral: The sessions that end with their turn.
        keys: The idempotency keys of both.
        default_model: Chooses the model of a new session for which none is named.
        on_shutdown: Called when all turns have ended.

    Attributes:
        default_model: As above.
        creation: Creates sessions under the same keys, without a turn.
    """

    def __init__(
        self,
        *,
        saved: SessionSpace,
        ephemeral: SessionSpace,
        keys: IdempotencyKeys,
        default_model: DefaultModel,
        on_shutdown: Callable[[], None] | None = None,
    ) -> None:
        self._on_shutdown = on_shutdown
        self.default_model = default_model
        self._saved = saved
        self._ephemeral = ephemeral
        self._keys = keys
        self.registries = (saved.turns, ephemeral.turns)
        self.creation = SessionCreation(keys, saved.repository)

    async def space_with(self, session_id: str) -> SessionSpace:
        """Return the space with this session, saved or ephemeral; unknown ones count as saved."""
        ephemeral = self._ephemeral
        if ephemeral.turns.get(session_id) or ephemeral.repository.recall(session_id):
            return ephemeral
        try:
            await asyncio.to_thread(ephemeral.repository.load, session_id)
        except SessionNotFound:
            return self._saved
        except SessionCorrupt:
            pass
        return ephemeral

    @property
    def listener_count(self) -> int:
        """The number of listeners of turns in this process."""
        return sum(each.listener_count for each in self.registries)

    @property
    def is_busy(self) -> bool:
        """Return whether something of a turn goes on in this process."""
        return any(each.is_busy for each in self.registries)

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Go on with turns of dead processes from now on, in an event loop; in any thread."""
        for each in self.registries:
            each.go_on(loop)

    async def shutdown(self, grace_seconds: float) -> None:
        """Refuse new turns, let live ones end within the grace time, then save and end them."""
        await asyncio.gather(*(each.shutdown(grace_seconds) for each in self.registries))
        if self._on_shutdown is not None:
            self._on_shutdown()

    async def open(
        self,
        request: ChatRequest,
        key: str | None = None,
        *,
        client: str | None = None,
        identity: object = None,
        announce: Announce = _ignore,
    ) -> OpenTurn:
        """Start a turn, or listen to the one that the key stands for.

        Args:
            request: What is asked for.
            key: The ``Idempotency-Key``, if it came with one.
            client: The client, where the turns of clients are counted.
            identity: What the client sent, by which a key recognizes its request, where the request
                holds ids and times that were made for it.
            announce: Called in a thread with the session and the turn that is started, once it can
                begin and before anything of it is saved; its turn may still be refused then.

        Raises:
            KeyReused: The key stands for another request.
            KeyOfMessage: It stands for a message that was queued.
            MessageDeleted: The key stands for a turn of which messages were deleted since.
            ValidationFailed: The request names neither a session nor a model with a message.
            MochiError: What ``TurnRegistry.start`` raises.
        """
        if key is None:
            return _opened(await self._start_turn(request, announce=announce, client=client))
        start = partial(self._start, request, key, client, announce)
        turn = await self.start_under(key, request, identity, start)
        return _opened(turn) if isinstance(turn, LiveTurn) else turn

    async def start_under(
        self,
        key: str,
        request: ChatRequest,
        identity: object,
        start: Callable[[HeldKey], Awaitable[Started]],
    ) -> Started | OpenTurn:
        """Start something for a request under its key, or return the turn that the key stands for.

        Raises:
            MochiError: What ``start`` and ``open`` raise.
            KeyOfMessage: The key stands for a message that was queued.
        """
        return await under_key(
            self._keys,
            key,
            fingerprint_of_chat(request, identity),
            start=start,
            find=partial(self._find, self.space_for(request)),
            abandoned=abandon,
        )

    async def opened_before(self, key: str, identity: object) -> OpenTurn | None:
        """Return the turn that a key stands for, if its request was this one; None to ``open`` it.

        For callers that validate a request against its session, which the turn has changed since.

        Args:
            key: The ``Idempotency-Key``.
            identity: What the client sent, as ``open`` takes it.

        Raises:
            SessionNotFound: The turn's session was deleted.
            MessageDeleted: Messages of the turn were deleted.
        """
        record = await asyncio.to_thread(self._keys.find, key)
        if (
            record is None
            or record.session_id is None
            or record.message_id is not None
            or record.fingerprint != fingerprint_of(identity)
        ):
            return None
        if await asyncio.to_thread(self._keys.is_held, record):
            return None  # it begins just now, and its session may not be saved yet
        return await self._find(await self.space_with(record.session_id), record, held=False)

    async def _start(
        self,
        request: ChatRequest,
        key: str,
        client: str | None,
        announce: Announce,
        held: HeldKey,
    ) -> LiveTurn:
        """Start the turn that the key was taken for; a request that fails frees the key.

        What a key stands for must be found again, so it is kept.
        """
        keyed = replace(request.turn, keyed=True)
        request = replace(request, keep=True, turn=keyed)
        async with freed_on_failure(held):
            announce_both = partial(_call_both, announce, held.keep)
            turn = await self._start_turn(request, announce=announce_both, client=client)
        await asyncio.to_thread(held.release)
        turn.task.add_done_callback(partial(self._drop_refused, key, held.record, turn))
        return turn

    async def _find(self, space: SessionSpace, record: KeyRecord, held: bool) -> OpenTurn | None:
        """Return the turn that another request starts or started; None if it did not begin."""
        session_id, turn_id = record.session_id, record.turn_id
        if session_id is not None and record.message_id is not None:
            raise KeyOfMessage(session_id, record.message_id)
        if session_id is None or turn_id is None:
            return None
        try:
            opened = await listen_to(space, session_id, turn_id)
        except SessionNotFound:
            if not held:
                raise
            return None  # the turn is announced, and its new session not saved yet
        if opened is None and not held:
            await asyncio.to_thread(require_not_deleted, space.records, session_id, turn_id)
        return opened

    def _drop_refused(
        self, key: str, record: KeyRecord, turn: LiveTurn, _: asyncio.Task[Outcome]
    ) -> None:
        """A turn that ended as a plain error, here and elsewhere, is none: it may be sent again."""
        if turn.was_refused and not turn.state.goes_on_elsewhere:
            drop = partial(self._keys.drop, key, record)
            asyncio.get_running_loop().run_in_executor(None, free_key, drop)

    async def _start_turn(
        self,
        request: ChatRequest,
        *,
        announce: Announce = _ignore,
        client: str | None,
    ) -> LiveTurn:
        """Start the turn on the request's session, which is made with it if there is none.

        ``announce`` is called with the session and the turn, as ``TurnRegistry.start`` does.
        """
        while True:
            new = request.new
            if new is None and request.session_id is None:
                new = await self._new_session(request)
            session_id = new.session_id if new is not None else request.session_id or ""
            try:
                return await self.space_for(request).turns.start(
                    session_id,
                    request.turn,
                    announce=partial(announce, session_id),
                    client=client,
                    new=new,
                    model=request.model if new is None else None,
                    keep=request.keep,
                )
            except SessionExists:  # the new one's id is taken: another one is drawn
                if request.session_id is not None:
                    raise
                if (taken := request.new) is not None:
                    metadata = replace(taken.metadata, session_id=new_session_id())
                    request = replace(request, new=replace(taken, metadata=metadata))

    def space_for(self, request: ChatRequest) -> SessionSpace:
        """Return the space that has, or will have, the session of a request."""
        return self._ephemeral if request.ephemeral else self._saved

    async def _new_session(self, request: ChatRequest) -> Session:
        """Return a session for the request, not saved yet; that its model exists is not asked."""
        if request.turn.message is None and not request.turn.messages:
            raise ValidationFailed("A new session needs a message.", field="message")
        selected = request.turn.selected_tools
        return make_session(
            new_session_id(),
            request.model or await self.default_model.name(),
            now=utc_now(),
            tool_settings=ToolSettings(tools=selected) if selected else ToolSettings(),
        )


def fingerprint_of_chat(request: ChatRequest, identity: object = None) -> str:
    """Return the hash by which a key recognizes a request: of what the client sent, if known."""
    known = identity is not None
    return fingerprint_of(identity) if known else fingerprint_of_request(**asdict(request))


def _opened(turn: LiveTurn, subscription: Subscription | None = None) -> OpenTurn:
    listener = subscription or turn.first_subscription
    return OpenTurn(
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        listener=listener,
        committed=turn.committed,
        finished=turn.finished,
        leave=partial(turn.leave, listener),
        messages=None if subscription else turn.engine.actions.session_writer.history,
    )


async def listen_to(space: SessionSpace, session_id: str, turn_id: str) -> OpenTurn | None:
    """Listen to a turn, which goes on when its listeners leave; None without a trace of it."""
    turn = space.turns.get(session_id)
    if turn is not None and turn.turn_id == turn_id:
        turn.detach()
        return _opened(turn, turn.stream.subscribe(after=0))
    follower = await space.remote.listen(session_id, turn_id)
    if follower is None:
        return None

    async def committed() -> None:
        """The turn has begun: ``listen`` waited for its first event."""

    return OpenTurn(
        session_id=session_id,
        turn_id=turn_id,
        listener=follower,
        committed=committed,
        finished=partial(space.remote.outcome, session_id, turn_id),
        leave=follower.close,
    )
