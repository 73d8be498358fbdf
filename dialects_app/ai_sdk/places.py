"""Finds where the message of a page is in its session, whose messages the page has, too."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from dialects_app.ai_sdk.body import UIChatIn, UserInput
from dialects_app.ai_sdk.ui_messages import client_id_of, ui_messages
from dialects_app.errors import ChatDiffers
from sessions_app.edits import Rewind
from sessions_app.messages import Attachment, UserMessage
from sessions_app.session import Session


async def place_of(
    body: UIChatIn, new_input: UserInput, attachments: tuple[Attachment, ...], session: Session
) -> Literal["new", "last"] | Rewind:
    """Return where the message is in the session; how to go back to it if more was said since.

    Raises:
        ChatDiffers: The client's messages differ from the session.
    """
    messages = [each for each in session.messages if isinstance(each, UserMessage)]
    ids = [client_id_of(each) for each in messages]
    name = body.message_id if body.trigger != "regenerate-message" else new_input.client_id
    name = name or new_input.client_id
    client_ids = body.known_ids()
    if name is None or name not in ids:
        if body.message_id is not None and body.trigger == "submit-message":
            raise ChatDiffers("The message that was edited is not in this chat any more.")
        await _compare(session, client_ids)
        return "new"
    place = ids.index(name)
    message = messages[place]
    is_same = (message.content, message.attachments) == (new_input.text, attachments)
    if is_same and place == len(ids) - 1:
        if body.trigger != "regenerate-message" and body.message_id is None:
            await _compare(session, client_ids, without=message)
        return "last"
    if body.message_id is None and body.trigger != "regenerate-message":
        raise ChatDiffers("This message was answered before, and the chat has newer messages.")
    if is_same:
        return Rewind(message_id=message.message_id)
    return Rewind(message_id=message.message_id, content=new_input.text, attachments=attachments)


async def _compare(
    session: Session, client_ids: Sequence[str] | None, *, without: UserMessage | None = None
) -> None:
    """Refuse a client that lacks messages of the session.

    It may have more: an interrupted answer of which nothing was saved.

    Raises:
        ChatDiffers: The client lacks a message, or has them in another order.
    """
    if client_ids is None:
        return
    left_out = None if without is None else client_id_of(without)
    if not await asyncio.to_thread(_is_known, session, client_ids, left_out):
        raise ChatDiffers("The chat has messages that the client has not seen.")


def _is_known(session: Session, client_ids: Sequence[str], left_out: str | None) -> bool:
    """Return whether a client has all messages but one, in order."""
    shown = [each.id for each in ui_messages(session.session_id, session.messages, {})]
    if left_out is not None:
        shown.remove(left_out)
    rest = iter(client_ids)
    return all(each in rest for each in shown)
