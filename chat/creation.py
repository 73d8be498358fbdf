"""Creates sessions as requests describe them, once for each ``Idempotency-Key``, in any process.

The key is taken first, and records the id that the session will have before there is one. So a
process that dies anywhere in between leaves no second session behind: who sends the request again
finds the session, or makes it under the same id.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from chat.live_turn import abandon
from chat.start.held_keys import freed_on_failure, under_key
from chat.storage.idempotency_keys import HeldKey, IdempotencyKeys, KeyRecord, fingerprint_of
from chat.summaries.models import SummaryModels
from mochi_project.keys.key import require_scope
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from prompts_app.service import SystemPromptService
from sessions_app.enabled_names import EnabledNames
from sessions_app.errors import SessionExists, SessionNotFound, StorageError, ValidationFailed
from sessions_app.http.request_schemas import SessionCreateIn, SessionUpdateIn
from sessions_app.ids_and_clock import new_session_id
from sessions_app.service import SessionManager
from sessions_app.session import ContextStrategy, Session, ToolSettings
from sessions_app.session_settings import change_settings
from sessions_app.store.repository import SessionReader
from tools_app.policy import allows_without_asking, relaxes

logger = logging.getLogger(__name__)

PLANNED = "planned"
MADE = "made"
"""Stand in the place of a turn's id, before the session is made and after. One that was made is not
made again when it was deleted."""

Make = Callable[[str], Awaitable[Session]]
"""Makes and keeps the session with this id; ``SessionExists`` when the id is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFactory:
    """Checks and makes sessions as the bodies of requests describe them."""

    sessions: SessionManager
    models: ModelCatalogue
    default_model: DefaultModel
    summary_models: SummaryModels
    names: EnabledNames
    prompts: SystemPromptService

    async def check(self, body: SessionCreateIn) -> Sequence[str]:
        """Raise for invalid values of a new session; return warnings about missing things."""
        model = body.model or await self.default_model.name()
        await self.models.look_up(model)
        self.check_options(body.options, model)
        return await self.check_names(body)

    async def make(self, body: SessionCreateIn, session_id: str | None = None) -> Session:
        """Return the session that a body describes, which is not saved."""
        prompt = body.system_prompt
        if prompt is None and body.system_prompt_source_file is not None:
            prompt = await self.prompt_text(body.system_prompt_source_file)
        session = self.sessions.create(
            body.model or await self.default_model.name(),
            system_prompt=prompt,
            system_prompt_source_file=body.system_prompt_source_file,
            tool_settings=body.tool_settings.to_value() if body.tool_settings else None,
            agent_settings=body.agent_settings.to_value() if body.agent_settings else None,
            options=body.options,
            summary_model=body.summary_model,
            context_strategy=body.context_strategy,
            title=body.title,
            metadata=body.metadata,
            session_id=session_id,
            save=False,
        )
        if body.on_crash is None:
            return session
        now = session.metadata.updated_at
        return change_settings(session, {"on_crash": body.on_crash}, now=now)

    async def prompt_text(self, filename: str) -> str:
        """Return the text of a prompt file."""
        prompt = await asyncio.to_thread(self.prompts.get, filename)
        return prompt.content

    async def check_names(self, body: SessionCreateIn | SessionUpdateIn) -> Sequence[str]:
        """Raise for unusable models, strategies and agents; return warnings about missing ones."""
        tools = body.tool_settings.to_value() if body.tool_settings else None
        if tools is not None and allows_without_asking(tools):
            require_scope("approve")
        warnings = await self.names.missing(
            tools=tools,
            agents=body.agent_settings.to_value() if body.agent_settings else None,
        )
        if body.summary_model is not None:
            await self.summary_models.check(body.summary_model, field="summary_model")
        strategies = get_args(ContextStrategy)
        if body.context_strategy is not None and body.context_strategy not in strategies:
            raise ValidationFailed(
                f"There is no context_strategy '{body.context_strategy}'.",
                field="context_strategy",
                allowed=sorted(strategies),
            )
        return warnings

    def check_options(self, options: Mapping[str, Any] | None, model: str) -> None:
        """Raise for options that Ollama does not have, if the model is one of Ollama's."""
        if options and self.models.is_of_ollama(model):
            for name in ("thinking_budget", "reasoning_effort"):
                if name in options:
                    raise ValidationFailed(
                        f"`{name}` is not an option of Ollama's models. Set `think` in a chat "
                        "request.",
                        field="options",
                    )


def require_may_change(body: SessionUpdateIn, session: Session) -> None:
    """Refuse changes of a session's policies to weaker ones by who may not approve calls.

    Sessions may be made with ``confirm_destructive`` by anyone (docs/decisions/0060).

    Raises:
        ScopeMissing: The principal may not.
    """
    if "tool_settings" in body.model_fields_set:
        new = body.tool_settings.to_value() if body.tool_settings else ToolSettings()
        if relaxes(new, session.metadata.tool_settings or ToolSettings()):
            require_scope("approve")


class SessionCreation:
    """Creates sessions for requests that have a key.

    Args:
        keys: The keys, which chat requests share.
        repository: Where the sessions are kept.
    """

    def __init__(self, keys: IdempotencyKeys, repository: SessionReader) -> None:
        self._keys = keys
        self._repository = repository

    async def create(self, key: str, identity: object, make: Make) -> Session:
        """Return the session that the key stands for, which is made if there is none.

        When the caller is cancelled meanwhile, the session is made all the same.

        Args:
            key: The ``Idempotency-Key``.
            identity: What the client sent, by which the key knows its request again.
            make: Makes the session; what it raises frees the key.

        Raises:
            KeyReused: The key stands for another request.
            SessionNotFound: The session was deleted.
            MochiError: What ``make`` raises.
        """
        planned: str | None = None

        async def start(held: HeldKey) -> Session:
            return await self._make(planned, make, held)

        async def find(record: KeyRecord, held: bool) -> Session | None:
            nonlocal planned
            if held:
                return None
            planned = record.session_id
            return None if planned is None else await self._find(planned, record)

        fingerprint = fingerprint_of("create_session", identity)
        return await under_key(
            self._keys, key, fingerprint, start=start, find=find, abandoned=abandon
        )

    async def _find(self, session_id: str, record: KeyRecord) -> Session | None:
        """Return the session of a key; None if its process died before it was made.

        Raises:
            SessionNotFound: It was made, and deleted since.
        """
        try:
            return await asyncio.to_thread(self._repository.load, session_id)
        except SessionNotFound:
            if record.turn_id == MADE:
                raise
            if await asyncio.to_thread(self._repository.deleted_at, session_id) is not None:
                raise
            return None

    async def _make(self, planned: str | None, make: Make, held: HeldKey) -> Session:
        """Make the session that the key was taken for; a request that fails frees the key."""
        async with freed_on_failure(held):
            session = await self._make_planned(held, planned, make)
        try:
            await asyncio.to_thread(held.keep, session.session_id, MADE)
        except (OSError, StorageError) as error:  # the session is there, and found by its id
            logger.warning("a key could not be kept", extra={"reason": str(error)})
        await asyncio.to_thread(held.release)
        return session

    async def _make_planned(self, held: HeldKey, planned: str | None, make: Make) -> Session:
        while True:
            session_id = planned or new_session_id()
            await asyncio.to_thread(held.keep, session_id, PLANNED)
            try:
                return await make(session_id)
            except SessionExists:
                if planned is not None:  # a write of the process that died has arrived since
                    return await asyncio.to_thread(self._repository.load, planned)
