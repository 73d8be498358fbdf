"""Pairs the tool calls of a history with their results. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

import msgspec

from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
)


def named_call(message_id: str, call_id: str) -> str:
    """Return a name for a call that is unique in its session, unlike the call's id."""
    return f"{message_id}/{call_id}"


def call_ids(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the ids of all calls of a history."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                yield call.id


def distinct_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the history with an id of its own for each call; the same object if it has them.

    Calls of clients, and those that older servers saved, may repeat the ids of earlier rounds,
    which some providers refuse. A later call and its result get a number.
    """
    ids = list(call_ids(messages))
    if len(set(ids)) == len(ids):
        return messages
    taken = set[str]()
    distinct = list(messages)
    for index, message in enumerate(messages):
        if not isinstance(message, AssistantMessage) or not message.tool_calls:
            continue
        names: defaultdict[str | None, list[str]] = defaultdict(list)
        calls = []
        for call in message.tool_calls:
            numbered = (f"{call.id}_{number}" for number in count(2))
            name = next(each for each in chain([call.id], numbered) if each not in taken)
            taken.add(name)
            names[call.id].append(name)
            calls.append(msgspec.structs.replace(call, id=name))
        distinct[index] = msgspec.structs.replace(message, tool_calls=tuple(calls))
        for place, result in enumerate(_results_after(messages, index), index + 1):
            if left := names[result.tool_call_id]:
                distinct[place] = msgspec.structs.replace(result, tool_call_id=left.pop(0))
    return distinct


def pair_calls(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the history with exactly one result after every tool call, as providers require.

    A call whose result was lost gets one with the text ``INTERRUPTED_RESULT`` (never saved, without
    a message id). Results are put in the order of their calls and get the calls' ids. Results
    without a call are left out.
    """
    paired: list[Message] = []
    messages = distinct_calls(messages)
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        paired.append(message)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            results = results_of(messages, index)
            paired += [
                result or _interrupted_result(call, message)
                for call, result in zip(message.tool_calls, results, strict=True)
            ]
    return tuple(paired)


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls at the end of the history that have no result yet.

    Empty unless the last message, tool results aside, is an assistant's with tool calls.
    """
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage):
            results = results_of(messages, index)
            pairs = zip(message.tool_calls, results, strict=True)
            return tuple(call for call, result in pairs if result is None)
        if not isinstance(message, ToolMessage):
            break
    return ()


def results_of(messages: Sequence[Message], index: int) -> Sequence[ToolMessage | None]:
    """Return the results of the calls of an assistant message, None for those without one."""
    message = messages[index]
    calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
    return _match_results(calls, _results_after(messages, index)) if calls else ()


def calls_with_results(
    messages: Sequence[Message], message_id: str
) -> Sequence[tuple[ToolCall, ToolMessage | None]]:
    """Return the calls of a message, each with its result or None."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.message_id == message_id:
            results = _match_results(message.tool_calls, _results_after(messages, index))
            return tuple(zip(message.tool_calls, results, strict=True))
    return ()


def round_of(messages: Sequence[Message], index: int) -> range:
    """Return the indexes of the messages that belong together with the one at the index.

    These are an assistant's message and the tool results after it; else the message alone.
    """
    start, stop = index, index + 1
    while start > 0 and isinstance(messages[start], ToolMessage):
        start -= 1
    if not isinstance(messages[start], AssistantMessage):
        start = min(start + 1, index)
    if isinstance(messages[index], AssistantMessage | ToolMessage):
        while stop < len(messages) and isinstance(messages[stop], ToolMessage):
            stop += 1
    return range(start, stop)


def _results_after(messages: Sequence[Message], index: int) -> list[ToolMessage]:
    results = []
    # By index: a slice would copy the rest of the history for each answer of it.
    for place in range(index + 1, len(messages)):
        message = messages[place]
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results


def _match_results(
    calls: Sequence[ToolCall], results: Sequence[ToolMessage]
) -> list[ToolMessage | None]:
    """Return the first result of each call that no earlier call has taken."""
    by_id: dict[str, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for place in range(len(results) - 1, -1, -1):  # backwards: the first one is popped first
        result = results[place]
        if result.tool_call_id is not None:
            by_id.setdefault(result.tool_call_id, []).append(place)
        else:
            # Results in older files have only the tool's name, and are in the order of their calls.
            by_name.setdefault(result.tool_name, []).append(place)
    matched: list[ToolMessage | None] = []
    for call in calls:
        names = (call.name, "") if call.name else ("",)
        waiting = [by_id.get(call.id), *(by_name.get(name) for name in names)]
        first = min(filter(None, waiting), key=lambda places: places[-1], default=None)
        found = results[first.pop()] if first else None
        matched.append(found and msgspec.structs.replace(found, tool_call_id=call.id))
    return matched


def _interrupted_result(call: ToolCall, asked_by: AssistantMessage) -> ToolMessage:
    return ToolMessage(
        content=INTERRUPTED_RESULT,
        message_id="",
        timestamp=asked_by.timestamp,
        tool_name=call.name,
        tool_call_id=call.id,
    )
