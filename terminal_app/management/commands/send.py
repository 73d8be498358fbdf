"""Runs ``mochi-server send``: one turn of a conversation, printed as it comes."""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError, CommandParser

from chat.stream.events import Cancelled, Event, Failed, TurnStarted
from chat.stream.numbered_event import NumberedEvent
from mochi_project.console.command import MochiCommand
from sessions_app.errors import MochiError
from terminal_app.calls import shown_call
from terminal_app.console import Console
from terminal_app.conversation import Conversation
from terminal_app.interrupt import Interrupt
from terminal_app.options import STOPPED, add_conversation_arguments, open_conversation
from terminal_app.transcript import JsonLines, Show, Transcript

NEW_SESSION = "new"
FROM_STDIN = "-"


class Command(MochiCommand):
    """Run a turn in this process, as the server would; claims keep the two apart."""

    help = (
        "Send a message to a session and print the answer as it comes. The quickest check that "
        "everything works. CTRL-C stops the model; what there is of the answer is saved. A tool "
        "that needs your approval is asked about."
    )
    data_dir = "made"
    of_owner = True

    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> CommandParser:
        """Return a parser that takes flags between the session and the message."""
        parser = super().create_parser(prog_name, subcommand, **options)
        parser.parse_args = parser.parse_intermixed_args  # type: ignore[method-assign]
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the session, the message and how to answer."""
        parser.add_argument(
            "session", nargs="?", help="a session's id, or `new`; left out with --last"
        )
        parser.add_argument(
            "text",
            nargs="?",
            help="the message; `-` reads it from stdin; without one the last message is answered "
            "again, or a call that waits for an approval continues",
        )
        add_conversation_arguments(parser)
        parser.add_argument(
            "--attach",
            action="append",
            metavar="FILE",
            type=Path,
            default=[],
            help="an image or a file that goes with the message; repeatable",
        )
        parser.add_argument(
            "--json", action="store_true", help="print each event as a line of JSON"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Send the message and print what comes."""
        session, text = _target(options)
        console = Console(sys.stdout, sys.stderr)
        try:
            last = asyncio.run(_send(console, {**options, "session": session}, text))
        except MochiError as error:
            raise CommandError(f"{error.message} ({error.code})") from error
        except asyncio.CancelledError:
            raise CommandError("Stopped before the turn began.", returncode=STOPPED) from None
        except BrokenPipeError:  # the reader left (`| head`); the rest is dropped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        if isinstance(last, Failed):
            raise CommandError(f"{last.message} ({last.code})")
        if isinstance(last, Cancelled):
            raise CommandError("Stopped; what there is of the answer is saved.", returncode=STOPPED)


async def _send(console: Console, options: Mapping[str, Any], text: str | None) -> Event | None:
    """Send the message, show the answer, and return its last event but ``done``."""
    show: Show = JsonLines(console.out) if options["json"] else Transcript(console)
    if options["session"] is None and not options["last"]:
        show = _Announced(console, show)
    opened = open_conversation(django_settings.MOCHI, console, show, Interrupt(), options)
    async with opened as (conversation, _):
        for path in options["attach"]:
            await conversation.attach(path)
        try:
            last = await (conversation.retry() if text is None else conversation.say(text))
        except MochiError:
            await conversation.discard_unanswered()
            raise
        if conversation.unanswered:
            raise CommandError(_how_to_approve(conversation))
        return last


class _Announced:
    """Says which session was made, once its turn has begun."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show

    def __call__(self, turn_id: str, numbered: NumberedEvent) -> None:
        event = numbered.decode()
        if isinstance(event, TurnStarted):
            self._console.info(f"session {event.session_id}")
        self._show(turn_id, numbered)


def _how_to_approve(conversation: Conversation) -> str:
    calls = ", ".join(map(shown_call, conversation.unanswered))
    verb = "need" if len(conversation.unanswered) > 1 else "needs"
    return (
        f"{calls} {verb} your approval, and there is no terminal to ask on. "
        f"`send {conversation.session_id} --yes` approves and continues, `--deny` refuses."
    )


def _target(options: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the session (None for a new one, or the last) and the message (None for none)."""
    session, text = options["session"], options["text"]
    if options["last"]:
        if text is not None:
            raise CommandError("--last is a session already: send --last TEXT")
        session, text = None, session
    elif session is None:
        raise CommandError("Name a session: send SESSION TEXT, send new TEXT, send --last TEXT")
    is_new = session == NEW_SESSION and not options["last"]
    if text == FROM_STDIN:
        text = sys.stdin.read()
    if text is None and options["attach"]:
        text = ""  # the files are the message
    if text is not None and not text.strip() and not options["attach"]:
        raise CommandError("The message is blank.")
    if is_new and text is None:
        raise CommandError("A new session needs a message: send new TEXT, or `-` to read stdin.")
    if options["model"] and not is_new:
        raise CommandError("--model is for a new session; this one has its model.")
    return (None if is_new else session), text
