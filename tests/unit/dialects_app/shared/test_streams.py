"""Answers: JSON, and streams of messages that wait, which begin at once."""

import json
from typing import Any

import pytest

from chat.http.sse import HEARTBEAT
from dialects_app.chat_completions.projector import ChunkProjector
from dialects_app.shared.streams import json_response, stream_when_taken
from tests.unit.dialects_app.chat_completions.journals import DONE, STARTED, TURN, complete, said
from tests.unit.dialects_app.turns import numbered


class Queued:
    """A stream of a message that waits for a moment."""

    def __init__(self) -> None:
        self.turn_id = ""
        self.closed = False
        self._steps: list[Any] = [(), numbered([STARTED, said("Hello"), complete(), DONE]), None]

    async def next(self, _: Any = None) -> Any:
        events = self._steps.pop(0)
        self.turn_id = TURN if events else ""
        return events

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("announcement", [HEARTBEAT, b"data: waits\n\n"])
async def test_a_stream_begins_at_once_and_has_the_turn_when_it_begins(announcement) -> None:
    queued: Any = Queued()
    made: list[ChunkProjector] = []

    def make(turn_id: str) -> ChunkProjector:
        made.append(ChunkProjector(turn_id, "m"))
        return made[-1]

    stream = stream_when_taken(queued, make, first=announcement)
    chunks = [chunk async for chunk in stream.__aiter__()]
    assert chunks[:2] == [announcement, HEARTBEAT]
    assert TURN.encode() in chunks[2]
    assert chunks[2].endswith(b"data: [DONE]\n\n")
    assert len(made) == 1


def test_half_a_character_is_no_error_in_json() -> None:
    assert json.loads(json_response({"text": "Zo\u00eb"}).content) == {"text": "Zo\u00eb"}
    answer = json_response({"text": "cut \ud83d"})
    assert json.loads(answer.content)["text"].startswith("cut ")
