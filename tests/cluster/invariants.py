"""What must be true whatever failed: of each session that clients were told of, on every node."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.cluster.nodes import Cluster, Listener, Node
from tests.functional.conftest import Chat, Event

Message = dict[str, Any]


def number_of(event: Event) -> int:
    """Return the number that an event has in its turn."""
    return int(event.id.rpartition(":")[2])


def check_stream(events: Sequence[Event]) -> None:
    """Check a stream by itself: one turn, numbers without gaps, and at most one end."""
    assert len({event.id.rpartition(":")[0] for event in events}) <= 1, events
    numbers = [number_of(event) for event in events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    names = [event.name for event in events]
    assert names.count("done") <= 1, names
    assert "done" not in names[:-1], names


def check_told(messages: Sequence[Message], told: Listener, question: str | None) -> None:
    """Check that a session has what a client was told of one turn, and has it once."""
    check_stream(told.events)
    if question is not None:
        asked = [m["content"] for m in messages if m["role"] == "user"].count(question)
        assert asked == 1 if told.events else asked <= 1, (asked, told.names, messages)
    calls = Counter(m["tool_call_id"] for m in messages if m["role"] == "tool")
    for event in told.events:
        if event.name == "tool_result":
            assert calls[event.data["tool_call_id"]] == 1, (event, messages)
    complete = [event.data for event in told.events if event.name == "message_complete"]
    if complete:
        [answer] = [m for m in messages if m["message_id"] == complete[0]["message_id"]]
        assert answer["content"] == complete[0]["content"], (complete, messages)
        assert "interrupted" not in answer, messages
    elif told.text.strip():
        texts = [m["content"] for m in messages if m["role"] == "assistant"]
        assert any(text.startswith(told.text.strip()) for text in texts), (told.text, messages)


def check_one_answer(messages: Sequence[Message]) -> None:
    """Check that no question has two answers side by side."""
    finals = [
        "user" if m["role"] == "user" else "answer"
        for m in messages
        if m["role"] == "user" or (m["role"] == "assistant" and not m.get("tool_calls"))
    ]
    pairs = list(itertools.pairwise(finals))
    assert ("answer", "answer") not in pairs, messages


def frames_of(chat: Chat, session_id: str, after: str | None = None) -> bytes | None:
    """Return the events after one, byte for byte; None when there are none."""
    headers = {"Last-Event-ID": after} if after else {}
    answer = chat.http.get(f"/chat/{session_id}/stream", headers=headers, timeout=100)
    assert answer.status_code in {200, 204}, answer.text
    if answer.status_code == 204:
        return None
    frames = answer.content.replace(b"retry: 2000\n", b"").split(b"\n\n")
    return b"".join(frame + b"\n\n" for frame in frames if frame.startswith(b"id: "))


def check_same_everywhere(
    nodes: Sequence[Node], session_id: str, chance: random.Random, *, points: int = 3
) -> bytes:
    """Check that each node tells a turn from any event on in the same bytes; return all of them."""
    clients = [node.chat() for node in nodes]
    whole = frames_of(clients[0], session_id)
    assert whole is not None
    frames = [frame + b"\n\n" for frame in whole.split(b"\n\n")[:-1]]
    for client in clients:
        for number in [0, *(chance.randrange(len(frames)) for _ in range(points))]:
            last = frames[number - 1].split(b"\n")[0].removeprefix(b"id: ").decode()
            told = frames_of(client, session_id, last if number else None)
            assert told == b"".join(frames[number:]), (client.http.base_url, number)
    return whole


def check_session(
    cluster: Cluster,
    session_id: str,
    *told: Listener,
    question: str | None = None,
) -> list[Message]:
    """Check a session of a turn that has ended, as every node has it; return its messages."""
    versions = [node.chat().messages(session_id) for node in cluster.running]
    assert all(version == versions[0] for version in versions), versions
    for listener in told:
        check_told(versions[0], listener, question)
    check_one_answer(versions[0])
    return versions[0]
