"""Chooses which images and PDFs a request sends; the others are mentioned in its text. Pure.

Those that the model does not take are mentioned wherever they stand, so that a conversation goes on
after a change to a model that sees nothing. Where a request gets too long, those of the oldest
messages go first, before any message does; what the user said last and the results that the model
has not seen yet keep theirs. The session keeps everything.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from chat.context.attachment_costs import AttachmentRules, tokens_of
from chat.context.tokens import CHARACTERS_PER_TOKEN, Calibration
from sessions_app.attachments.media_type import TEXT
from sessions_app.attachments.names import mention
from sessions_app.attachments.references import is_whole_result
from sessions_app.messages import Attachment, Message, ToolMessage, UserMessage
from sessions_app.variants import answer_start


def with_mentions(
    messages: Sequence[Message], rules: AttachmentRules, *, left_out: Collection[str] = ()
) -> list[Message]:
    """Return the messages as a model is sent them: what it does not get is mentioned.

    Args:
        messages: The messages that are sent, oldest first.
        rules: What the model takes.
        left_out: The ids of messages whose images and PDFs are left out, unless they are new.
    """
    new = _new(messages) if left_out else ()
    return [
        _mentioning(message, rules, whole=message.message_id in left_out and at not in new)
        if message.attachments
        else message
        for at, message in enumerate(messages)
    ]


def files_to_leave_out(
    messages: Sequence[Message], rules: AttachmentRules, calibration: Calibration, *, tokens: int
) -> str | None:
    """Return the id of the last message whose images and PDFs must go; all before it go, too.

    Args:
        messages: The messages that are sent, with mentions already.
        rules: Whose measure and limits hold.
        calibration: The model's measure.
        tokens: So many tokens shall be saved, as far as that is possible.

    Returns:
        None where nothing must go, or nothing can.
    """
    load = [message for message in messages if any(_files(message))]
    files, size = _too_much(load, rules)
    new = _new(messages)
    spared = {messages[at].message_id for at in new}
    last = None
    for message in load:
        if tokens <= 0 and files <= 0 and size <= 0:
            break
        if message.message_id in spared:
            continue
        last = message.message_id
        for each in _files(message):
            words = int(len(mention(each, left_out=True)) / CHARACTERS_PER_TOKEN) + 1
            tokens -= calibration.correct_files(tokens_of(each, rules.vendor))
            tokens += calibration.correct(words)
            files -= 1
            size -= each.size
    return last


def _too_much(load: Sequence[Message], rules: AttachmentRules) -> tuple[int, int]:
    """Return how many files, and bytes of them, are beyond what a vendor takes.

    They are counted against half of its limits once they pass it: the beginning of requests shall
    change rarely.
    """
    limits = rules.limits
    sizes = [each.size for message in load for each in _files(message)]
    files = size = 0
    if limits.files is not None and len(sizes) > limits.files:
        files = len(sizes) - limits.files // 2
    if limits.size is not None and sum(sizes) > limits.size:
        size = sum(sizes) - limits.size // 2
    return files, size


def _files(message: Message) -> Iterator[Attachment]:
    """Yield the images and PDFs of a message."""
    return (each for each in message.attachments if each.media_type != TEXT)


def _mentioning(message: Message, rules: AttachmentRules, *, whole: bool) -> Message:
    if not isinstance(message, UserMessage | ToolMessage):
        return message
    kept: list[Attachment] = []
    gone: list[Attachment] = []
    for each in message.attachments:
        if is_whole_result(message, each):
            continue
        is_sent = each.media_type == TEXT or (not whole and rules.takes_file(each))
        (kept if is_sent else gone).append(each)
    if len(kept) == len(message.attachments):
        return message
    words = "\n".join(mention(each, left_out=True) for each in gone)
    content = "\n\n".join(filter(None, (message.content, words)))
    return msgspec.structs.replace(message, content=content, attachments=tuple(kept))


def _new(messages: Sequence[Message]) -> Collection[int]:
    """Return where the last user message stands, and the results that no answer follows."""
    end = len(messages)
    while end and isinstance(messages[end - 1], ToolMessage):
        end -= 1
    return {answer_start(messages[:end]) - 1, *range(end, len(messages))}
