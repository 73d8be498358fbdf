"""Replaces answers, which keep the replaced ones as variants (docs/decisions/0030). Pure.

An answer is everything after the last user message: what a model said, the tools that it called,
their results. Its first assistant message holds the answers that it replaced, as ``variants``,
newest first. They count nowhere else: they are not sent to models, and are no messages of the
session.
"""

from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter

import msgspec

from sessions_app.errors import InvalidMessageIndex, VariantNotFound
from sessions_app.messages import (
    CANCELLED_MARKER,
    NO_EXTRA,
    AssistantMessage,
    Message,
    UserMessage,
    Variant,
)
from sessions_app.partly_read import as_far_as_read
from sessions_app.session import Session, append_messages, message_at, with_messages

UNREAD_VARIANTS = "unread_variants"
"""The key to which a foreign value under our key is moved when the key is needed."""


class VariantChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of a session, after a variant was made the answer.

    Attributes:
        session_id: The session.
        message_index: Where the answer's first assistant message stands, which has the variants.
        messages: The messages of the answer, oldest first.
        message_count: How many messages the session has now.
    """

    session_id: str
    message_index: int
    messages: Sequence[Message]
    message_count: int


def answer_start(messages: Sequence[Message]) -> int:
    """Return where the last answer begins: after the last user message."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            return index + 1
    return 0


def variants_of(answer: Sequence[Message]) -> Sequence[Variant]:
    """Return the variants of an answer, newest first."""
    holder = _holder_of(answer)
    message = answer[holder] if holder is not None else None
    return message.variants if isinstance(message, AssistantMessage) else ()


def is_whole(answer: Sequence[Message]) -> bool:
    """Return whether an answer is finished: neither broken off nor waiting for tools."""
    last = answer[-1] if answer else None
    return isinstance(last, AssistantMessage) and last.is_complete


def known_ids(messages: Sequence[Message], ids: Collection[str]) -> set[str]:
    """Return which ids are those of messages, or of some in the variants of the last answer."""
    wanted = set(ids)
    answer = messages[answer_start(messages) :]
    # Messages are said once, in the last answer: what a turn left unread is far behind that.
    looked_at = (*as_far_as_read(messages), *answer)
    known = wanted.intersection(map(attrgetter("message_id"), looked_at))
    for variant in variants_of(answer):
        known |= wanted.intersection(message.message_id for message in variant)
    return known


def find_answer(session: Session, message_id: str) -> AssistantMessage | None:
    """Return the assistant message with this id, among the messages or in a variant."""
    for message in newest_first(session.messages):
        if isinstance(message, AssistantMessage) and message.message_id == message_id:
            return message
    return None


def newest_first(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield messages from the newest to the oldest, and then those of their variants."""
    yield from reversed(messages)
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for variant in message.variants:
                yield from reversed(variant)


def without_replaced(session: Session, replaced_id: str | None) -> Session:
    """Return the session as a turn sees it that makes the last answer again.

    Args:
        session: The session as its file says.
        replaced_id: The first message of the answer to replace. Once that was replaced, or if
            there is none, the session is returned as it is.
    """
    if replaced_id is None:
        return session
    start = answer_start(session.messages)
    if not _has(session.messages[start:], replaced_id):
        return session
    return with_messages(session, session.messages[:start], now=session.metadata.updated_at)


def extend_answer(
    session: Session, *messages: Message, now: str, replaced_id: str | None = None
) -> Session:
    """Append messages that are not there yet to the last answer, or begin one with them.

    Args:
        session: The session.
        messages: What a model or a tool said.
        now: The time.
        replaced_id: The first message of the answer that these messages replace. It becomes a
            variant with the first of them; without any text or call, they replace nothing.
    """
    known = known_ids(session.messages, [message.message_id for message in messages])
    new = [message for message in messages if message.message_id not in known]
    if not new:
        return session
    start = answer_start(session.messages)
    replaced = session.messages[start:]
    if not _has(replaced, replaced_id):
        return append_messages(session, *new, now=now)
    if _says_nothing(new):
        return session
    return _with_answer(session, new, _with_newest(replaced), now=now)


def prefer_whole(session: Session, *, now: str) -> Session:
    """Let a whole variant take the place of an answer that was broken off, which becomes one.

    The newest whole variant does. A finished answer stays, and so does one that can be resumed:
    it ends with calls or their results.
    """
    answer = session.messages[answer_start(session.messages) :]
    last = answer[-1] if answer else None
    if not isinstance(last, AssistantMessage) or last.tool_calls or last.is_complete:
        return session
    whole = next(filter(is_whole, variants_of(answer)), None)
    return session if whole is None else _with_variant(session, whole, now=now)


def choose_variant(session: Session, index: int, message_id: str, *, now: str) -> Session:
    """Make a variant of the last answer the answer again; the present one becomes a variant.

    Only of the last one: what follows an answer was said in reply to it.

    Args:
        session: The session.
        index: Position of the answer's first assistant message among all messages.
        message_id: A message of the variant. If it is one of the answer, nothing changes.
        now: The time.

    Raises:
        InvalidMessageIndex: The last answer does not begin at the index.
        VariantNotFound: The answer has no such variant.
    """
    message_at(session, index)
    start = answer_start(session.messages)
    answer = session.messages[start:]
    holder = _holder_of(answer)
    if holder is None or index != start + holder:
        begins = f"it begins at {start + holder}" if holder is not None else "there is none"
        raise InvalidMessageIndex(
            f"The last answer does not begin at message {index}: {begins}. "
            "Only the last answer can be changed for a variant; fork the session for another.",
            message_index=index,
            message_count=len(session.messages),
        )
    if _has(answer, message_id):
        return session
    for variant in variants_of(answer):
        if _has(variant, message_id):
            return _with_variant(session, variant, now=now)
    raise VariantNotFound(session.session_id, index, message_id)


def choice_in(session: Session) -> VariantChoice:
    """Return the last answer of a session that has one, as ``choose_variant`` left it."""
    start = answer_start(session.messages)
    answer = session.messages[start:]
    return VariantChoice(
        session_id=session.session_id,
        message_index=start + (_holder_of(answer) or 0),
        messages=answer,
        message_count=len(session.messages),
    )


def readable_variant(messages: Sequence[Message]) -> bool:
    """Return whether these messages can stand where an answer stands."""
    return _holder_of(messages) is not None and answer_start(messages) == 0


def _has(answer: Sequence[Message], message_id: str | None) -> bool:
    return message_id is not None and any(m.message_id == message_id for m in answer)


def _says_nothing(messages: Sequence[Message]) -> bool:
    """Return whether nothing is lost without these: the mark of an answer, results of no call."""
    return not any(
        isinstance(message, AssistantMessage)
        and (
            message.tool_calls or message.thinking or message.content not in ("", CANCELLED_MARKER)
        )
        for message in messages
    )


def _holder_of(answer: Sequence[Message]) -> int | None:
    """Return which message of an answer holds its variants: the first one of a model."""
    for index, message in enumerate(answer):
        if isinstance(message, AssistantMessage):
            return index
    return None


def _with_variant(session: Session, variant: Variant, *, now: str) -> Session:
    answer = session.messages[answer_start(session.messages) :]
    others = [other for other in _with_newest(answer) if other is not variant]
    return _with_answer(session, variant, others, now=now)


def _with_newest(answer: Sequence[Message]) -> Sequence[Variant]:
    """Return the variants that an answer leaves to the one that replaces it: itself too."""
    alone = tuple(_holding(message, ()) for message in map(_shown, answer))
    variants = [alone, *variants_of(answer)]
    return sorted(variants, key=lambda variant: variant[0].timestamp, reverse=True)


def _with_answer(
    session: Session, answer: Sequence[Message], variants: Sequence[Variant], *, now: str
) -> Session:
    start, holder = answer_start(session.messages), _holder_of(answer)
    placed = [
        _holding(message, variants) if index == holder else message
        for index, message in enumerate(answer)
    ]
    return with_messages(session, (*session.messages[:start], *placed), now=now)


def _shown(message: Message) -> Message:
    """Return the message as one that models are sent: so is a variant once it is chosen."""
    return msgspec.structs.replace(message, hidden=None) if message.hidden else message


def _holding(message: Message, variants: Sequence[Variant]) -> Message:
    """Return the message with these variants; what a file has under the key moves aside."""
    if not isinstance(message, AssistantMessage) or not (variants or message.variants):
        return message
    extra = dict(message.extra)
    if variants and "variants" in extra:
        extra[UNREAD_VARIANTS] = extra.pop("variants")
    return msgspec.structs.replace(message, variants=tuple(variants), extra=extra or NO_EXTRA)
