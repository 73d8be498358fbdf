"""Sealing: wherever a turn died, its session and its journal come to the same good end."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from chat.http.schemas import ExecutedToolCallOut
from chat.remote.replay import replay
from chat.remote.sealing import closing_lines, seal_session
from chat.storage.journal import Entry, line
from chat.stream.attached_file import AttachedFile
from chat.stream.encoding import ascii_json, encode_event
from chat.stream.events import (
    ContentDelta,
    Done,
    Event,
    FinishedCall,
    MessageComplete,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolContinuationStarted,
    ToolResultReceived,
    TurnStarted,
)
from sessions_app.calls import named_call, open_calls, pair_calls
from sessions_app.format.codec import decode, encode
from sessions_app.messages import (
    INTERRUPTED_RESULT,
    AssistantMessage,
    Attachment,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sessions_app.session import (
    Session,
    SessionMetadata,
    append_messages,
)
from sessions_app.variants import extend_answer, find_answer, prefer_whole

NOW = "2026-11-21T10:00:00.000000+00:00"
SESSION_ID, TURN_ID = "a1b2c3d4e5", "0199f3a2b4c50000abcd"
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Z"]), max_size=8)
Step = Message | str  # a message that is saved, or lines that are journalled with one write


def entries_of(journal: str) -> list[Entry]:
    whole = journal[: journal.rfind("\n") + 1]
    return [msgspec.json.decode(text, type=Entry) for text in whole.splitlines()]


class Script:
    """Writes down what a turn does, in the engine's order."""

    def __init__(self, replaced_id: str | None = None) -> None:
        self.also: dict[str, Any] = {"replaced_id": replaced_id} if replaced_id else {}
        self.steps: list[Step] = []
        self._number = 0

    def emit(self, *events: Event) -> None:
        lines = ""
        for event in events:
            self._number += 1
            lines += line(self._number, event.event, encode_event(event))
        self.steps.append(lines)

    def note(self, name: str, note: dict[str, Any]) -> None:
        self.steps.append(line(0, name, ascii_json(note)))

    def round(self, message_id: str, deltas: Sequence[tuple[bool, str]]) -> None:
        self.steps.append(
            line(0, "round", ascii_json({"message_id": message_id, "model": "m", **self.also}))
        )
        for is_text, text in deltas:
            self.emit(ContentDelta(content=text) if is_text else ThinkingContentDelta(content=text))

    def tools(self, message: AssistantMessage, first_index: int) -> None:
        self.steps.append(message)
        self.emit(
            *[
                ToolCallStarted(
                    tool_name=call.name,
                    arguments=call.arguments,
                    call_index=index,
                    tool_call_id=call.id,
                )
                for index, call in enumerate(message.tool_calls, first_index)
            ]
        )
        for index, call in enumerate(message.tool_calls, first_index):
            self.steps.append(tool_result(call, f"result{index}"))
            self.emit(
                ToolResultReceived(
                    tool_name=call.name,
                    success=True,
                    result="r",
                    error_message=None,
                    call_index=index,
                    tool_call_id=call.id,
                    summary="r",
                    execution_time_ms=1.0,
                )
            )
        self.emit(ToolContinuationStarted())

    def end(self, message: AssistantMessage) -> None:
        self.steps.append(message)
        self.report(message)

    def report(self, message: AssistantMessage, *before: Event) -> None:
        complete = MessageComplete(
            message_id=message.message_id,
            model="m",
            eval_count=1,
            prompt_eval_count=1,
            context_window={},
            content=message.content,
            thinking=None,
            tool_calls=[],
            turn_id=TURN_ID,
            done_reason="stop",
            usage={},
        )
        self.emit(*before, complete, Done(session_id=SESSION_ID))


def tool_result(call: ToolCall, message_id: str) -> ToolMessage:
    return ToolMessage(
        content="r", message_id=message_id, timestamp=NOW, tool_name=call.name, tool_call_id=call.id
    )


def names_of_calls(session: Session) -> list[str]:
    """Return the names of all calls of a session, as a claim keeps them."""
    return [
        named_call(message.message_id, call.id)
        for message in session.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    ]


def answer(message_id: str, deltas: Sequence[tuple[bool, str]], calls: int = 0) -> AssistantMessage:
    return AssistantMessage(
        content="".join(text for is_text, text in deltas if is_text).strip(),
        message_id=message_id,
        timestamp=NOW,
        model="m",
        done_reason="stop",
        # Some models count their calls from 0 in every round.
        tool_calls=tuple(ToolCall(id=f"call_{n}", name="t", arguments={}) for n in range(calls)),
    )


DELTAS = st.lists(st.tuples(st.booleans(), TEXTS.filter(bool)), max_size=4)


@st.composite
def turns(draw: st.DrawFn, replaced_id: str | None = None) -> tuple[list[Step], str]:
    """A whole turn, and the lines of its journal cut in two for a writer that dies in between."""
    script = Script(replaced_id)
    script.emit(TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model="m"))
    index = 0
    for number in range(draw(st.integers(0, 2))):
        deltas, calls = draw(DELTAS), draw(st.integers(1, 3))
        script.round(f"round{number}", deltas)
        script.tools(answer(f"round{number}", deltas, calls), index)
        index += calls
    deltas = draw(DELTAS)
    script.round("final", deltas)
    script.end(answer("final", deltas))
    cut = draw(st.integers(0, len(script.steps)))
    torn = ""
    if cut < len(script.steps) and isinstance(script.steps[cut], str):
        torn = script.steps[cut][: draw(st.integers(0, len(script.steps[cut]) - 1))]
    return script.steps[:cut], torn


def left_behind(steps: list[Step], torn: str) -> tuple[Session, str]:
    """Return the session file and the journal of a turn that died after these steps."""
    question = UserMessage(content="q", message_id="user", timestamp=NOW)
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    session = append_messages(Session(metadata=metadata), question, now=NOW)
    saved = [step for step in steps if not isinstance(step, str)]
    if saved:
        session = append_messages(session, *saved, now=NOW)
    return session, "".join(step for step in steps if isinstance(step, str)) + torn


@given(turns())
def test_wherever_a_turn_dies_its_session_parses_and_holds_what_clients_saw(turn):
    session, journal = left_behind(*turn)
    entries = entries_of(journal)
    sealed = seal_session(session, replay(entries), now=NOW)
    assert decode(encode(sealed), SESSION_ID).messages == sealed.messages
    assert sealed.messages[: len(session.messages)] == session.messages
    ids = [message.message_id for message in sealed.messages]
    assert len(ids) == len(set(ids))
    rounds = [number for number, entry in enumerate(entries) if entry.event == "round"]
    for begin, end in pairwise([*rounds, len(entries)]):
        message_id = entries[begin].value()["message_id"]
        seen = "".join(
            entry.value()["content"]
            for entry in entries[begin:end]
            if entry.event == "content_delta"
        )
        kept = [m.content for m in sealed.messages if m.message_id == message_id]
        assert kept == [seen.strip()] or (not kept and not seen.strip())


@given(turns())
def test_every_call_that_started_has_one_result_and_no_other_has_any(turn):
    session, journal = left_behind(*turn)
    entries = entries_of(journal)
    sealed = seal_session(session, replay(entries), now=NOW)
    started = [entry for entry in entries if entry.event == "tool_call"]
    results = [message for message in sealed.messages if isinstance(message, ToolMessage)]
    assert len(started) == len(results)
    asked = [m.tool_calls for m in sealed.messages if isinstance(m, AssistantMessage)]
    # A call that nobody began may still be run.
    assert len(open_calls(sealed.messages)) == sum(map(len, asked)) - len(results)
    # What a model is sent pairs each call with its own result, nothing made up but for open calls.
    paired = [
        message for message in pair_calls(sealed.messages) if isinstance(message, ToolMessage)
    ]
    assert [m.message_id for m in paired][: len(results)] == [m.message_id for m in results]
    lost = [message for message in results if message.failed]
    assert all(message.content == INTERRUPTED_RESULT for message in lost)
    assert len(lost) == len(results) - sum(
        isinstance(message, ToolMessage) for message in session.messages
    )


@given(turns(), st.data())
def test_sealing_twice_is_sealing_once(turn, data):
    session, journal = left_behind(*turn)
    replayed = replay(entries_of(journal))
    begun = data.draw(st.sets(st.sampled_from(["another/call_0", *names_of_calls(session)])))
    sealed = seal_session(session, replayed, now=NOW, begun=begun)
    assert seal_session(sealed, replayed, now="2030-01-01T00:00:00+00:00", begun=begun) is sealed


@given(turns(), st.data())
def test_a_journal_that_is_lost_from_somewhere_on_leaves_the_claim_to_tell_what_began(turn, data):
    session, journal = left_behind(*turn)
    entries = entries_of(journal)
    lost = replay(entries[: data.draw(st.integers(0, len(entries)))])
    sealed = seal_session(session, lost, now=NOW, begun=names_of_calls(session))
    assert open_calls(sealed.messages) == ()
    assert sealed.messages[: len(session.messages)] == session.messages
    nothing_known = seal_session(session, replay(()), now=NOW, begun=["another/call_0"])
    assert open_calls(nothing_known.messages) == open_calls(session.messages)


@given(turns("old"))
def test_wherever_a_turn_dies_the_answer_that_it_makes_again_is_there_and_what_clients_saw(turn):
    question = UserMessage(content="q", message_id="user", timestamp=NOW)
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    old = answer("old", [(True, "Old")])
    session = append_messages(Session(metadata=metadata), question, old, now=NOW)
    steps, torn = turn
    for step in steps:
        if not isinstance(step, str):
            session = extend_answer(session, step, now=NOW, replaced_id="old")
    entries = entries_of("".join(step for step in steps if isinstance(step, str)) + torn)
    replayed = replay(entries)
    sealed = seal_session(session, replayed, now=NOW)

    assert decode(encode(sealed), SESSION_ID).messages == sealed.messages
    assert seal_session(sealed, replayed, now="2030-01-01T00:00:00+00:00") is sealed
    found = find_answer(sealed, "old")
    assert found is not None
    assert found.content == "Old"
    if replayed.text and replayed.message_id:
        kept = find_answer(sealed, replayed.message_id)
        assert kept is not None
        assert kept.content == replayed.text
        # What was broken off stands nowhere in the place of what was whole.
        assert not kept.interrupted or sealed.messages == (question, sealed.messages[1])
    assert prefer_whole(sealed, now=NOW) is sealed


@given(turns(), st.data())
def test_a_journal_ends_once_even_when_those_who_end_it_die_too(turn, data):
    session, journal = left_behind(*turn)
    sealed = seal_session(session, replay(entries_of(journal)), now=NOW)
    for attempt in range(3):
        journal = journal[: journal.rfind("\n") + 1]
        entries = entries_of(journal)
        if entries and entries[-1].event == "done":
            break
        replayed = replay(entries)
        lines = closing_lines(sealed, replayed, TURN_ID)
        written = len(lines) if attempt == 2 else data.draw(st.integers(0, len(lines)))
        journal += lines[:written]
    events = [entry for entry in entries_of(journal) if entry.n]
    assert [event.n for event in events] == list(range(1, len(events) + 1))
    names = [event.event for event in events]
    assert names.count("done") == 1
    assert names[-1] == "done"
    endings = {"message_complete", "cancelled", "error"}
    assert [name for name in names if name in endings] == names[-2:-1]
    # An answer that was saved whole is told as one, an unfinished one is not.
    whole = any(
        message.message_id == "final" and message in session.messages for message in sealed.messages
    )
    assert names[-2] == ("message_complete" if whole else "error")


def test_images_of_results_are_told_of_an_answer_that_was_saved_and_not_told():
    cat = Attachment(id="sha256:0", name="cat.png", media_type="image/png", size=9)
    call = FinishedCall(
        tool_name="draw",
        tool_call_id="c1",
        call_index=0,
        arguments={},
        success=True,
        result="",
        error_message=None,
        execution_time_ms=1.0,
        attachments=AttachedFile.of([cat]),
    )
    asked = msgspec.structs.replace(
        answer("round0", []), tool_calls=(ToolCall(id="c1", name="draw", arguments={}),)
    )
    result = ToolMessage(
        content="",
        message_id="result",
        timestamp=NOW,
        tool_name="draw",
        tool_call_id="c1",
        attachments=(cat,),
    )
    told = [TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model="m"), call.event()]
    journal = "".join(line(n, e.event, encode_event(e)) for n, e in enumerate(told, 1))
    journal += line(0, "round", ascii_json({"message_id": "final", "model": "m"}))
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    saved = [asked, result, answer("final", [(True, "A cat.")])]
    session = append_messages(Session(metadata=metadata), *saved, now=NOW)
    turn = replay(entries_of(journal))

    sealed = seal_session(session, turn, now=NOW)
    ending = entries_of(closing_lines(sealed, turn, TURN_ID))[0].value()

    assert sealed.messages[1].attachments == (cat,)
    assert [each["attachments"] for each in ending["tool_calls"]] == [
        [{"id": "sha256:0", "name": "cat.png", "media_type": "image/png", "size": 9}]
    ]


def test_an_answer_that_was_saved_and_not_told_is_told_with_its_calls():
    call = ToolCall(id="c1", name="add", arguments={"a": 1})
    asked = msgspec.structs.replace(answer("round0", []), tool_calls=(call,))
    script = Script()
    script.emit(TurnStarted(turn_id=TURN_ID, session_id=SESSION_ID, model="m"))
    script.round("round0", [])
    script.tools(asked, 0)
    script.round("final", [(True, "3")])
    saved = answer("final", [(True, "3")])
    journal = "".join(step for step in script.steps if isinstance(step, str))
    metadata = SessionMetadata(session_id=SESSION_ID, model="m", created_at=NOW, updated_at=NOW)
    session = append_messages(Session(metadata=metadata), asked, saved, now=NOW)

    lines = closing_lines(session, replay(entries_of(journal)), TURN_ID)

    told = entries_of(lines)[0].value()
    assert [ExecutedToolCallOut.model_validate(each).arguments for each in told["tool_calls"]] == [
        {"a": 1}
    ]
