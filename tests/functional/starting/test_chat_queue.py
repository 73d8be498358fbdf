"""What is entered in ``mochi-server chat`` while an answer comes: it waits, in order."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.functional.starting.dates_tool import add_tool, block, saying
from tests.functional.starting.person import STALLING, Person, end, serve
from tests.functional.starting.terminal import CONTROL_C, CONTROL_D, ENTER, Terminal

pytestmark = pytest.mark.slow

WAITING = '''"""A tool that takes as long as the test wants."""

import time
from pathlib import Path

__all__ = ["wait_for_it"]


def wait_for_it(path: str) -> str:
    """Wait for a file.

    Args:
        path: The file.
    """
    while not Path(path).exists():
        time.sleep(0.02)
    return "here"
'''
QUEUED = "[queued as number "
SLOW = block(messages=[{"text_message": {"text": ["one", " two", " three"]}}], words_per_second=2)


@pytest.fixture
def asked(person: Person) -> Terminal:
    """Return a conversation whose answer began, and goes on when CTRL-C stops it."""
    chat = person.opens()
    chat.enter(STALLING)
    chat.read_until("so far")
    return chat


def test_what_is_entered_is_answered_after_the_answer(person: Person) -> None:
    chat = person.opens()
    chat.enter(SLOW)
    chat.read_until("one")
    chat.type(f"Next{ENTER}")
    chat.read_until(f"{QUEUED}1; Enter again")
    chat.read_until("three\r\n")
    chat.read_until("> Next")
    end(chat)

    assert person.said()[2] == "Next"
    assert person.said()[3].endswith("Next")


def test_what_waits_is_shown_changed_and_resumed_after_a_stop(
    person: Person, asked: Terminal
) -> None:
    for number, text in enumerate(("first", "second", "third"), 1):
        asked.type(text + ENTER)
        asked.read_until(f"{QUEUED}{number}")
    asked.type(f"/queue up 2{ENTER}")
    asked.read_until("1. second")
    asked.read_until("2. first")
    asked.type(f"/queue drop 3{ENTER}")
    asked.read_until("2. first")
    asked.type(f"/queue edit 2 {saying('Edited.')}{ENTER}")
    asked.read_until("2. <|instruction_start|>")
    asked.type(CONTROL_C)
    asked.read_until("what there is of the answer is saved")
    asked.read_until("They are paused; /queue resume has them answered.")
    asked.enter("/queue resume")
    asked.read_until("> second")
    asked.read_until("Edited.\r\n")
    asked.enter("/queue")
    asked.read_until("No message waits.")
    end(asked)

    assert [person.said()[index] for index in (2, 4)] == ["second", saying("Edited.")]


def test_a_change_that_says_too_little_changes_nothing(person: Person, asked: Terminal) -> None:
    asked.type(f"first{ENTER}")
    asked.read_until(f"{QUEUED}1")
    asked.type(f"/queue edit 1{ENTER}/queue steer{ENTER}/queue steer 9{ENTER}")
    asked.read_until("Say what it becomes: /queue edit 1 TEXT")
    asked.read_until("/queue steer: /help says how to change what waits.")
    asked.read_until("There is no message 9.")
    asked.type(f"/queue steer 1{ENTER}")
    asked.read_until("1. first (read before the next step)")
    asked.type(CONTROL_C)
    asked.read_until("They are paused")
    end(asked)

    assert len(person.said()) == 2


def test_a_message_that_follows_those_of_before_is_told_so(person: Person, asked: Terminal) -> None:
    asked.type(saying("Earlier.") + ENTER)
    asked.read_until(QUEUED)
    asked.type(CONTROL_C)
    asked.read_until("They are paused")
    asked.enter(saying("Later."))
    asked.read_until("[queued; what came before is answered first]")
    asked.read_until("Earlier.\r\n")
    asked.read_until("Later.\r\n")
    end(asked)

    assert person.said()[3::2] == ["Earlier.", "Later."]


def test_a_message_that_is_sent_now_stops_the_answer(person: Person, asked: Terminal) -> None:
    asked.type(saying("Now.") + ENTER)
    asked.read_until(f"{QUEUED}1")
    asked.type(f"/queue now 1{ENTER}")
    asked.read_until("Now.\r\n")
    end(asked)

    assert person.said()[1::2] == ["so far\n\n[cancelled]", "Now."]


def test_enter_twice_has_it_read_before_the_next_step(person: Person) -> None:
    add_tool(person.data_dir, person.environment)
    (person.data_dir / "tools" / "waiting.py").write_text(WAITING)
    chat = person.opens("-t", "wait_for_it", "--yes")
    call = {"tool_call": [{"name": "wait_for_it", "args": {"path": str(person.data_dir / "it")}}]}
    chat.enter(block(per_request=True, messages=[call, {"text_message": {"text": "Well."}}]))
    chat.read_until("wait_for_it(")
    chat.type(f"Shorter!{ENTER}")
    chat.read_until(QUEUED)
    chat.type(ENTER)
    chat.read_until("[the model reads it before its next step]")
    (person.data_dir / "it").touch()
    chat.read_until("[> Shorter!]")
    end(chat)

    assert person.said()[2:4] == ["here", "Shorter!"]


def test_commands_that_are_entered_wait_and_what_follows_them(
    person: Person, asked: Terminal
) -> None:
    asked.type(f"/think low{ENTER}later{ENTER}/queue{ENTER}")
    asked.read_until("No message waits.")
    asked.type(CONTROL_C)
    asked.read_until("> /think low")
    asked.read_until("Thinking: low.")
    asked.read_until("> later")
    end(asked)

    assert person.said()[2] == "later"


def test_ctrl_d_during_an_answer_ends_after_what_waits(person: Person) -> None:
    chat = person.opens()
    chat.enter(SLOW)
    chat.read_until("one")
    chat.type(f"later{ENTER}{CONTROL_D}")
    assert chat.wait() == 0

    assert person.said()[3].endswith("later")


def test_what_waits_stays_with_the_session(person: Person, asked: Terminal) -> None:
    asked.type(f"later{ENTER}")
    asked.read_until(QUEUED)
    asked.type(CONTROL_C)
    asked.read_until("They are paused")
    end(asked)

    again = person.opens(*person.sessions())
    again.read_until("1. later")
    again.read_until("They are paused")
    end(again)


def test_a_message_waits_for_the_answer_that_a_server_gets(
    person: Person, start: Callable[..., Any]
) -> None:
    chat = person.opens()
    chat.enter(saying("one"))
    chat.read_until("one\r\n")
    (session_id,) = person.sessions()
    server = serve(person, start)
    url = f"{server.url}/api/v1/chat/{session_id}/stream"
    with httpx.stream(
        "POST", url, json={"message": STALLING}, timeout=30, trust_env=False
    ) as answer:
        lines = answer.iter_lines()  # kept: the connection ends with it
        while "content_delta" not in next(lines):
            pass
        chat.enter(saying("two"))
        chat.read_until("[queued; what came before is answered first]")
        chat.read_until("so far")
    chat.read_until("two\r\n")  # the server has stopped its turn, as its client left
    end(chat)

    assert person.said()[-2:] == [saying("two"), "two"]
