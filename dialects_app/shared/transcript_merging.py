"""Adds to a saved conversation what it lacks of a client's history (docs/decisions/0188). Pure.

A history has no ids. So its messages are compared with those of the session, in order: calls and
results of tools by the ids of calls, others by their text. Clients may change some of them.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import dropwhile
from typing import NamedTuple

from msgspec.structs import replace

from sessions_app.messages import AssistantMessage, Message, ToolMessage, UserMessage
from sessions_app.session import Session, append_messages, with_messages

_TAGS = (
    *("system-reminder", "local-command-caveat", "local-command-stdout"),  # Claude Code
    "environment_context",  # Codex
)
"""The tags around what these clients tell a model beside the words of a person."""

_MOST_COMPARED = 1000
_BEGINNING = object()
"""Stands before the first message, which both conversations begin with."""


class Exchange(NamedTuple):
    """A client's history, without system prompts, and the answer to it."""

    history: Sequence[Message]
    answer: Sequence[Message]


class _Compared(NamedTuple):
    """Messages as they are compared.

    Attributes:
        keys: Their keys.
        indexes: Their places.
        inputs: The keys of those that the client has said.
    """

    keys: Sequence[object]
    indexes: Sequence[int]
    inputs: Sequence[object]


def own_words(texts: Sequence[str]) -> Sequence[str]:
    """Return the texts of a message without those that its client has added."""
    return [text for text in texts if not any(_is_in(tag, text.strip()) for tag in _TAGS)]


def merge(session: Session, exchange: Exchange, *, now: str) -> Session:
    """Return the session with what it lacks of an exchange; the same object if it has all.

    The answer to a repeated request replaces the one before, which becomes a variant. A history
    that was shortened, or that goes on from an earlier message, takes nothing away.
    """
    history, answer = _with_prefill_in_answer(exchange)
    calls = _calls_of(session.messages)
    ours, theirs = _compared(session.messages, calls), _compared(history, _calls_of(history))
    matcher = SequenceMatcher(None, ours.keys, theirs.keys, autojunk=False)
    at_ours, at_theirs, size = max(matcher.get_matching_blocks()[:-1], key=lambda each: each.b)
    place = ours.indexes[at_ours + size - 1] + 1
    rest = history[theirs.indexes[at_theirs + size - 1] + 1 :]
    new = [*dropwhile(lambda each: not _is_lacking(each, calls), rest)]
    if new:
        return append_messages(session, *new, *answer, now=now)
    replaced = session.messages[place:]
    if _is_same(replaced[: len(answer)], answer):  # a later request was saved first
        return session
    if ours.inputs[-2:] == theirs.inputs[-2:]:
        standing = _with_variant(answer, replaced)
        return with_messages(session, (*session.messages[:place], *standing), now=now)
    return append_messages(session, *_last_input(history), *answer, now=now)


def _is_in(tag: str, text: str) -> bool:
    """Return whether one pair of tags encloses the whole text."""
    end = f"</{tag}>"
    return text.startswith(f"<{tag}>") and text.find(end) == len(text) - len(end)


def _with_prefill_in_answer(exchange: Exchange) -> Exchange:
    """Move the beginning of an answer that the client gave into the answer."""
    history, answer = exchange
    prefill, first = history[-1] if history else None, answer[0]
    if not isinstance(prefill, AssistantMessage) or not isinstance(first, AssistantMessage):
        return exchange
    whole = replace(first, content=prefill.content + first.content)
    return Exchange(history[:-1], [whole, *answer[1:]])


def _calls_of(messages: Sequence[Message]) -> set[str | None]:
    """Return the ids of the calls that the client runs."""
    return {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.client_side
    }


def _compared(messages: Sequence[Message], calls: set[str | None]) -> _Compared:
    found: list[tuple[object, int]] = []
    inputs: list[object] = [_BEGINNING]
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            own = frozenset(_calls_of([message]))
            found.append((own or (message.role, message.content.strip()), index))
        elif isinstance(message, UserMessage) or (
            isinstance(message, ToolMessage) and message.tool_call_id in calls
        ):
            inputs.append(_key_of_input(message))
            found.append((inputs[-1], index))
    keys, indexes = zip((_BEGINNING, -1), *found[-_MOST_COMPARED:], strict=True)
    return _Compared(keys, indexes, inputs)


def _key_of_input(message: UserMessage | ToolMessage) -> object:
    if isinstance(message, ToolMessage):
        return message.tool_call_id
    return message.content.strip(), tuple(each.id for each in message.attachments)


def _is_lacking(message: Message, calls: set[str | None]) -> bool:
    """Return whether a session lacks a message right after one that it has.

    An answer is there, maybe in another form, unless its calls are not.
    """
    return not isinstance(message, AssistantMessage) or bool(_calls_of([message]) - calls)


def _is_same(before: Sequence[Message], answer: Sequence[Message]) -> bool:
    def keys(messages: Sequence[Message]) -> list[object]:
        return [(type(each), each.content.strip(), _calls_of([each])) for each in messages]

    return keys(before) == keys(answer)


def _with_variant(answer: Sequence[Message], before: Sequence[Message]) -> Sequence[Message]:
    """Return the answer with the one before as its variant, or the other way round.

    One that was broken off does not replace a whole one.
    """
    if not before:
        return answer
    known = [variant for each in before for variant in getattr(each, "variants", ())]
    standing, other = (
        (before, answer) if _is_broken(answer) > _is_broken(before) else (answer, before)
    )
    alone = tuple(
        replace(each, variants=()) if isinstance(each, AssistantMessage) else each for each in other
    )
    first = next(at for at, each in enumerate(standing) if isinstance(each, AssistantMessage))
    return [
        replace(each, variants=(alone, *known)) if at == first else each
        for at, each in enumerate(standing)
    ]


def _is_broken(answer: Sequence[Message]) -> bool:
    last = answer[-1]
    return isinstance(last, AssistantMessage) and (last.cancelled or last.interrupted)


def _last_input(history: Sequence[Message]) -> Sequence[Message]:
    """Return what follows the last message of the assistant."""
    answers = [at for at, each in enumerate(history) if isinstance(each, AssistantMessage)]
    return history[answers[-1] + 1 if answers else 0 :]
