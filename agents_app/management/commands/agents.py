"""``mochi-server agents``: list, show and check agents."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management import CommandError
from rich.table import Column, Table

from agents_app.agent import AgentDefinition
from agents_app.catalogue import AgentCatalogue
from agents_app.folders import left_out
from agents_app.payloads import agent_detail, agents_payload, chats_payload
from agents_app.sessions import AgentChats, agent_of
from agents_app.settings import AgentsSettings
from mochi_project.console.reports import ReportCommand
from mochi_project.console.service_runner import ask
from mochi_project.screen_text import printable


class Command(ReportCommand):
    """List and show agents, or explain for each folder whether it is an agent."""

    help = "List or show agents, or say why one is not there."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list all agents")
        show = actions.add_parser("show", help="show one agent with its prompt and its tools")
        show.add_argument("name", metavar="NAME")
        check = actions.add_parser(
            "check", help="say of each folder whether it is an agent, and what to change"
        )
        chats = actions.add_parser("chats", help="list the sessions of agents")
        delete = actions.add_parser(
            "delete-chat", help="delete a session of an agent for good, after asking"
        )
        delete.add_argument("session_id", metavar="SESSION")
        delete.add_argument("--yes", action="store_true", help="do not ask")
        self.add_json_flag(listing, show, check, chats, delete)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        actions: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "list": self._list,
            "show": self._show,
            "check": self._check,
            "chats": self._list_chats,
            "delete-chat": self._delete_chat,
        }
        actions[action](options)

    def _list(self, options: Mapping[str, Any]) -> None:
        agents = ask(lambda services: services.get(AgentCatalogue).list())
        if options["json"]:
            self.print_json(agents_payload(agents))
            return
        name = Column("Agent", no_wrap=True)
        table = Table(name, "Usable", "Model", "Tools", "Description")
        for agent in agents.values():
            table.add_row(
                printable(agent.name),
                "yes" if agent.valid else "no",
                printable(agent.model or ""),
                str(len(agent.tools)),
                printable(agent.description),
            )
        self.print_table(table, empty="No agents yet: `mochi-server init` writes examples.")
        for agent in agents.values():
            if not agent.valid:
                self.stderr.write(printable(f"{agent.name}: {agent.error_message}"))

    def _show(self, options: Mapping[str, Any]) -> None:
        agent = ask(lambda services: services.get(AgentCatalogue).get(options["name"]))
        if options["json"]:
            self.print_json(agent_detail(agent))
            return
        table = Table.grid(padding=(0, 2))
        table.add_row("Agent", printable(agent.name))
        table.add_row("For", printable(agent.description))
        table.add_row("Model", printable(agent.model or "the calling session's"))
        for name, tool in agent.tools.items():
            asks = " (destructive)" if tool.destructive else ""
            summary = tool.spec.description.strip().partition("\n")[0]
            table.add_row("Tool", printable(f"{name}{asks}: {summary}"))
        for entry in agent.invalid_tools:
            table.add_row("No tool", printable(f"{entry.file}, {entry.name}: {entry.reason}"))
        if agent.error_message:
            table.add_row("Not usable", printable(agent.error_message))
        self.print_rich(table)
        self.stdout.write(f"\n{printable(agent.system_prompt)}")

    def _list_chats(self, options: Mapping[str, Any]) -> None:
        page = ask(lambda services: asyncio.to_thread(services.get(AgentChats).list))
        if options["json"]:
            self.print_json(chats_payload(page))
            return
        table = Table("Session", "Agent", "Updated", "Messages", "Preview")
        for chat in page.sessions:
            table.add_row(
                chat.session_id,
                printable(agent_of(chat) or ""),
                chat.updated_at[:16].replace("T", " "),
                str(chat.message_count),
                " ".join(printable(chat.preview or "").split()),
            )
        self.print_table(table, empty="No agent was called yet.")
        self.warn_of(page)

    def _delete_chat(self, options: Mapping[str, Any]) -> None:
        session_id = options["session_id"]
        what = f"session {session_id} of an agent"
        if not options["yes"] and not self.confirm(
            f"Delete {what} for good?", unasked=f"This would delete {what}"
        ):
            raise CommandError("Not deleted.")
        ask(lambda services: asyncio.to_thread(services.get(AgentChats).delete, session_id))
        if options["json"]:
            self.print_json({"deleted": session_id})
        else:
            self.stdout.write(f"Session {session_id} is deleted.")

    def _check(self, options: Mapping[str, Any]) -> None:
        folder = django_settings.MOCHI.of(AgentsSettings).resolved_agents_dir
        agents = ask(lambda services: services.get(AgentCatalogue).list())
        others = left_out(folder)
        if options["json"]:
            details = {name: agent_detail(agent) for name, agent in agents.items()}
            self.print_json({"folder": str(folder), "agents": details, "left_out": others})
        else:
            self._print_findings(folder, agents, others)
        unusable = [name for name, agent in agents.items() if not agent.valid]
        if unusable:
            raise CommandError(printable(f"Not usable: {', '.join(unusable)}."))

    def _print_findings(
        self, folder: Path, agents: Mapping[str, AgentDefinition], others: Mapping[str, str]
    ) -> None:
        if not agents and not others:
            self.stdout.write(f"There are no agents in {folder}. `mochi-server init` writes two.")
            return
        usable = sum(agent.valid for agent in agents.values())
        self.stdout.write(f"{folder}: {usable} of {len(agents)} agents can be used\n")
        for agent in agents.values():
            if agent.valid:
                count = len(agent.tools)
                said = f"ok        {agent.name}: {count} {'tool' if count == 1 else 'tools'}"
            else:
                said = f"invalid   {agent.name}: {agent.error_message}"
            self.stdout.write(printable(said))
            if agent.valid:
                for entry in agent.invalid_tools:
                    reason = f"{entry.file}, {entry.name}: {entry.reason}"
                    self.stdout.write(printable(f"  no tool {reason}"))
        for name, reason in others.items():
            self.stdout.write(printable(f"left out  {name}: {reason}"))
