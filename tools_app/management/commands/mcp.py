"""``mochi-server mcp``: list, check and log in to the MCP servers of ``mcp.json``."""

import socket
import sys
import webbrowser
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.conf import settings as django_settings
from django.core.management import CommandError
from rich.table import Column, Table

from mochi_project.app import Services
from mochi_project.configuration.config import ServerSettings
from mochi_project.console.reports import ReportCommand
from mochi_project.console.service_runner import ENDED_BY_SIGNAL, ask, start_servers
from mochi_project.screen_text import printable
from tools_app.errors import ToolServerNotFound
from tools_app.mcp.logins import LoginFailed, McpLogins, come_back_of
from tools_app.mcp.toolset import McpTools
from tools_app.schemas import McpServerOut
from tools_app.settings import ToolsSettings

_CONNECT_SECONDS = 2.0


class Command(ReportCommand):
    """List the MCP servers, start them to check whether they work, log in to them."""

    of_owner = True
    help = "List the MCP servers of mcp.json, check whether they work, or log in to them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list the servers; starts none")
        check = actions.add_parser("check", help="start all servers, or one; fails if one fails")
        check.add_argument("name", metavar="NAME", nargs="?")
        self.add_json_flag(listing, check)
        login = actions.add_parser("login", help="log in to a server, with a browser")
        login.add_argument("name", metavar="NAME")
        login.add_argument("--no-browser", action="store_true", help="only print the address")
        login.add_argument(
            "--paste",
            action="store_true",
            help="read the address that the browser is sent back to, also if a server runs",
        )
        login.add_argument("--scope", default="", help="further scopes to ask for")
        logout = actions.add_parser("logout", help="forget a login, and revoke its tokens")
        logout.add_argument("name", metavar="NAME")

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        if action == "login":
            return self._log_in(options)
        if action == "logout":
            return self._log_out(options["name"])
        return self._list(action, options)

    def _log_in(self, options: dict[str, Any]) -> None:
        """Show the address, open it, and wait for the person who comes back."""
        name, paste = options["name"], options["paste"]
        pending = ask(lambda services: services.get(McpLogins).begin(name, options["scope"]))
        address = printable(pending.url)
        self.stdout.write(f"Open this address to log in to {name}:\n\n{address}\n")
        if not paste and not options["no_browser"]:
            webbrowser.open(pending.url)
        try:
            if not paste and _is_served():
                self.stdout.write("The running server waits for you. Without one, use --paste.")
                ask(lambda services: services.get(McpLogins).wait(name, pending))
            else:
                self.stdout.write(
                    "Then paste the address that it leads to, also if that shows an error:"
                )
                answer = come_back_of(sys.stdin.readline())
                ask(lambda services: services.get(McpLogins).finish(answer))
        except LoginFailed as error:
            raise CommandError(f"Not logged in: {error.message}") from error
        except KeyboardInterrupt:
            raise CommandError("Stopped.", returncode=ENDED_BY_SIGNAL) from None
        self.stdout.write(f"Logged in to {name}.")

    def _log_out(self, name: str) -> None:
        problem = ask(lambda services: services.get(McpLogins).forget(name))
        self.stdout.write(f"Logged out of {name}.")
        if problem:
            self.stderr.write(printable(f"Its tokens could not be revoked: {problem}"))

    def _list(self, action: str, options: dict[str, Any]) -> None:
        is_check, only = action == "check", options.get("name")
        servers = ask(lambda services: _servers(services, only, start=is_check))
        if options["json"]:
            self.print_json({"servers": [server.model_dump() for server in servers]})
        else:
            self._print(servers)
        unusable = [server.name for server in servers if not _is_well(server)]
        if is_check and unusable:
            raise CommandError(f"Not usable: {', '.join(unusable)}.")

    def _print(self, servers: Sequence[McpServerOut]) -> None:
        if not servers:
            path = django_settings.MOCHI.of(ToolsSettings).resolved_mcp_config_path
            self.stdout.write(f"{path} names no servers.")
            return
        # Not cropped, so that names can be copied.
        name, tools = Column("Server", no_wrap=True), Column("Tools", overflow="fold")
        table = Table(name, "Transport", "State", tools, Column("Problem", overflow="fold"))
        for server in servers:
            refused = [f"{tool.name}: {tool.reason}" for tool in server.invalid]
            table.add_row(
                printable(server.name),
                server.transport,
                server.state,
                "\n".join(server.tools),
                "\n".join(map(printable, filter(None, [server.error, *refused]))),
            )
        self.print_rich(table)


def _is_served() -> bool:
    """Return whether the browser comes back to a server, as far as can be known."""
    settings = django_settings.MOCHI.of(ServerSettings)
    if settings.public_url is not None or settings.unix_socket is not None:
        return settings.public_url is not None
    try:
        socket.create_connection(("127.0.0.1", settings.port), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


async def _servers(services: Services, only: str | None, *, start: bool) -> Sequence[McpServerOut]:
    if start:
        await start_servers(services, only)
    servers = await services.get(McpTools).servers()
    if only is None:
        return servers
    found = [server for server in servers if server.name == only]
    if not found:
        raise ToolServerNotFound(only)
    return found


def _is_well(server: McpServerOut) -> bool:
    """Return whether the server works or is disabled."""
    return server.error is None and server.state in {"ready", "disabled"}
