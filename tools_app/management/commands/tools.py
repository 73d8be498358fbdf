"""``mochi-server tools``: list, show, call and check tools."""

import json
import os
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings as django_settings
from django.core.management import CommandError
from rich.table import Column, Table

from mochi_project.app import Services
from mochi_project.console.reports import ReportCommand
from mochi_project.console.service_runner import ask, start_servers
from mochi_project.screen_text import printable
from tools_app.catalogue import ToolCatalogue
from tools_app.diagnosis import FileDiagnosis, diagnose
from tools_app.folder import FolderTools
from tools_app.functions.loading import load_folder
from tools_app.functions.progress import progress
from tools_app.hosts.answers import answer
from tools_app.hosts.messages import Failed, Returned
from tools_app.payloads import listing_payload, tool_payload
from tools_app.services import ToolServices
from tools_app.settings import ToolsSettings
from tools_app.toolset import Tool, ToolInvocation, ToolListing, ToolProgress, ToolResult


class Command(ReportCommand):
    """List, show and call tools, or explain for each file which tools it gave."""

    of_owner = True
    help = "List, show or call tools, or say why one is not there."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        listing = actions.add_parser("list", help="list all tools, those of MCP servers too")
        show = actions.add_parser("show", help="show one tool with its parameters")
        run = actions.add_parser("run", help="call a tool by hand, as a model would")
        for action in (show, run):
            action.add_argument("name")
        run.add_argument(
            "--arguments", default="{}", metavar="JSON", help='a JSON object: \'{"a": 1, "b": 2}\''
        )
        run.add_argument("--yes", action="store_true", help="do not ask before a destructive tool")
        run.add_argument(
            "--here", action="store_true", help="run a function in this process, for a debugger"
        )
        check = actions.add_parser(
            "check", help="say of each file of the tools folder what came of it, and what to change"
        )
        self.add_json_flag(listing, show, run, check)

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        actions: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "list": self._list,
            "show": self._show,
            "run": self._run,
            "check": self._check,
        }
        actions[action](options)

    def _list(self, options: Mapping[str, Any]) -> None:
        listing = ask(_everything)
        if options["json"]:
            self.print_json(listing_payload(listing))
            return
        table = Table(Column("Tool", no_wrap=True), "Groups", "Destructive", "Description")
        for name in sorted(listing.tools):
            tool = listing.tools[name]
            table.add_row(name, ", ".join(tool.groups), _yes_no(tool), _first_line(tool))
        self.print_table(table, empty="")
        if all(tool.is_built_in for tool in listing.tools.values()):
            self.stdout.write("No tools of your own yet: `mochi-server init` writes examples.")
        for entry in listing.invalid:
            place = f" ({entry.file})" if entry.file else ""
            self.stderr.write(printable(f"{entry.name}{place}: {entry.reason}"))

    def _show(self, options: Mapping[str, Any]) -> None:
        tool = ask(lambda services: services.get(ToolCatalogue).find(options["name"]))
        if options["json"]:
            self.print_json(tool_payload(tool))
            return
        table = Table.grid(padding=(0, 2))
        table.add_row("Tool", printable(tool.name))
        table.add_row(
            "From", f"MCP server {tool.server}" if tool.server else tool.file or "built-in"
        )
        table.add_row("Groups", ", ".join(tool.groups))
        table.add_row("Destructive", _yes_no(tool))
        table.add_row("Does", printable(tool.spec.description))
        for name, known in tool.parameters.items():
            said = [known["type"], known["description"]]
            table.add_row(name, printable(": ".join(filter(None, said))))
        self.print_rich(table)

    def _run(self, options: Mapping[str, Any]) -> None:
        arguments = _parsed(options["arguments"])
        call = ToolInvocation(name=options["name"], arguments=arguments, report=self._report)
        run = self._result_here if options["here"] else self._result
        result = run(call, yes=options["yes"])
        if options["json"]:
            shown = msgspec.to_builtins(result)
            del shown["files"]  # they are kept, and are its attachments
            self.print_json(shown)
        elif result.success:
            self.stdout.write(printable(result.result or ""))
        if not result.success:
            raise CommandError(printable(f"{result.error_message} ({result.error_code})"))

    def _result(self, call: ToolInvocation, *, yes: bool) -> ToolResult:
        result = None if yes else ask(lambda services: _if_harmless(services, call))
        if result is None:
            self._ask_person(call.name, yes=yes)
            result = ask(lambda services: services.get(ToolCatalogue).call_tool(call))
        return result

    def _result_here(self, call: ToolInvocation, *, yes: bool) -> ToolResult:
        """Call a function as a tool process does, but at this terminal and without limits."""
        tool, environment = ask(lambda services: _tool_and_environment(services, call.name))
        self._ask_person(call.name, yes=yes or not tool.destructive)
        settings = django_settings.MOCHI.of(ToolsSettings)
        folder = settings.resolved_tools_dir.absolute()  # before chdir
        os.chdir(settings.resolved_data_dir)
        os.environ.clear()
        os.environ.update(environment)
        loaded = load_folder(folder)
        _find(call.name, loaded.report(), tool.file)
        function = loaded.functions[call.name]
        with progress.reported_to(self._report):
            given = answer(call.name, function, call.arguments).answer
        if isinstance(given, Failed):
            self.stderr.write(printable(given.traceback))
            return ToolResult(success=False, error_message=given.message, error_code=given.code)
        assert isinstance(given, Returned)  # noqa: S101 - nothing was loaded
        return ToolResult(success=True, result=given.text)

    def _report(self, told: ToolProgress) -> None:
        share = f"{(told.progress or 0) / told.total:.0%} " if told.total else ""
        self.stderr.write(printable(f"{share}{told.message or ''}"))

    def _ask_person(self, name: str, *, yes: bool) -> None:
        if not yes and not self.confirm(
            f"{name} is destructive. Call it?", unasked=f"{name} is destructive"
        ):
            raise CommandError("Not called.")

    def _check(self, options: Mapping[str, Any]) -> None:
        folder = django_settings.MOCHI.of(ToolsSettings).resolved_tools_dir
        listing = ask(lambda services: services.get(FolderTools).listing())
        diagnoses = diagnose(_python_files(folder), listing)
        if options["json"]:
            self.print_json({"folder": str(folder), "files": msgspec.to_builtins(diagnoses)})
        else:
            self._print_diagnoses(folder, diagnoses, listing)
        if listing.invalid:
            raise CommandError(f"{len(listing.invalid)} of what was found can't be offered.")

    def _print_diagnoses(
        self, folder: Path, diagnoses: Sequence[FileDiagnosis], listing: ToolListing
    ) -> None:
        if not diagnoses:
            self.stdout.write(
                f"There are no Python files in {folder}. `mochi-server init` writes examples."
            )
            return
        self.stdout.write(f"{folder}: {len(listing.tools)} tools")
        for diagnosis in diagnoses:
            if not (diagnosis.tools or diagnosis.invalid or diagnosis.hint):
                continue  # an __init__.py without faults
            if diagnosis.file:  # none: it is about the folder
                self.stdout.write(f"\n{diagnosis.file}")
            for name in diagnosis.tools:
                self.stdout.write(f"  ok       {name}")
            for entry in diagnosis.invalid:
                self.stdout.write(printable(f"  invalid  {entry.name}: {entry.reason}"))
            if diagnosis.hint:
                self.stdout.write(f"  nothing  {diagnosis.hint}")


async def _everything(services: Services) -> ToolListing:
    await start_servers(services)
    return await services.get(ToolCatalogue).listing()


async def _if_harmless(services: Services, invocation: ToolInvocation) -> ToolResult | None:
    """Call the tool; return None if it needs approval first."""
    tool = await services.get(ToolCatalogue).find(invocation.name)
    return None if tool.destructive else await services.get(ToolCatalogue).call_tool(invocation)


async def _tool_and_environment(services: Services, name: str) -> tuple[Tool, dict[str, str]]:
    listing = await services.get(FolderTools).listing()
    return _find(name, listing), services.get(ToolServices).fork_server.environment()


def _find(name: str, listing: ToolListing, file: str | None = None) -> Tool:
    """Return a tool; raise CommandError with the faults of its file if it is not there."""
    if name not in listing.tools:
        reasons = [e.reason for e in listing.invalid if e.name == name or e.file in ("", file)]
        raise CommandError(" ".join(reasons) or f"There is no function {name!r} in the folder.")
    return listing.tools[name]


def _parsed(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError as error:
        raise CommandError(f"--arguments is not JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise CommandError('--arguments must be a JSON object, such as {"a": 1}.')
    return arguments


def _python_files(folder: Path) -> list[str]:
    """Return possible tool modules: the folder's Python files, and packages in it."""
    found = [*folder.glob("*.py"), *folder.glob("*/__init__.py")]
    return [str(path.relative_to(folder)) for path in found]


def _yes_no(tool: Tool) -> str:
    return "yes" if tool.destructive else "no"


def _first_line(tool: Tool) -> str:
    return printable(tool.spec.description.strip().partition("\n")[0])
