"""Finds what messages refer to. Pure."""

from collections.abc import Iterator, Sequence

from sessions_app.messages import AssistantMessage, Attachment, Message


def attachments_in(messages: Sequence[Message]) -> Iterator[Attachment]:
    """Yield the attachments of messages, and of the answers that they replaced."""
    for message in messages:
        yield from message.attachments
        if isinstance(message, AssistantMessage):
            for variant in message.variants:
                yield from attachments_in(variant)
