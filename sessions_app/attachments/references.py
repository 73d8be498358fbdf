"""Finds the attachments that messages refer to. Pure."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from sessions_app.messages import AssistantMessage, Attachment, Message

_ID = re.compile(r"sha256:[0-9a-f]{64}(?![0-9a-f])")


def attachments_in(messages: Sequence[Message]) -> Iterator[Attachment]:
    """Yield the attachments of messages and of their variants."""
    for message in _with_variants(messages):
        yield from message.attachments


def ids_in(messages: Sequence[Message]) -> Iterator[str]:
    """Yield all ids that messages may refer to, including in unknown fields of newer servers.

    Not every id needs to be that of an attachment.
    """
    for message in _with_variants(messages):
        for attachment in message.attachments:
            yield attachment.id
        if message.extra:
            yield from _ID.findall(msgspec.json.encode(message.extra).decode())


def _with_variants(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        yield message
        if isinstance(message, AssistantMessage):
            for variant in message.variants:
                yield from _with_variants(variant)
