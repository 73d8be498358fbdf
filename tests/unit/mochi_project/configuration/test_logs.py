"""Log lines: structured, with what is bound to the turn, and without keys."""

import json
import logging
import logging.config
import sys
import time

import pytest
import structlog

from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.logs import StructuredFormatter, logging_config
from mochi_project.principal import SCOPES, Principal, acting_for


def line_of(output: str, **extra: object) -> str:
    record = logging.makeLogRecord(
        {"name": "chat.registry", "levelno": 30, "levelname": "WARNING", "msg": "a\nb", **extra}
    )
    return StructuredFormatter(output=output).format(record)  # type: ignore[arg-type]


def test_json_lines_carry_what_is_bound_to_the_turn() -> None:
    with structlog.contextvars.bound_contextvars(session_id="0123456789", turn_id="t1"):
        line = line_of("json", port=5)

    entry = json.loads(line)
    assert "\n" not in line
    assert entry.pop("timestamp")
    assert entry == {
        "message": "a\nb",
        "level": "warning",
        "logger": "chat.registry",
        "session_id": "0123456789",
        "turn_id": "t1",
        "port": 5,
    }


def test_people_read_the_sentence_of_a_record_and_programs_its_values() -> None:
    record = {"msg": "turn ended", "sentence": "qwen3:14b: 2.3 s\x1b[2J", "rounds": 1}
    with structlog.contextvars.bound_contextvars(session_id="0123456789", turn_id="t1"):
        text, entry = line_of("text", **record), json.loads(line_of("json", **record))

    day, clock, rest = text.split(" ", 2)
    assert (len(day), len(clock)) == (10, 8)
    assert rest == r"[warning] qwen3:14b: 2.3 s\u001b[2J session_id=0123456789"
    assert (entry["message"], entry["rounds"]) == ("turn ended", 1)
    assert "sentence" not in entry


def test_text_has_the_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XXX-14")
    time.tzset()
    try:
        here = time.strftime("%Y-%m-%d %H:")
        line = line_of("text")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert line.startswith(here)


@pytest.mark.parametrize(("plain", "colours"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_its_user_wants_none(
    monkeypatch: pytest.MonkeyPatch, plain: str, colours: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", plain)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    assert ("\x1b" in line_of("text")) is colours


def test_calls_of_models_have_a_line_of_their_own_for_programs_only() -> None:
    def shown(**settings: object) -> bool:
        name = "models_app.model_calls"
        loggers = logging_config(load_settings(**settings))["loggers"]
        return loggers.get(name, {"level": "INFO"})["level"] != "WARNING"

    assert shown(log_format="json")
    assert not shown(log_format="text")
    assert shown(log_format="text", log_level="DEBUG")


def test_text_lines_are_readable_and_without_colours_outside_a_terminal() -> None:
    line = line_of("text")

    assert "[warning" in line
    assert "\x1b" not in line


@pytest.mark.parametrize("output", ["json", "text"])
def test_nothing_that_is_logged_makes_a_line_of_its_own_or_steers_the_terminal(
    output: str,
) -> None:
    hostile = "lost\n2026-01-01 [info] all is well\x1b[2J\x9b"
    line = line_of(output, msg=hostile, reason=hostile)

    assert line.isprintable()
    assert line.count("all is well") == 2


def test_indented_lines_are_lines_on_a_terminal_and_part_of_the_message_in_json() -> None:
    message = "f failed:\n    Traceback:\n      File\n[info] all is well\n   [info] all is well"

    assert "\n    Traceback:\n      File\\n[info] all is well\\n   [" in line_of(
        "text", msg=message
    )
    assert json.loads(line_of("json", msg=message))["message"] == message


def test_no_error_in_a_traceback_steers_the_terminal() -> None:
    error = LookupError("lost\x1b[2J\x9b")
    line = line_of("text", exc_info=(type(error), error, None))

    assert "LookupError: lost[2J" in line
    assert line.replace("\n", "").isprintable()


@pytest.mark.parametrize("output", ["json", "text"])
def test_a_traceback_is_part_of_the_line(output: str) -> None:
    try:
        raise LookupError("lost")
    except LookupError as error:
        line = line_of(output, exc_info=(type(error), error, error.__traceback__))

    assert "LookupError: lost" in line


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_libraries_that_log_headers_and_prompts_in_detail_do_not(level: str) -> None:
    loggers = logging_config(load_settings(log_level=level))["loggers"]

    assert loggers["httpx"]["level"] == "WARNING"
    assert loggers["stamina"]["level"] == "CRITICAL"


def test_requests_are_logged_with_debug_only() -> None:
    def access_log(level: str) -> object:
        return logging_config(load_settings(log_level=level))["loggers"]["uvicorn.access"]

    # Without a handler to go to, uvicorn does not even put the line together.
    assert access_log("INFO") == {"handlers": [], "propagate": False, "level": "WARNING"}
    assert access_log("DEBUG") == {"handlers": [], "propagate": True, "level": "DEBUG"}


def test_the_configured_level_is_the_least_that_is_written() -> None:
    assert (
        logging_config(load_settings(log_level="error"))["handlers"]["stderr"]["level"] == "ERROR"
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_lines_name_whom_they_are_about_unless_that_is_the_operator(output: str) -> None:
    with acting_for(Principal("anna", SCOPES, "k0123abcd")):
        of_a_key = line_of(output)
    with acting_for("bob"):
        of_a_proxy = line_of(output)

    assert all(each in of_a_key for each in ("anna", "k0123abcd"))
    assert "bob" in of_a_proxy
    assert "key_id" not in of_a_proxy
    assert not any(each in line_of(output) for each in ("owner", "key_id"))
