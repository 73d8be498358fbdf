"""Runs the asynchronous services for a command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings as django_settings
from django.core.management import CommandError

from mochi_project.app import Services, build_services
from mochi_project.principal import principal
from tools_app.mcp.toolset import McpTools
from tools_app.toolset import ToolSelection

ENDED_BY_SIGNAL = 130  # the exit code of a command that CTRL-C ended
WAITS = 6  # of ten seconds each: a start is given up after sixty

Answer = TypeVar("Answer")


def ask(question: Callable[[Services], Awaitable[Answer]]) -> Answer:
    """Build the services, call ``question`` with them, close them, and return its answer.

    Raises:
        CommandError: CTRL-C ended it.
    """

    async def asking() -> Answer:
        services = build_services(django_settings.MOCHI, principal().owner)
        try:
            return await question(services)
        finally:
            await services.aclose()

    try:
        return asyncio.run(asking())
    except KeyboardInterrupt:
        raise CommandError("Stopped.", returncode=ENDED_BY_SIGNAL) from None


async def start_servers(services: Services, only: str | None = None) -> None:
    """Start all MCP servers, or one, and wait until each is ready or has failed.

    Waits longer than the ten seconds of a turn, until a start is given up.
    """
    for _ in range(WAITS):
        servers = [s for s in await services.get(McpTools).servers() if only in (None, s.name)]
        if not any(server.state in {"stopped", "starting"} for server in servers):
            return
        selections = [ToolSelection(group=server.name) for server in servers]
        await asyncio.gather(*map(services.get(McpTools).listing, selections))
