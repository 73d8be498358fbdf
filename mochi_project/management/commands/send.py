"""Runs ``manage.py send``: one turn of a conversation, printed as it comes."""

import asyncio
import json
import logging
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError, OutputWrapper

from chat.errors import NoActiveTurn
from chat.service import ChatRequest
from chat.start.preparation import TurnRequest
from chat.stream.events import (
    Cancelled,
    ContentDelta,
    Done,
    Event,
    Failed,
    MessageComplete,
    StatusChanged,
    ThinkingContentDelta,
    ToolCallStarted,
    ToolResultReceived,
)
from chat.stream.numbered_event import NumberedEvent
from mochi_project.configuration.test_mode import scripted_model
from mochi_project.management.command import MochiCommand
from mochi_project.process.graceful_stop import STOP_SIGNALS
from mochi_project.wiring.services import Services, build_services
from sessions_app.errors import MochiError

NEW_SESSION = "new"
FROM_STDIN = "-"
CANCELLED_BY_SIGNAL = 130  # what shells report of a command that CTRL-C ended
DIM, PLAIN = "\x1b[2m", "\x1b[0m"


Show = Callable[[str, NumberedEvent], None]
"""Shows an event of a turn, given the turn's id and the event."""


class Command(MochiCommand):
    """Run a turn in this process, as the server would; claims keep the two apart."""

    help = (
        "Send a message to a session and print the answer as it comes. The quickest check that "
        "everything works. CTRL-C stops the model; what there is of the answer is saved."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the session, the message and how to answer."""
        parser.add_argument("session", help="a session's id, or `new`, which needs --model")
        parser.add_argument("text", help="the message; `-` reads it from stdin")
        parser.add_argument("--model", help="the model of a new session")
        parser.add_argument("--think", action="store_true", help="let the model reason first")
        parser.add_argument(
            "--json", action="store_true", help="print each event as a line of JSON"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Send the message and print what comes."""
        request = _request(options)
        if "log_level" not in django_settings.MOCHI.model_fields_set:
            logging.getLogger().setLevel(logging.ERROR)  # what matters is said below
        show: Show = self._show_json if options["json"] else Transcript(self.stdout, self.stderr)
        try:
            last = asyncio.run(self._send(request, show))
        except MochiError as error:
            raise CommandError(f"{error.message} ({error.code})") from error
        except asyncio.CancelledError:
            raise CommandError(
                "Stopped before the turn began.", returncode=CANCELLED_BY_SIGNAL
            ) from None
        except BrokenPipeError:  # the reader left (`| head`); the rest is dropped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        if isinstance(last, Failed):
            raise CommandError(f"{last.message} ({last.code})")
        if isinstance(last, Cancelled):
            raise CommandError(
                "Stopped; what there is of the answer is saved.", returncode=CANCELLED_BY_SIGNAL
            )

    async def _send(self, request: ChatRequest, show: Show) -> Event:
        async with scripted_model(django_settings.MOCHI) as settings:
            services = build_services(settings)
            try:
                return await self._stream(services, request, show)
            finally:
                await services.aclose()

    async def _stream(self, services: Services, request: ChatRequest, show: Show) -> Event:
        """Run the turn, show its events, and return the last one before ``done``."""
        interrupt = Interrupt(services)
        turn = await services.chat.open(request)
        interrupt.stops(turn.session_id)
        if request.session_id is None:
            self.stderr.write(f"session {turn.session_id}", self.style.NOTICE)
        last: Event | None = None
        try:
            await turn.committed()
            while (events := await turn.listener.next()) is not None:
                for numbered in events:
                    # In a thread: a reader that pauses (`| less`) must not stop the turn.
                    await asyncio.to_thread(show, turn.turn_id, numbered)
                    if numbered.name != Done.event:
                        last = numbered.decode()
        finally:
            turn.leave()
        if last is None:
            raise CommandError("The turn ended without a word.")
        return last

    def _show_json(self, turn_id: str, numbered: NumberedEvent) -> None:
        event = {
            "id": f"{turn_id}:{numbered.number}",
            "event": numbered.name,
            "data": json.loads(numbered.data),
        }
        self.stdout.write(json.dumps(event))
        self.stdout.flush()


class Interrupt:
    """Cancels the turn, or the attempt to start one, on CTRL-C (or SIGTERM)."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._session_id: str | None = None
        self._starting = asyncio.current_task()
        self._stopping: asyncio.Task[None] | None = None
        for number in STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._receive)

    def stops(self, session_id: str) -> None:
        """Cancel this session's turn from now on."""
        self._session_id = session_id

    def _receive(self) -> None:
        if self._session_id is not None:
            self._stopping = asyncio.create_task(self._cancel(self._session_id))
        elif self._starting is not None:
            self._starting.cancel()

    async def _cancel(self, session_id: str) -> None:
        with suppress(NoActiveTurn):  # it ended by itself just now
            await self._services.turns.cancel(session_id)


class Transcript:
    """Prints a turn for people.

    The answer goes to ``out``. On a terminal the reasoning comes before it, dimmed; elsewhere it is
    left out, so that a pipe gets the answer and nothing else. What tools do goes to ``err``.
    """

    def __init__(self, out: OutputWrapper, err: OutputWrapper) -> None:
        self._out = out
        self._err = err
        self._on_terminal = out.isatty()
        self._thinking = False
        self._at_line_start = True

    def __call__(self, _turn_id: str, numbered: NumberedEvent) -> None:
        """Print one event; the text in it is clean of control characters already."""
        match numbered.decode():
            case ThinkingContentDelta(content=text) if self._on_terminal:
                self._print(text, thinking=True)
            case ContentDelta(content=text):
                self._print(text)
            case ToolCallStarted() as call:
                self._note(f"{call.tool_name} {json.dumps(call.arguments)}")
            case ToolResultReceived() as result:
                outcome = result.summary if result.success else result.error_message
                self._note(f"{result.tool_name}: {outcome}")
            case StatusChanged(state=state):
                self._note(state.replace("_", " "))
            case MessageComplete() | Cancelled() | Failed():
                self._end_line()

    def _print(self, text: str, *, thinking: bool = False) -> None:
        if self._thinking and not thinking:
            self._out.write(f"{PLAIN}\n\n", ending="")
        elif thinking and not self._thinking:
            self._out.write(DIM, ending="")
        self._thinking = thinking
        self._out.write(text, ending="")
        self._out.flush()
        self._at_line_start = text.endswith("\n")

    def _note(self, text: str) -> None:
        self._end_line()
        self._err.write(f"[{text}]")

    def _end_line(self) -> None:
        if self._thinking:
            self._out.write(PLAIN, ending="")
            self._thinking = False
        if not self._at_line_start:
            self._out.write("")
            self._at_line_start = True
        self._out.flush()


def _request(options: Mapping[str, Any]) -> ChatRequest:
    text = sys.stdin.read() if options["text"] == FROM_STDIN else options["text"]
    if not text.strip():
        raise CommandError("The message is blank.")
    is_new = options["session"] == NEW_SESSION
    if is_new and not options["model"]:
        raise CommandError("A new session needs a model: send new --model qwen3:14b ...")
    if options["model"] and not is_new:
        raise CommandError("--model is for a new session; this one has its model.")
    return ChatRequest(
        turn=TurnRequest(message=text, think=True if options["think"] else None),
        session_id=None if is_new else options["session"],
        model=options["model"],
    )
