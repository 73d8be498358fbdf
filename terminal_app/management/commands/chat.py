"""Runs ``mochi-server chat``: a conversation in the terminal."""

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import CommandError

from chat.inbox.service import InboxService
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.console.command import MochiCommand
from mochi_project.process.trust_question import is_on_terminal
from models_app.catalogue import ModelCatalogue
from sessions_app.errors import MochiError
from terminal_app.console import Console
from terminal_app.interrupt import Interrupt
from terminal_app.options import STOPPED, add_conversation_arguments, open_conversation
from terminal_app.transcript import Transcript

HISTORY_FILE = "chat_history"


class Command(MochiCommand):
    """Hold a conversation in this process; claims keep it apart from a server's turns."""

    help = (
        "Talk to a model: a conversation in the terminal. CTRL-C stops an answer, CTRL-D ends the "
        "conversation, /help lists the commands within it."
    )
    data_dir = "made"
    of_owner = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the session and how to answer."""
        parser.add_argument("session", nargs="?", help="a session's id; without one, a new session")
        add_conversation_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Talk until the person ends it."""
        if not (is_on_terminal() and sys.stdout.isatty()):
            raise CommandError("chat needs a terminal; `send` is for scripts.")
        if options["last"] and options["session"]:
            raise CommandError("--last is a session already: chat --last")
        if options["model"] and (options["last"] or options["session"]):
            raise CommandError(
                "--model is for a new session; in this one, `/model NAME` chooses another."
            )
        try:
            asyncio.run(_chat(Console(sys.stdout, sys.stderr), options))
        except MochiError as error:
            raise CommandError(f"{error.message} ({error.code})") from error
        except asyncio.CancelledError:
            raise CommandError("Stopped.", returncode=STOPPED) from None


async def _chat(console: Console, options: Mapping[str, Any]) -> None:
    # prompt_toolkit is imported by who talks, and by no other command.
    from terminal_app.chat_commands import NAMES, ChatCommands, words_after  # noqa: PLC0415
    from terminal_app.chat_loop import ChatLoop  # noqa: PLC0415
    from terminal_app.line_editor import LineEditor  # noqa: PLC0415

    settings, interrupt = django_settings.MOCHI, Interrupt()
    opened = open_conversation(settings, console, Transcript(console), interrupt, options)
    async with opened as (conversation, services):
        history = services.get(AppSettings).resolved_private_dir / HISTORY_FILE
        models = services.get(ModelCatalogue)
        editor = LineEditor(history, NAMES, partial(words_after, models), console)
        conversation.when_busy = "queue"
        inbox = services.get(InboxService)
        commands = ChatCommands(conversation, models, console, inbox, editor.read)
        await ChatLoop(conversation, commands, editor, console, interrupt).run()
