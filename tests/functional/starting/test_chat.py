"""``mochi-server chat``, as a person uses it: a real process on a terminal, scripted models."""

import json
import signal
import sys
from collections.abc import Sequence

import pytest

from tests.functional.processes import MANAGE, run_process
from tests.functional.starting.dates_tool import (
    SHOWN_CALL,
    add_tool,
    block,
    calling,
    saying,
)
from tests.functional.starting.person import STALLING, Person, end
from tests.functional.starting.terminal import CONTROL_C, CONTROL_Z, READY
from tests.unit.sessions_app.attachments.images import png

pytestmark = pytest.mark.slow

RED = "\x1b[31m"
UP = "\x1b[A"
PASTES_ARE_MARKED = "\x1b[?2004h"
SLOW = block(messages=[{"text_message": {"text": ["one", " two", " three"]}}], words_per_second=2)


def test_a_conversation_goes_on_where_it_ended(person: Person) -> None:
    first = person.opens()
    first.enter(saying("one", reasoning="hm"))
    first.read_until("\x1b[2mhm\x1b[0m\r\n\r\none\r\n")
    end(first)
    (session_id,) = person.sessions()
    assert f"mochi-server chat {session_id} continues" in first.seen

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


def test_several_lines_that_are_pasted_are_one_message(person: Person) -> None:
    chat = person.opens()
    chat.read_until(READY)
    chat.paste("one\ntwo\n")
    chat.enter("three")
    end(chat)

    assert person.said()[0] == "one\ntwo\nthree"


def test_what_is_pasted_while_an_answer_comes_is_one_message(person: Person) -> None:
    lines = "\n".join(f"line {number} of a long text" for number in range(1000))
    chat = person.opens()
    chat.enter(SLOW)
    chat.read_until("one")
    chat.paste(lines)
    assert "line" not in chat.read_until("three\r\n")
    chat.enter(" and mine")
    end(chat)

    assert person.said()[2] == f"{lines} and mine"


def test_ctrl_z_goes_back_to_the_shell_and_is_no_part_of_a_message(person: Person) -> None:
    chat = person.opens_from_shell()
    chat.read_until(READY)
    chat.type(f"Hel{CONTROL_Z}")
    chat.read_until("Stopped")
    chat.type("fg\r")
    chat.enter("lo")
    chat.enter("/quit")
    chat.read_until("continues")

    assert person.said()[0] == "Hello"


def test_an_answer_goes_on_after_ctrl_z_and_pastes_are_one_message(person: Person) -> None:
    chat = person.opens_from_shell()
    chat.enter(SLOW)
    chat.read_until("one")
    chat.type(CONTROL_Z)
    chat.read_until("Stopped")
    chat.type("echo back; fg\r")
    chat.read_until("back\r\n")
    chat.read_until(PASTES_ARE_MARKED)
    chat.paste("four\nfive")
    chat.enter("")
    chat.enter("/quit")
    chat.read_until("continues")

    assert person.said()[1:3] == ["one two three", "four\nfive"]


def test_tab_completes_commands_models_and_files(person: Person) -> None:
    (person.data_dir / "my cat.png").write_bytes(png())
    chat = person.opens()
    chat.read_until(READY)
    for begun, rest in (("/mod", "el"), (" scripted-vis", "ion")):
        chat.type(f"{begun}\t")
        chat.read_until(rest)
    chat.type("\r")
    chat.read_until("scripted-vision:latest answers from now on")
    for begun, rest, told in (
        ("/think min", "imal", "Thinking: minimal."),
        ("/attach my", "cat.png", "With your next message: my cat.png."),
    ):
        chat.read_until(READY)
        chat.type(f"{begun}\t")
        chat.read_until(rest)
        chat.type("\r")
        chat.read_until(told)
    end(chat)


def test_the_last_message_is_edited_and_answered(person: Person) -> None:
    chat = person.opens()
    chat.enter("/edit")
    chat.read_until("There are no messages yet")
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


def test_a_tool_that_is_approved_for_the_conversation_is_not_asked_about_again(
    person: Person,
) -> None:
    add_tool(person.data_dir, person.environment)
    chat = person.opens("-t", "days_between")
    chat.enter(calling())
    chat.read_until(f"Run {SHOWN_CALL}? [y/N/a] ")
    chat.type("a\n")
    chat.read_until("298 days]")
    chat.read_until("298.\r\n")
    end(chat)
    again = person.opens("--last")
    again.enter(calling())
    again.read_until("298 days]")
    again.read_until("298.\r\n")
    end(again)

    assert "[y/N/a]" not in again.seen


def test_a_tool_is_asked_about_anew_in_another_conversation(person: Person) -> None:
    add_tool(person.data_dir, person.environment)
    chat = person.opens("-t", "days_between")
    for answer in ("a\n", "n\n"):
        chat.enter(calling())
        chat.read_until("[y/N/a] ")
        chat.type(answer)
        chat.read_until("298.\r\n")
        chat.enter("/new")
    end(chat)


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


def test_the_conversation_that_new_leaves_is_named(person: Person) -> None:
    chat = person.opens()
    chat.enter(saying("one"))
    chat.read_until("one\r\n")
    chat.enter("/new")
    (session_id,) = person.sessions()
    chat.read_until(f"`mochi-server chat {session_id}` continues")
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
    chat.read_until("on, off, minimal, low, medium, high, xhigh, max")
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


def test_files_wait_for_the_next_message(person: Person) -> None:
    (person.data_dir / "my cat.png").write_bytes(png())
    chat = person.opens()
    chat.enter("/model scripted-vision")
    chat.enter("/attach none.png")
    chat.read_until("none.png: No such file or directory.")
    chat.enter("/attach 'my cat.png'")
    chat.read_until("With your next message: my cat.png.")
    chat.enter("What is this?")
    chat.enter("Thank you.")
    end(chat)
    (session_id,) = person.sessions()
    again = person.opens(session_id)
    again.read_until("Thank you.")
    end(again)
    file = person.data_dir / "chat_sessions" / f"{session_id}.json"
    asked = json.loads(file.read_text())["messages"][::2]
    assert [[each["name"] for each in message.get("attachments", [])] for message in asked] == [
        ["my cat.png"],
        [],
    ]
