"""Any turn's stream as a response's, however its events arrive and whoever comes back."""

from hypothesis import given
from hypothesis import strategies as st

from chat.stream.events import (
    ContentDelta,
    ThinkingContentDelta,
    ToolContinuationStarted,
)
from dialects_app.responses.projector import ResponseProjector
from dialects_app.responses.record import ResponseRecord
from tests.unit.dialects_app.responses.streams import (
    accumulate,
    check_resource,
    projected,
    texts_of,
    turns,
)
from tests.unit.dialects_app.turns import SESSION_ID, TURN_ID, numbered

RECORDS = st.sampled_from(
    [
        ResponseRecord(),
        ResponseRecord(background=True, echo={"metadata": {"a": "b"}}),
        ResponseRecord(include=["mochi.agent_events"]),
    ]
)


@given(turns(), RECORDS)
def test_every_stream_makes_sense_to_the_official_package(turn, record):
    events = projected(turn, record)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    final = [event for event in events if "response" in event][2 + record.background :]
    assert final == events[-1:]
    known = [event for event in events if not event["type"].startswith("mochi.")]
    finished = accumulate(known)
    assert (finished is not None) == (events[-1]["type"] == "response.completed")
    check_resource(events[-1]["response"])
    added = [e["item"] for e in events if e["type"] == "response.output_item.added"]
    ended = {e["item"]["id"]: e["item"] for e in events if e["type"].endswith("item.done")}
    output = events[-1]["response"]["output"]
    assert [item["id"] for item in added] == [item["id"] for item in output]
    assert {item["id"]: item for item in output} == ended


@given(turns(), RECORDS, st.data())
def test_it_does_not_matter_how_events_arrive(turn, record, data):
    events = numbered(turn)
    whole = ResponseProjector(SESSION_ID, TURN_ID, record).feed(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    projector = ResponseProjector(SESSION_ID, TURN_ID, record)
    pieces = [
        projector.feed(events[begin:end])
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True)
    ]
    assert b"".join(pieces) == whole


@given(turns(), RECORDS, st.integers(-1, 40))
def test_who_comes_back_gets_what_follows_and_nothing_else(turn, record, after):
    events = projected(turn, record)
    rest = projected(turn, record, after=after)
    assert rest == [event for event in events if event["sequence_number"] > after]


@given(turns(), RECORDS)
def test_the_pieces_of_a_text_are_the_text(turn, record):
    events = projected(turn, record)
    pieces = texts_of(events, "response.output_text.delta")
    output = events[-1]["response"]["output"]
    whole = {item["id"]: item["content"][0]["text"] for item in output if item["type"] == "message"}
    assert pieces == whole
    spoken: list[str] = [""]
    for event in turn:
        if isinstance(event, ContentDelta):
            spoken[-1] += event.content
        elif isinstance(event, ToolContinuationStarted):
            spoken.append("")
    assert list(whole.values()) == [text.lstrip() for text in spoken if text.strip()]
    reasoned = "".join(texts_of(events, "response.reasoning_summary_text.delta").values())
    thoughts = "".join(e.content for e in turn if isinstance(e, ThinkingContentDelta))
    assert "".join(reasoned.split()) == "".join(thoughts.split())
