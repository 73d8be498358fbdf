"""Loads attachments for a model: images as files, texts as part of the message."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from sessions_app.attachments.media_type import TEXT, decode_text
from sessions_app.attachments.names import mention
from sessions_app.errors import AttachmentNotFound
from sessions_app.export import fenced
from sessions_app.messages import Attachment, Message, ToolMessage, UserMessage

Attaching = UserMessage | ToolMessage

MOST_TEXT_BYTES = 8 << 20
MOST_FILE_BYTES = 96 << 20
"""Bytes of all texts, and of all images and PDFs, of one request to a model."""


def have_attachments(messages: Sequence[Message]) -> bool:
    """Return whether any of the messages has an image or a file."""
    return any([message.attachments for message in messages])  # noqa: C419 - takes half as long


@dataclass(frozen=True, slots=True)
class AttachedFiles:
    """Reads the attachments of messages that a model accepts.

    Attributes:
        read: Returns a file's bytes; blocks. Raises ``AttachmentNotFound`` if it was deleted.
        takes: Returns whether the model accepts files of a type.
    """

    read: Callable[[str], bytes]
    takes: Callable[[str], bool]

    def load(self, messages: Sequence[Message]) -> tuple[Sequence[Message], Mapping[str, bytes]]:
        """Return the messages including text files, and the bytes of other attachments. Blocks.

        Files that the model does not accept, or that were deleted or cut, are only mentioned, so
        that a conversation can continue with another model. So are the oldest beyond
        ``MOST_TEXT_BYTES`` and ``MOST_FILE_BYTES``. A text is sent once with a message.
        """
        files: dict[str, bytes] = {}
        room = {True: MOST_TEXT_BYTES, False: MOST_FILE_BYTES}
        loaded = [self._loaded(message, files, room) for message in reversed(messages)]
        return loaded[::-1], files

    def _loaded(self, message: Message, files: dict[str, bytes], room: dict[bool, int]) -> Message:
        if not isinstance(message, Attaching) or not message.attachments:
            return message
        distinct = {attachment.id: attachment for attachment in message.attachments}
        texts = [self._text(attachment, files, room) for attachment in distinct.values()]
        parts = [part for part in (message.content, *texts) if part]
        return msgspec.structs.replace(message, content="\n\n".join(parts))

    def _text(self, attachment: Attachment, files: dict[str, bytes], room: dict[bool, int]) -> str:
        """Return the text for an attachment; empty if its bytes are sent."""
        if attachment.id in files:
            return ""
        is_text = attachment.media_type == TEXT
        if not self.takes(attachment.media_type) or attachment.size > room[is_text]:
            return mention(attachment, left_out=True)
        try:
            data = self.read(attachment.id)
        except AttachmentNotFound:
            return mention(attachment, left_out=True)
        if len(data) != attachment.size:  # damaged since it was kept: none is sent in half
            return mention(attachment, left_out=True)
        room[is_text] -= len(data)
        if is_text:
            return named_block(attachment.name, decode_text(data))
        files[attachment.id] = data
        return ""


def named_block(name: str, text: str) -> str:
    """Return a text file as a fenced code block under its name."""
    return f"{name}:\n{fenced(text.rstrip())}"
