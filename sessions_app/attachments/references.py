"""Finds the attachments that messages refer to. Pure."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from sessions_app.inbox import Inbox, inbox_to_json
from sessions_app.messages import AssistantMessage, Attachment, Message, ToolMessage

WHOLE_RESULT = " (whole result).txt"
"""The end of the name of a long result's whole text; files that tools return lose such letters."""

_ID = re.compile(r"sha256:[0-9a-f]{64}(?![0-9a-f])")


def attachments_in(messages: Sequence[Message]) -> Iterator[Attachment]:
    """Yield the attachments of messages and of their variants."""
    for message in _with_variants(messages):
        yield from message.attachments


def is_whole_result(message: Message, attachment: Attachment) -> bool:
    """Return whether an attachment is the whole text of a long result, which models read in parts.

    The message has its beginning and its end.
    """
    return isinstance(message, ToolMessage) and attachment.name.endswith(WHOLE_RESULT)


def whole_results(messages: Sequence[Message]) -> list[Attachment]:
    """Return the whole texts of the long results among the messages."""
    return [
        each
        for message in messages
        if message.attachments
        for each in message.attachments
        if is_whole_result(message, each)
    ]


def ids_in(messages: Sequence[Message]) -> Iterator[str]:
    """Yield all ids that messages may refer to, including in unknown fields of newer servers.

    Not every id needs to be that of an attachment.
    """
    for message in _with_variants(messages):
        for attachment in message.attachments:
            yield attachment.id
        if message.extra:
            yield from _ID.findall(msgspec.json.encode(message.extra).decode())


def ids_in_inbox(inbox: Inbox) -> Sequence[str]:
    """Return all ids that waiting messages and their requests may refer to."""
    if inbox.is_empty:
        return ()
    return _ID.findall(msgspec.json.encode(inbox_to_json(inbox), enc_hook=dict).decode())


def _with_variants(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        yield message
        if isinstance(message, AssistantMessage):
            for variant in message.variants:
                yield from _with_variants(variant)
