"""``mochi-server chat`` beside servers: of models, and of the same sessions."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.functional.processes import MANAGE, ROOT, Process, start_process
from tests.functional.starting.dates_tool import (
    SHOWN_CALL,
    add_tool,
    block,
    calling,
    saying,
)
from tests.functional.starting.person import STALLING, Person, end, serve
from tests.functional.starting.terminal import CONTROL_C

pytestmark = pytest.mark.slow

RED = "\x1b[31m"


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


def test_that_a_server_is_busy_with_the_session_is_told(
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
        chat.enter("/retry")
        chat.read_until("(SESSION_BUSY)")
        chat.read_until("/follow shows that answer")
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


def test_a_server_that_does_not_answer_is_waited_for_and_given_up(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        person.environment |= {"MOCHI_TEST_MODE": "false", "MOCHI_OLLAMA_HOST": address}
        chat = person.opens("-m", "qwen3:14b")
        chat.enter("Hello")
        chat.read_until("[waiting for the model's server; CTRL-C cancels]")
        chat.type(CONTROL_C)
        chat.read_until("[stopped]")
        end(chat)

        asking = person.opens()
        asking.read_until("[asking which models there are]")
        asking.type(CONTROL_C)
        assert asking.wait() == 130


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
