"""``manage.py send``, as a person or a script runs it, with scripted models."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.functional.processes import MANAGE, Process, run_process, start_process
from tests.functional.starting.dates_tool import (
    SHOWN_CALL,
    add_tool,
    block,
    calling,
    calling_at_once,
    saying,
)
from tests.functional.starting.terminal import CONTROL_C, Terminal
from tests.unit.sessions_app.attachments.images import png

pytestmark = pytest.mark.slow

NEW = ("new", "--model", "qwen3:14b")


class Sender:
    """Runs the command on one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MOCHI_", "DJANGO_"))}
        self.environment = {
            **kept,
            "MOCHI_TEST_MODE": "true",
            "MOCHI_TEST_WORDS_PER_SECOND": "0",
            "MOCHI_DATA_DIR": str(data_dir),
        }

    def add_tools(self) -> None:
        add_tool(self.data_dir, self.environment)

    def sessions(self) -> Sequence[str]:
        return sorted(path.stem for path in (self.data_dir / "chat_sessions").glob("*.json"))

    def begin(self, *arguments: str, **options: Any) -> Process:
        command = [sys.executable, MANAGE, "send", *arguments]
        return start_process(command, cwd=self.data_dir, env=self.environment, **options)

    def __call__(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, MANAGE, "send", *arguments]
        ended = run_process(command, cwd=self.data_dir, env=self.environment, given=given)
        assert "Traceback" not in ended.stderr
        return ended

    def messages(self) -> Sequence[dict[str, Any]]:
        """Return the messages of the only session."""
        (path,) = (self.data_dir / "chat_sessions").glob("*.json")
        return json.loads(path.read_text())["messages"]


@pytest.fixture
def send(data_dir: Path) -> Sender:
    return Sender(data_dir)


@pytest.fixture
def terminal(send: Sender) -> Iterator[Callable[..., Terminal]]:
    """Run the command in a terminal."""
    opened: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        command = [sys.executable, MANAGE, "send", *arguments]
        opened.append(Terminal(command, cwd=send.data_dir, env=send.environment))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def session_of(ended: subprocess.CompletedProcess[str]) -> str:
    return ended.stderr.split("session ")[1].split()[0]


def test_the_answer_alone_goes_to_stdout(send: Sender) -> None:
    ended = send(*NEW, saying("Paris.", reasoning="France, so Paris"))

    assert ended.returncode == 0
    assert ended.stdout == "Paris.\n"
    assert ended.stderr == f"session {session_of(ended)}\n"


def test_a_session_goes_on_with_the_next_message(send: Sender) -> None:
    session_id = session_of(send(*NEW, saying("one")))

    ended = send(session_id, "-", given=saying("two"))

    assert (ended.stdout, ended.stderr) == ("two\n", "")
    assert [message["content"] for message in send.messages()][1::2] == ["one", "two"]


def test_scripts_get_every_event_as_a_line_of_json(send: Sender) -> None:
    ended = send(*NEW, saying(["Par", "is."], reasoning="hm"), "--json", "--think")

    events = [json.loads(line) for line in ended.stdout.splitlines()]
    names = [event["event"] for event in events]
    assert names[0] == "turn_started"
    assert names[-2:] == ["message_complete", "done"]
    assert [event["id"].split(":")[1] for event in events] == [
        str(number) for number in range(1, len(events) + 1)
    ]
    assert events[-2]["data"]["content"] == "Paris."
    assert events[-2]["data"]["thinking"] == "hm"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("0123456789", "Hi"), "(SESSION_NOT_FOUND)"),
        (("../../etc", "Hi"), "(SESSION_NOT_FOUND)"),
        (("new", "--model", "nada", "Hi"), "(MODEL_NOT_FOUND)"),
        (("new", "--model", "scripted-plain", "--think", "Hi"), "(VALIDATION_ERROR)"),
        (("new",), "A new session needs a message"),
        ((), "Name a session"),
        (("--last", "Hi"), "no session yet"),
        (("--last", "0123456789", "Hi"), "--last is a session already"),
        (("0123456789", "--model", "qwen3:14b", "Hi"), "--model is for a new session"),
        ((*NEW, "  "), "The message is blank"),
    ],
)
def test_what_can_not_be_sent_is_said_and_fails(
    send: Sender, arguments: Sequence[str], complaint: str
) -> None:
    ended = send(*arguments)

    assert ended.returncode == 1
    assert complaint in ended.stderr
    assert ended.stdout == ""


def test_a_model_that_dies_in_mid_answer_fails_with_its_words_and_keeps_the_text(
    send: Sender,
) -> None:
    ended = send(
        *NEW,
        block(
            messages=[{"text_message": {"text": ["so ", "far ", "and"]}}],
            error_line="the runner died",
            drop_after=3,
        ),
    )

    assert ended.returncode == 1
    assert ended.stdout.startswith("so")
    assert ended.stdout.endswith("\n")
    assert "the runner died" in ended.stderr
    assert send.messages()[-1]["interrupted"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_model_and_keeps_the_text(send: Sender, number: int) -> None:
    message = block(
        messages=[{"text_message": {"text": ["so far", " and on"]}}],
        stall_after=1,
        stall_seconds=600,
    )
    with send.begin(*NEW, message) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == "so far"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert out == "\n"
    assert "what there is of the answer is saved" in err
    assert "Traceback" not in err
    answer = send.messages()[-1]
    assert answer["content"] == "so far\n\n[cancelled]"
    assert answer["cancelled"] is True


def test_a_reader_who_leaves_stops_the_turn(send: Sender) -> None:
    message = block(messages=[{"text_message": {"length": 90_000}}], words_per_second=10_000)
    with send.begin(*NEW, message) as process:
        assert process.stdout is not None
        process.stdout.read(5)
        process.stdout.close()
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()

    assert send.messages()[-1]["cancelled"] is True


def test_a_session_that_a_server_is_busy_with_is_left_alone(
    send: Sender, start: Callable[..., Any]
) -> None:
    session_id = session_of(send(*NEW, saying("one")))

    server = start(
        *(sys.executable, "-m", "mochi_server", "--port", "0"),
        **{name: value for name, value in send.environment.items() if name.startswith("MOCHI_")},
    )
    stalling = block(
        messages=[{"text_message": {"text": ["a", "b"]}}], stall_seconds=600, stall_after=1
    )
    with httpx.stream(
        "POST",
        f"{server.url}/api/v1/chat/{session_id}/stream",
        json={"message": stalling},
        timeout=30,
        trust_env=False,
    ) as answer:
        lines = answer.iter_lines()  # kept: the connection ends with it
        next(lines)
        ended = send(session_id, "Hi")

    assert ended.returncode == 1
    assert "(SESSION_BUSY)" in ended.stderr


def test_a_terminal_shows_the_reasoning_dimmed(send: Sender) -> None:
    ours, theirs = pty.openpty()
    process = send.begin(
        *NEW, saying("Paris.", reasoning="hm"), stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(theirs)

    shown = b"".join(read_terminal(ours)).decode()

    assert process.wait(timeout=30) == 0
    assert shown == "\x1b[2mhm\x1b[0m\r\n\r\nParis.\r\n"


def read_terminal(descriptor: int) -> Iterator[bytes]:
    with suppress(OSError):  # how Linux says that the other end closed
        while data := os.read(descriptor, 65536):
            yield data
    os.close(descriptor)


@pytest.mark.parametrize(
    ("answer", "result"), [("y", "298 days"), ("n", "denied"), ("", "denied"), ("\x04", "denied")]
)
def test_on_a_terminal_it_asks_whether_a_tool_may_run(
    send: Sender, terminal: Callable[..., Terminal], answer: str, result: str
) -> None:
    send.add_tools()
    person = terminal(*NEW, "-t", "days_between", calling())

    person.read_until(f"Run {SHOWN_CALL}? [y/N/a] ")
    person.type(answer if answer == "\x04" else f"{answer}\n")

    assert result in person.read_until("298.\r\n")
    assert person.wait() == 0


def test_an_answer_for_all_calls_of_a_tool_asks_once(
    send: Sender, terminal: Callable[..., Terminal]
) -> None:
    send.add_tools()
    person = terminal(*NEW, "-t", "days_between", calling(3))

    person.read_until("[y/N/a] ")
    person.type("what?\n")
    person.read_until("[y/N/a] ")
    person.type("a\n")

    assert person.wait() == 0
    assert person.seen.count("[y/N/a]") == 2
    assert person.seen.count("298 days]") == 3
    assert send.messages()[-1]["content"] == "298."


def test_calls_that_wait_already_are_approved_with_their_tool(
    send: Sender, terminal: Callable[..., Terminal]
) -> None:
    send.add_tools()
    person = terminal(*NEW, "-t", "days_between", calling_at_once(2))

    person.read_until("[y/N/a] ")
    person.type("a\n")

    assert person.wait() == 0
    assert person.seen.count("[y/N/a]") == 1
    assert person.seen.count("298 days]") == 2


def test_ctrl_c_at_the_question_stops_the_turn_and_runs_nothing(
    send: Sender, terminal: Callable[..., Terminal]
) -> None:
    send.add_tools()
    person = terminal(*NEW, "-t", "days_between", calling())

    person.read_until("[y/N/a] ")
    person.type(CONTROL_C)

    assert person.wait() == 130
    assert "Stopped" in person.seen
    assert "298 days" not in json.dumps(send.messages())


@pytest.mark.parametrize(("flag", "result"), [("--yes", "298 days"), ("--deny", "denied")])
def test_without_a_terminal_a_call_fails_at_once_and_can_be_decided_later(
    send: Sender, flag: str, result: str
) -> None:
    send.add_tools()

    ended = send(*NEW, "-t", "days_between", calling())

    assert ended.returncode == 1
    assert f"{SHOWN_CALL} needs your approval, and there is no terminal" in ended.stderr
    assert f"`send {session_of(ended)} --yes`" in ended.stderr
    later = send(session_of(ended), flag)
    assert (later.returncode, later.stdout) == (0, "298.\n")
    assert result in later.stderr


def test_information_is_dim_and_errors_are_red(terminal: Callable[..., Terminal]) -> None:
    person = terminal(*NEW, block(messages=[{"text_message": {"text": ["a", "b"]}}], drop_after=1))

    assert person.wait() == 1
    assert "\x1b[2msession " in person.seen
    assert "\x1b[31" not in person.seen.partition("a\r\n")[0]
    assert "\x1b[31" in person.seen.partition("a\r\n")[2]


@pytest.mark.parametrize(
    "arguments",
    [(*NEW, block(status=503)), ("new", "--model", "scripted-plain", "--think", "Hi")],
)
def test_a_new_session_that_failed_is_not_left_behind(
    send: Sender, arguments: Sequence[str]
) -> None:
    assert send(*arguments).returncode == 1
    assert send.sessions() == []


def test_the_model_of_a_new_session_is_chosen_and_said(send: Sender) -> None:
    first = send("new", saying("one"))
    assert "model qwen3:14b (the first of 3 installed; -m or" in first.stderr
    send.environment["MOCHI_DEFAULT_MODEL"] = "scripted-plain"
    second = send("new", saying("two"))
    assert "model scripted-plain (MOCHI_DEFAULT_MODEL)" in second.stderr

    send("--last", saying("three"))

    (path,) = (send.data_dir / "chat_sessions").glob(f"{session_of(second)}.json")
    contents = [message["content"] for message in json.loads(path.read_text())["messages"]]
    assert contents[1::2] == ["two", "three"]


def test_files_go_with_a_message_or_are_one(send: Sender, tmp_path: Path) -> None:
    cat, notes = tmp_path / "cat.png", tmp_path / "notes.txt"
    cat.write_bytes(png())
    notes.write_text("a note")
    first = send(
        "new",
        "-m",
        "scripted-vision",
        "What is this?",
        "--attach",
        str(cat),
        "--attach",
        str(notes),
    )
    assert first.returncode == 0, first.stderr
    second = send("--last", "--attach", str(notes))
    assert second.returncode == 0, second.stderr
    asked = send.messages()[::2]
    assert [message["content"] for message in asked] == ["What is this?", ""]
    assert [[each["name"] for each in message["attachments"]] for message in asked] == [
        ["cat.png", "notes.txt"],
        ["notes.txt"],
    ]


def test_a_file_that_can_not_be_sent_leaves_no_session(send: Sender, tmp_path: Path) -> None:
    ended = send(*NEW, "What is this?", "--attach", str(tmp_path / "none.png"))
    assert ended.returncode == 1
    assert "none.png: No such file or directory." in ended.stderr
    assert not send.sessions()


def test_a_blind_model_refuses_and_leaves_no_session(send: Sender, tmp_path: Path) -> None:
    cat = tmp_path / "cat.png"
    cat.write_bytes(png())
    ended = send(*NEW, "What is this?", "--attach", str(cat))
    assert ended.returncode == 1
    assert "takes no image/png (cat.png)" in ended.stderr
    assert not send.sessions()
