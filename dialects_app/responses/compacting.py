"""Compacts a conversation for its client: what the user said, and a record of the whole."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from chat.context.compaction import ContextRules, RequestCompactor
from chat.context.window import FIRST_WINDOW, WindowChoice, follow_loaded
from chat.errors import SummaryTimedOut
from chat.summaries.prompt import LONGEST_SECONDS
from chat.turn.usage import usage_of_call
from dialects_app.responses.output_items import Item
from dialects_app.responses.resource import usage_of
from dialects_app.responses.saved_items import said_item
from dialects_app.shared.sealed import seal
from models_app.catalogue import ModelCatalogue
from models_app.errors import ServiceUnavailable
from sessions_app.messages import Message, UserMessage


class CompactionOut(msgspec.Struct, kw_only=True):
    """A compacted conversation: the user's messages, and one item of the type ``compaction``."""

    id: str
    object: str = "response.compaction"
    created_at: int
    output: Sequence[Item]
    usage: Mapping[str, Any]


def items_of_user(history: Sequence[Message], session_id: str, new_input: Any) -> list[Item]:
    """Return the user's messages of a session, and those that the client sent, as they were."""
    items: list[Item] = [
        said_item(message, session_id) for message in history if isinstance(message, UserMessage)
    ]
    is_text = isinstance(new_input, str)
    for item in [{"role": "user", "content": new_input}] if is_text else new_input or ():
        if item.get("role") == "user":
            content = item.get("content")
            parts = [{"type": "input_text", "text": content}]
            items.append(
                {
                    "id": f"msg_{secrets.token_hex(12)}",
                    "type": "message",
                    "role": "user",
                    "status": "completed",
                    "content": parts if isinstance(content, str) else content,
                }
            )
    return items


async def compact(
    messages: Sequence[Message], user_items: Sequence[Item], *, model: str, models: ModelCatalogue
) -> CompactionOut:
    """Return the compacted conversation, of which nothing is saved.

    Args:
        messages: The conversation, not an empty one.
        user_items: The items of the user's messages in it.
        model: The model that writes the record.
        models: The models.

    Raises:
        ModelError: The model can't be asked, or wrote nothing.
        SummaryTimedOut: It took too long.
    """
    info = await models.look_up(model)
    # A longer conversation is read in pieces.
    tokens = FIRST_WINDOW if models.is_of_ollama(model) else None
    window = WindowChoice(window=tokens, reason="initial_setup")
    loaded = await models.loaded_window(model)
    window = follow_loaded(window, loaded, max_context=None, usage_tokens=0)
    rules = ContextRules(can_think=info is not None and info.can_think)
    language_model, name = models.resolve(model)
    compactor = RequestCompactor(rules, language_model=language_model, model=name, tools=())
    record = None
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            async with aclosing(compactor.summaries(messages, window)) as summaries:
                async for made in summaries:
                    record = made
    except TimeoutError as error:
        raise SummaryTimedOut(model) from error
    if record is None:
        raise ServiceUnavailable(f"Model '{model}' wrote no record.", model=model)
    content = {"type": "compaction", "encrypted_content": seal(record)}
    return CompactionOut(
        id=f"resp_{secrets.token_hex(12)}",
        created_at=int(time.time()),
        output=[*user_items, {"id": f"cmp_{secrets.token_hex(12)}", **content}],
        usage=usage_of(usage_of_call(compactor.ends, seconds_to_first_token=None, seconds=None)),
    )
