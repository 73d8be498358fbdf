"""Replaces answers, keeping the replaced ones as variants (docs/decisions/0030). Pure.

An answer is everything after the last user message: messages of the model, tool calls and results.
Its first assistant message has the replaced answers as ``variants``, newest first. Where a question
was deleted, two answers are one: then others of its messages have variants, too. Variants are not
messages of the session and are not sent to models.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
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
    unhide,
)
from sessions_app.session import Session, append_messages, message_at, with_messages

UNREAD_VARIANTS = "unread_variants"
"""The key to which an invalid value of ``variants`` is moved when variants are added."""


class VariantChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of a session, after a variant was chosen.

    Attributes:
        session_id: The session.
        message_index: The index of the answer's first assistant message, which has the variants.
        messages: The messages of the answer, oldest first.
        message_count: The new number of messages of the session.
    """

    session_id: str
    message_index: int
    messages: Sequence[Message]
    message_count: int


def answer_start(messages: Sequence[Message]) -> int:
    """Return the index of the last answer, after the last user message."""
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            return index + 1
    return 0


def turn_start(messages: Sequence[Message]) -> int:
    """Return the index after the user message that began the last turn.

    A turn may have further ones, which were sent while it ran, after results of its tools.
    """
    start = answer_start(messages)
    while start > 1:
        before = messages[start - 2]
        turn_id = messages[start - 1].turn_id
        if isinstance(before, AssistantMessage) or not turn_id or before.turn_id != turn_id:
            break
        start = answer_start(messages[: start - 1])
    return start


def variants_of(answer: Sequence[Message]) -> Sequence[Variant]:
    """Return the variants of an answer, newest first, whichever of its messages have them."""
    holders = [m for m in answer if isinstance(m, AssistantMessage) and m.variants]
    if len(holders) == 1:
        return holders[0].variants
    return _newest_first(variant for holder in holders for variant in holder.variants)


def is_whole(answer: Sequence[Message]) -> bool:
    """Return whether an answer is finished: neither interrupted nor waiting for tools."""
    last = answer[-1] if answer else None
    return isinstance(last, AssistantMessage) and last.is_complete


def known_ids(messages: Sequence[Message], ids: Collection[str]) -> set[str]:
    """Return the ids that are those of messages, or of messages in variants of the last answer."""
    wanted = set(ids)
    answer = messages[answer_start(messages) :]
    known = wanted.intersection(map(attrgetter("message_id"), messages))
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
    """Return the session for a turn that regenerates the last answer, without that answer.

    Args:
        session: The session.
        replaced_id: The first message of the answer to replace. If it was replaced already, or is
            None, the session is returned unchanged.
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
    """Append new messages to the last answer, or begin an answer with them.

    Args:
        session: The session.
        messages: Messages of a model or a tool; those appended before are skipped.
        now: The time.
        replaced_id: The first message of the answer to replace. That answer becomes a variant with
            the first new message; messages without any text or call replace nothing.
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
    """Replace an interrupted last answer by its newest finished variant, and keep it as a variant.

    A finished answer stays, and so does one that can be resumed because it ends with tool calls or
    results.
    """
    answer = session.messages[answer_start(session.messages) :]
    last = answer[-1] if answer else None
    if not isinstance(last, AssistantMessage) or last.tool_calls or last.is_complete:
        return session
    whole = next(filter(is_whole, variants_of(answer)), None)
    return session if whole is None else _with_variant(session, whole, now=now)


def choose_variant(session: Session, index: int, message_id: str, *, now: str) -> Session:
    """Make a variant of the last answer current; the current answer becomes a variant.

    Earlier answers can't be changed, as later messages reply to them.

    Args:
        session: The session.
        index: Position of the answer's first assistant message among all messages, or of another
            one that has variants.
        message_id: A message of the variant. If it is one of the answer, nothing changes.
        now: The time.

    Raises:
        InvalidMessageIndex: The last answer does not begin at the index.
        VariantNotFound: The answer has no such variant.
    """
    named = message_at(session, index)
    start = answer_start(session.messages)
    answer = session.messages[start:]
    holder = _holder_of(answer)
    holds = index >= start and bool(variants_of([named]))
    if holder is None or (index != start + holder and not holds):
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
    """Return the last answer of a session, as the result of ``choose_variant``."""
    start = answer_start(session.messages)
    answer = session.messages[start:]
    return VariantChoice(
        session_id=session.session_id,
        message_index=start + (_holder_of(answer) or 0),
        messages=answer,
        message_count=len(session.messages),
    )


def _has(answer: Sequence[Message], message_id: str | None) -> bool:
    return message_id is not None and any(m.message_id == message_id for m in answer)


def _says_nothing(messages: Sequence[Message]) -> bool:
    """Return whether the messages have no content but a cancel marker or results."""
    return not any(
        isinstance(message, AssistantMessage)
        and (
            message.tool_calls or message.thinking or message.content not in ("", CANCELLED_MARKER)
        )
        for message in messages
    )


def _holder_of(answer: Sequence[Message]) -> int | None:
    """Return the index of the message of an answer that has the variants: the first assistant's."""
    for index, message in enumerate(answer):
        if isinstance(message, AssistantMessage):
            return index
    return None


def _with_variant(session: Session, variant: Variant, *, now: str) -> Session:
    answer = session.messages[answer_start(session.messages) :]
    others = [other for other in _with_newest(answer) if other is not variant]
    return _with_answer(session, variant, others, now=now)


def _with_newest(answer: Sequence[Message]) -> Sequence[Variant]:
    """Return the variants of an answer's replacement: the answer itself and its variants."""
    # A chosen variant is sent to models, whether the answer was hidden or not.
    alone = tuple(_holding(message, ()) for message in map(unhide, answer))
    return _newest_first((alone, *variants_of(answer)))


def _newest_first(variants: Iterable[Variant]) -> Sequence[Variant]:
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


def _holding(message: Message, variants: Sequence[Variant]) -> Message:
    """Set the variants of a message; move an invalid value of the key in its file aside."""
    if not isinstance(message, AssistantMessage) or not (variants or message.variants):
        return message
    extra = dict(message.extra)
    if variants and "variants" in extra:
        extra[UNREAD_VARIANTS] = extra.pop("variants")
    return msgspec.structs.replace(message, variants=tuple(variants), extra=extra or NO_EXTRA)
