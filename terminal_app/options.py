"""Declares the arguments that commands with conversations share, and opens a conversation."""

import asyncio
import logging
from argparse import ArgumentParser
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mochi_project.app import Services, build_services
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.test_mode import scripted_model
from mochi_project.principal import principal
from models_app.default_model import DefaultModel
from sessions_app.errors import ValidationFailed
from sessions_app.service import SessionManager
from terminal_app.approvals import Approvals
from terminal_app.console import Console
from terminal_app.conversation import Conversation
from terminal_app.interrupt import Interrupt
from terminal_app.transcript import Show

STOPPED = 130  # what shells report of a command that CTRL-C ended


def add_conversation_arguments(parser: ArgumentParser) -> None:
    """Declare how to answer: model, reasoning, tools, approvals."""
    parser.add_argument("-m", "--model", help="the model of a new session")
    parser.add_argument(
        "--last", action="store_true", help="go on with the session that was used last"
    )
    parser.add_argument("--think", action="store_true", help="let the model reason first")
    parser.add_argument(
        "-t", "--tool", action="append", metavar="NAME", help="a tool for the model; repeatable"
    )
    approval = parser.add_mutually_exclusive_group()
    approval.add_argument(
        "--yes",
        dest="answer",
        action="store_const",
        const=True,
        help="approve every tool call that needs approval",
    )
    approval.add_argument(
        "--deny",
        dest="answer",
        action="store_const",
        const=False,
        help="refuse every tool call that needs approval",
    )


@asynccontextmanager
async def open_conversation(
    settings: ServerSettings,
    console: Console,
    show: Show,
    interrupt: Interrupt,
    options: Mapping[str, Any],
) -> AsyncGenerator[tuple[Conversation, Services], None]:
    """Build the services and yield the conversation that the options mean.

    Args:
        settings: The configuration.
        console: The terminal.
        show: Shows the events of the turns.
        interrupt: Stops them.
        options: The values of ``add_conversation_arguments``, and ``session``: an id or None.

    Raises:
        MochiError: There is no such session, or no model.
    """
    if "log_level" not in settings.model_fields_set:
        logging.getLogger().setLevel(logging.ERROR)  # what matters is shown
    async with scripted_model(settings) as configured:
        services = build_services(configured, principal().owner)
        try:
            session_id = await _session_of(services, options)
            model = options["model"]
            if session_id is None and model is None:
                with console.saying("[asking which models there are]"):
                    model, why = await services.get(DefaultModel).choose()
                console.info(f"model {model} ({why})")
            yield (
                Conversation(
                    services,
                    console,
                    show=show,
                    approvals=Approvals(console, options["answer"]),
                    interrupt=interrupt,
                    session_id=session_id,
                    model=model,
                    think=True if options["think"] else None,
                    tools=options["tool"],
                ),
                services,
            )
        finally:
            await services.aclose()


async def _session_of(services: Services, options: Mapping[str, Any]) -> str | None:
    if not options["last"]:
        session: str | None = options["session"]
        return session
    page = await asyncio.to_thread(services.get(SessionManager).list, limit=1)
    if not page.sessions:
        raise ValidationFailed("There is no session yet to go on with.")
    return page.sessions[0].session_id
