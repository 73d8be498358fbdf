"""``mochi-server chat``, as a person uses it: a real process on a terminal, scripted models."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.fork_server import MANAGE, ROOT, Process, run_process, start_process
from tests.functional.starting.dates_tool import (
    SHOWN_CALL,
    add_tool,
    block,
    calling,
    saying,
)
from tests.functional.starting.terminal import CONTROL_C, CONTROL_D, READY, Terminal

RED = "\x1b[31m"
UP = "\x1b[A"
STALLING = block(
    messages=[{"text_message": {"text": ["so far", " and on"]}}], stall_after=1, stall_seconds=600
)


class Person:
    """Somebody who opens conversations on one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
        self.environment = {
            **kept,
            "MOCHI_TEST_MODE": "true",
            "MOCHI_TEST_WORDS_PER_SECOND": "0",
            "MOCHI_DATA_DIR": str(data_dir),
        }
        self._opened: list[Terminal] = []

    def opens(self, *arguments: str) -> Terminal:
        command = [sys.executable, MANAGE, "chat", *arguments]
        self._opened.append(Terminal(command, cwd=self.data_dir, env=self.environment))
        return self._opened[-1]

    def sessions(self) -> Sequence[str]:
        return sorted(path.stem for path in (self.data_dir / "chat_sessions").glob("*.json"))

    def said(self) -> Sequence[str]:
        """Return the texts of the only session."""
        (session_id,) = self.sessions()
        path = self.data_dir / "chat_sessions" / f"{session_id}.json"
        return [message["content"] for message in json.loads(path.read_text())["messages"]]

    def leaves(self) -> None:
        for terminal in self._opened:
            terminal.close()


@pytest.fixture
def person(data_dir: Path) -> Iterator[Person]:
    somebody = Person(data_dir)
    yield somebody
    somebody.leaves()


def end(chat: Terminal) -> None:
    chat.read_until(READY)
    chat.type(CONTROL_D)
    assert chat.wait() == 0
    assert "Traceback" not in chat.seen


def test_a_conversation_goes_on_where_it_ended(person: Person) -> None:
    first = person.opens()
    first.enter(saying("one", reasoning="hm"))
    first.read_until("\x1b[2mhm\x1b[0m\r\n\r\none\r\n")
    end(first)
    (session_id,) = person.sessions()
    assert f"mochi-server chat {session_id} goes on" in first.seen

    second = person.opens(session_id)
    second.read_until("\x1b[2mone\x1b[0m")
    second.enter("/model scripted-plain")
    second.enter(saying("two"))
    second.read_until("two\r\n")
    end(second)

    assert person.said()[1::2] == ["one", "two"]


def test_several_lines_are_one_message(person: Person) -> None:
    chat = person.opens()
    chat.read_until(READY)
    chat.type("one\x1b\rtwo\nthree\r")
    chat.enter('"""four\rfive"""')
    chat.enter(" /usr is no command")
    chat.enter("/usr/bin neither")
    end(chat)

    questions = person.said()[::2]
    assert questions == ["one\ntwo\nthree", "four\nfive", "/usr is no command", "/usr/bin neither"]


def test_what_was_typed_is_remembered_for_its_user_alone(person: Person) -> None:
    chat = person.opens()
    chat.enter("Good morning")
    end(chat)

    again = person.opens()
    again.enter(UP)
    end(again)

    history = person.data_dir / ".mochi" / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text().count("Good morning") == 1  # not again for the same message
    assert len(person.sessions()) == 2


def test_ctrl_c_stops_the_answer_and_not_the_conversation(person: Person) -> None:
    chat = person.opens()
    chat.enter(STALLING)
    chat.read_until("so far")
    chat.type(CONTROL_C)
    chat.read_until("what there is of the answer is saved")
    chat.read_until(READY)
    chat.type(CONTROL_C)
    chat.read_until("CTRL-D or /quit ends")
    chat.enter(saying("Again."))
    chat.read_until("Again.\r\n")
    chat.enter("/quit")

    assert chat.wait() == 0
    assert person.said()[1::2] == ["so far\n\n[cancelled]", "Again."]


def test_what_is_typed_while_an_answer_comes_is_the_next_message(person: Person) -> None:
    chat = person.opens()
    pieces = ["one", " two", " three"]
    chat.enter(block(messages=[{"text_message": {"text": pieces}}], words_per_second=5))
    chat.read_until("one")
    chat.type("Next\r")
    assert "Next" not in chat.read_until("three\r\n")
    chat.read_until(READY)
    chat.read_until("\r\nNext\r\n")
    end(chat)

    assert person.said()[2] == "Next"


def test_the_last_message_is_edited_and_answered(person: Person) -> None:
    chat = person.opens()
    chat.enter("/edit")
    chat.read_until("Nothing was said yet")
    chat.enter("Hello")
    chat.enter("/edit")
    chat.enter(", you")
    chat.enter("/edit")
    chat.read_until(READY)
    chat.type(CONTROL_C)  # leaves it as it is
    end(chat)

    question, answer = person.said()
    assert question == "Hello, you"
    assert answer.endswith("Hello, you")


def test_a_model_server_that_dies_is_told_and_the_answer_can_be_asked_again(person: Person) -> None:
    port = free_port()
    person.environment |= {
        "MOCHI_TEST_MODE": "false",
        "MOCHI_OLLAMA_HOST": f"http://127.0.0.1:{port}",
    }
    slow = block(
        messages=[{"text_message": {"text": ["Half a", " sentence, whole."]}}], words_per_second=2
    )
    models = serve_models(port)
    try:
        chat = person.opens("-m", "qwen3:14b")
        chat.enter(slow)
        chat.read_until("Half a")
        models.kill()
        models.wait()
        chat.read_until(RED)
        chat.read_until("/retry tries again")
        chat.enter("/retry")  # nobody is there: this is told too
        chat.read_until("(OLLAMA_UNREACHABLE)")
        models = serve_models(port)
        chat.enter("/retry")
        chat.read_until("Half a sentence, whole.\r\n")
        end(chat)
    finally:
        models.kill()
        models.wait()

    assert person.said() == [slow, "Half a sentence, whole."]


def test_a_tool_is_asked_about_in_line(person: Person) -> None:
    add_tool(person.data_dir, person.environment)
    chat = person.opens("-t", "days_between")
    chat.enter(calling())
    chat.read_until(f"Run {SHOWN_CALL}? [y/N/a] ")
    chat.type("a\n")
    chat.read_until("298 days]")
    chat.read_until("298.\r\n")
    chat.enter(calling())
    chat.read_until(f"[{SHOWN_CALL}: approved]")
    chat.read_until("298.\r\n")
    end(chat)

    assert chat.seen.count("[y/N/a]") == 1


def test_ctrl_c_at_a_question_goes_back_to_the_conversation(person: Person) -> None:
    add_tool(person.data_dir, person.environment)
    chat = person.opens("-t", "days_between")
    chat.enter(calling())
    chat.read_until("[y/N/a] ")
    chat.type(CONTROL_C)
    chat.read_until("[stopped")
    chat.enter(saying("Well."))
    chat.read_until("Well.\r\n")
    end(chat)


def test_a_question_that_is_answered_elsewhere_goes_away(
    person: Person, start: Callable[..., Any]
) -> None:
    add_tool(person.data_dir, person.environment)
    server = serve(person, start)
    chat = person.opens("-t", "days_between")
    chat.enter(calling())
    chat.read_until("[y/N/a] ")
    (session_id,) = person.sessions()
    (asked,) = server.get(f"/api/v1/chat/{session_id}/confirmations").json()["confirmations"]
    httpx.post(
        f"{server.url}/api/v1/chat/{session_id}/confirm-tool",
        json={"confirmation_id": asked["confirmation_id"], "approved": True},
        timeout=30,
        trust_env=False,
    ).raise_for_status()
    chat.read_until("298 days]")
    chat.read_until("298.\r\n")
    end(chat)


def test_a_session_that_a_server_is_busy_with_is_told(
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
        next(lines)
        chat.enter(saying("two"))
        chat.read_until("(SESSION_BUSY)")
        chat.read_until("/follow shows that answer")
    # The server stops that turn as its client has left.
    deadline = time.monotonic() + 60
    while server.get(f"/api/v1/sessions/{session_id}/status").json()["active_turn"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    chat.enter("/retry")
    chat.read_until("two\r\n")
    end(chat)


def test_a_session_that_a_server_answers_in_is_followed(
    person: Person, start: Callable[..., Any]
) -> None:
    add_tool(person.data_dir, person.environment)
    server = serve(person, start)
    new = {"message": calling(), "model": "qwen3:14b", "selected_tools": ["days_between"]}
    url = f"{server.url}/api/v1/chat/stream"
    with httpx.stream("POST", url, json=new, timeout=30, trust_env=False) as answer:
        lines = answer.iter_lines()
        while "tool_call_confirmation_required" not in next(lines):
            pass
        (session_id,) = person.sessions()

        chat = person.opens(session_id)
        chat.read_until("[another program gets this answer; CTRL-C stops it]")
        chat.read_until(f"Run {SHOWN_CALL}? [y/N/a] ")
        chat.type("y\n")
        chat.read_until("298 days]")
        chat.read_until("298.\r\n")
        assert any("message_complete" in line for line in lines)  # who asked gets it as well
    chat.enter("/follow")
    chat.read_until("No other program")
    chat.enter(saying("Two."))
    chat.read_until("Two.\r\n")
    end(chat)


def test_ctrl_c_stops_an_answer_that_a_server_gets(
    person: Person, start: Callable[..., Any]
) -> None:
    server = serve(person, start)
    new = {"message": STALLING, "model": "qwen3:14b"}
    url = f"{server.url}/api/v1/chat/stream"
    with httpx.stream("POST", url, json=new, timeout=30, trust_env=False) as answer:
        lines = answer.iter_lines()
        while "content_delta" not in next(lines):
            pass
        chat = person.opens("--last")
        chat.read_until("[another program gets this answer; CTRL-C stops it]")
        chat.type(CONTROL_C)
        chat.read_until("what there is of the answer is saved")
        assert any(line == "event: cancelled" for line in lines)
    end(chat)
    assert person.said()[-1] == "so far\n\n[cancelled]"


def test_a_terminal_that_is_closed_stops_the_answer_and_keeps_it(person: Person) -> None:
    chat = person.opens()
    chat.enter(STALLING)
    chat.read_until("so far")
    chat.hang_up()

    chat.process.wait(timeout=60)
    assert person.said()[-1] == "so far\n\n[cancelled]"


def test_a_message_is_taken_back_by_ctrl_c_right_after_enter(person: Person) -> None:
    chat = person.opens()
    chat.read_until(READY)
    chat.type(f"Hello\r{CONTROL_C}")  # one write, which an editor of lines reads at once
    chat.read_until("[not sent; the up key brings it back]")
    chat.enter(UP)
    end(chat)

    assert person.said()[0] == "Hello"


def test_a_server_that_does_not_answer_is_waited_for_and_given_up(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        person.environment |= {"MOCHI_TEST_MODE": "false", "MOCHI_OLLAMA_HOST": address}
        chat = person.opens("-m", "qwen3:14b")
        chat.enter("Hello")
        chat.read_until("[waiting for the model's server; CTRL-C gives up]")
        chat.type(CONTROL_C)
        chat.read_until("[stopped]")
        end(chat)

        asking = person.opens()
        asking.read_until("[asking which models there are]")
        asking.type(CONTROL_C)
        assert asking.wait() == 130


def test_the_conversation_that_new_leaves_is_named(person: Person) -> None:
    chat = person.opens()
    chat.enter(saying("one"))
    chat.read_until("one\r\n")
    chat.enter("/new")
    (session_id,) = person.sessions()
    chat.read_until(f"`mochi-server chat {session_id}` goes on")
    end(chat)


def test_a_session_that_was_deleted_meanwhile_is_told(person: Person) -> None:
    chat = person.opens()
    chat.enter(saying("one"))
    chat.read_until("one\r\n")
    (session_id,) = person.sessions()
    (person.data_dir / "chat_sessions" / f"{session_id}.json").unlink()
    chat.enter("Hello?")
    chat.read_until("(SESSION_NOT_FOUND)")
    chat.read_until("/new begins another conversation")
    chat.enter("/new")
    chat.enter(saying("two"))
    chat.read_until("two\r\n")
    end(chat)


def test_a_conversation_that_got_no_answer_leaves_no_session(person: Person) -> None:
    chat = person.opens()
    chat.enter(block(status=503))
    chat.read_until(RED)
    end(chat)

    assert person.sessions() == []


def test_what_is_no_command_is_told(person: Person) -> None:
    chat = person.opens()
    chat.enter("/modle")
    chat.read_until("did you mean /model?")
    chat.enter("/model nada")
    chat.read_until("(MODEL_NOT_FOUND)")
    chat.enter("/think harder")
    chat.read_until("on, off, low, medium, high")
    chat.enter("/help")
    chat.read_until("/retry")
    end(chat)


def test_sigterm_ends_it_and_keeps_the_text(person: Person) -> None:
    chat = person.opens()
    chat.enter(STALLING)
    chat.read_until("so far")
    chat.process.send_signal(signal.SIGTERM)

    assert chat.wait() == 0
    assert person.said()[-1] == "so far\n\n[cancelled]"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("0123456789",), "(SESSION_NOT_FOUND)"),
        (("--last",), "no session yet"),
        (("--last", "0123456789"), "--last is a session already"),
        (("0123456789", "-m", "qwen3:14b"), "`/model NAME` chooses another"),
    ],
)
def test_what_can_not_be_opened_is_said_and_fails(
    person: Person, arguments: Sequence[str], complaint: str
) -> None:
    chat = person.opens(*arguments)
    assert chat.wait() == 1
    assert complaint in chat.seen


def test_without_a_terminal_it_points_to_send(person: Person) -> None:
    command = [sys.executable, MANAGE, "chat"]
    ended = run_process(command, cwd=person.data_dir, env=person.environment)
    assert ended.returncode == 1
    assert "chat needs a terminal; `send` is for scripts" in ended.stderr


def serve(person: Person, start: Callable[..., Any]) -> Any:
    """Start a server on the person's data."""
    variables = {k: v for k, v in person.environment.items() if k.startswith("MOCHI_")}
    return start(*(sys.executable, "-m", "mochi_server", "--port", "0"), **variables)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def serve_models(port: int) -> Process:
    """Start the scripted models as an Ollama of their own."""
    command = [sys.executable, MANAGE, "scripted_llm", "--port", str(port)]
    process = start_process(command, cwd=ROOT, env=os.environ, stderr=subprocess.DEVNULL)
    assert process.stdout
    with process.stdout as out:
        assert str(port) in out.readline()
    return process
