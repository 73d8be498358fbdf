"""Turns as they are shown to people."""

import io
import re

import msgspec
import pytest

from chat.stream.agent_events import (
    AgentComplete,
    AgentExecution,
    AgentPlanning,
    AgentStarted,
)
from chat.stream.events import (
    ContentDelta,
    ContentReset,
    MessageQueued,
    MessageTaken,
    StatusChanged,
    ThinkingContentDelta,
    ToolResultReceived,
    TurnResumed,
)
from chat.stream.numbered_event import NumberedEvent
from terminal_app.console import Console
from terminal_app.transcript import Transcript

AGENT = {"agent_name": "coder", "call_index": 0, "tool_call_id": "c"}


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def show(out: io.StringIO, *events: msgspec.Struct) -> str:
    """Return what goes to stderr."""
    err = io.StringIO()
    transcript = Transcript(Console(out, err))
    for number, event in enumerate(events, 1):
        data = msgspec.json.encode(event).decode()
        transcript("t", NumberedEvent(number, event.event, data))  # type: ignore[attr-defined]
    transcript.end_line()
    return err.getvalue()


def test_what_agents_say_is_dim_and_what_they_do_is_information() -> None:
    screen = Screen()
    err = show(
        screen,
        AgentStarted(instruction="Look\nhere", **AGENT),
        AgentPlanning(content="1. Look.", **AGENT),
        AgentComplete(session_id="s", output="Done.", **AGENT),
        ContentDelta(content="It is empty."),
    )
    assert screen.getvalue() == "\x1b[2m1. Look.\x1b[0m\nIt is empty.\n"
    assert err == "[coder begins: Look\\nhere]\n[coder is done]\n"


def test_a_pipe_gets_the_answer_and_nothing_else() -> None:
    pipe = io.StringIO()
    show(
        pipe,
        StatusChanged(state="loading_model"),
        ThinkingContentDelta(content="hm"),
        AgentPlanning(content="plan", **AGENT),
        ContentDelta(content="Paris."),
    )
    assert pipe.getvalue() == "Paris.\n"


def test_without_colors_the_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    show(screen, ThinkingContentDelta(content="hm"), ContentDelta(content="Paris."))
    assert screen.getvalue() == "hm\n\nParis.\n"


def test_a_wait_for_approval_is_no_note() -> None:
    assert show(Screen(), StatusChanged(state="waiting_for_confirmation")) == ""
    assert show(Screen(), StatusChanged(state="loading_model")) == "[loading model]\n"
    warning = StatusChanged(state="warning", message="A budget is\x1b used up.")
    assert show(Screen(), warning) == "[A budget is\\u001b used up.]\n"


def test_a_running_tool_says_what_it_does_and_does_not_count_line_by_line() -> None:
    state = "waiting_for_tool"
    shown = show(
        Screen(),
        StatusChanged(state=state),
        StatusChanged(state=state, progress=0.5, total=1.0, message="Reading a\x1b file"),
        StatusChanged(state=state, progress=0.6, total=1.0),
    )
    assert shown == "[waiting for tool]\n[Reading a\\u001b file]\n"


HOSTILE = "\x1b]52;c;eA==\x07\x9b2J\r\u202e"


def test_nothing_that_a_model_or_a_tool_says_steers_the_terminal() -> None:
    screen, tool = Screen(), {"tool_name": f"x{HOSTILE}", "call_index": 0, "tool_call_id": "c"}
    hostile = {**AGENT, "agent_name": f"a{HOSTILE}"}
    err = show(
        screen,
        ThinkingContentDelta(content=f"hm{HOSTILE}"),
        AgentStarted(instruction=HOSTILE, **hostile),
        AgentExecution(content=HOSTILE, **AGENT),
        ToolResultReceived(
            success=False,
            result=None,
            error_message=HOSTILE,
            summary=HOSTILE,
            execution_time_ms=1,
            **tool,
        ),
        AgentComplete(session_id="s", output="", **hostile),
        ContentDelta(content=f"Paris{HOSTILE}"),
    )
    for shown in (screen.getvalue().replace("\x1b[2m", "").replace("\x1b[0m", ""), err):
        assert all(char == "\n" or char.isprintable() for char in shown), shown


def test_nothing_in_an_error_or_a_question_steers_the_terminal() -> None:
    err = io.StringIO()
    console = Console(io.StringIO(), err)
    console.error(f"no such model{HOSTILE}")
    console.info(f"> what was said{HOSTILE}")
    assert err.getvalue() == "no such model]52;c;eA==2J\n> what was said]52;c;eA==2J\n"


def test_an_answer_that_comes_anew_begins_on_a_line_of_its_own() -> None:
    out = io.StringIO()
    events = ContentDelta(content="seven"), ContentReset(message_id="m"), ContentDelta(content="7")
    assert show(out, *events) == "[the answer comes anew]\n"
    assert out.getvalue() == "seven\n7\n"


def displayed(shown: str) -> list[str]:
    """Return the lines that a wide terminal has after what was shown."""
    lines = [""]
    for piece in re.split(r"(\x1b\[\d+D\x1b\[K|\n)", shown):
        if piece == "\n":
            lines.append("")
        elif moved := re.match(r"\x1b\[(\d+)D", piece):
            lines[-1] = lines[-1][: -int(moved[1])]
        else:
            lines[-1] += piece
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        (["one two thr", "ee four"], ["one two", "three four"]),
        (["one two", " ", "three"], ["one two", "three"]),
        (["fünf große Wörter"], ["fünf große", "Wörter"]),
        (["see https://example.org/path ok"], ["see", "https://example.org/path", "ok"]),
        (["漢字漢字漢字漢"], ["漢字漢字漢", "字漢"]),
        (["one\n\ntwo\n"], ["one", "", "two"]),
        (["elevensigns  \ntwo"], ["elevensigns", "two"]),
        (
            ["```\nreturn a + b + c\n``", "`\none two three"],
            ["```", "return a + b + c", "```", "one two", "three"],
        ),
    ],
)
def test_lines_break_between_words_as_they_come(
    monkeypatch: pytest.MonkeyPatch, pieces: list[str], lines: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    screen = Screen()
    show(screen, *(ContentDelta(content=piece) for piece in pieces))

    assert displayed(screen.getvalue())[:-1] == lines


def test_every_piece_is_shown_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    screen = Screen()
    console = Console(screen, io.StringIO())

    for piece in ("one tw", "o thr", "ee"):
        console.answer(piece)
        assert displayed(screen.getvalue())[-1].endswith(piece.rpartition(" ")[2])


def test_a_pipe_gets_lines_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    out = io.StringIO()
    show(out, ContentDelta(content="one two three four"))

    assert out.getvalue() == "one two three four\n"


def test_messages_that_wait_and_that_the_model_reads_are_told() -> None:
    err = show(
        io.StringIO(),
        MessageQueued(message_id="m", when_busy="queue", position=2),
        MessageQueued(message_id="m", when_busy="steer", position=1),
        MessageTaken(message_id="m", content="Shorter!", user_message_index=3),
    )
    assert err == (
        "[queued as number 2; Enter again: the model reads it before its next step]\n"
        "[the model reads it before its next step]\n"
        "[> Shorter!]\n"
    )


@pytest.mark.parametrize(
    ("keeps", "told"), [("text", ""), ("results", "[the answer comes anew]\n")]
)
def test_a_turn_that_goes_on_is_told_of_if_it_writes_its_answer_anew(keeps: str, told: str) -> None:
    resumed = TurnResumed(
        turn_id="t",
        session_id="s",
        attempt=1,
        reason="process_died",
        keeps=keeps,  # type: ignore[arg-type]
        message_id="m",
    )
    assert show(io.StringIO(), ContentDelta(content="Half"), resumed) == told
