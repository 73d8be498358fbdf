"""Turns as they are shown to people."""

import io

import msgspec
import pytest

from chat.stream.events import (
    AgentComplete,
    AgentPlanning,
    AgentStarted,
    ContentDelta,
    StatusChanged,
    ThinkingContentDelta,
)
from chat.stream.numbered_event import NumberedEvent
from mochi_project.terminal.console import Console
from mochi_project.terminal.transcript import Transcript

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
