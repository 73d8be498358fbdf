"""``mochi-server doctor``: check everything the server needs, with advice."""

import asyncio
from argparse import ArgumentParser
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from django.conf import settings as django_settings
from rich.table import Column, Table
from rich.text import Text

from agents_app.folders import read_folders
from agents_app.settings import AgentsSettings
from chat.conversation_storage import SessionKind, Storages
from chat.settings import ChatSettings
from chat.summaries.service import SummaryService
from mochi_project.app import Services, build_services, mochi_apps
from mochi_project.background.worker_state import WORKER_LOCK_FILE, worker_state
from mochi_project.configuration.app_settings import owners_in
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.variable_names import setting_warnings
from mochi_project.console.findings import Finding, Found, findings_of
from mochi_project.console.reports import ReportCommand
from mochi_project.keys.key import utc_now
from mochi_project.keys.store import KeyStore
from mochi_project.management.attachment_findings import attachments_finding
from mochi_project.management.retention_findings import retention_finding
from mochi_project.principal import principal
from mochi_project.process.startup import prepare_data_dir
from mochi_project.reachability import Stores
from mochi_project.screen_text import printable
from mochi_project.trust.contents import AGENTS, MCP, TOOLS
from models_app.findings import model_findings
from prompts_app.service import SystemPromptService
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from tools_app.folder import FolderTools
from tools_app.mcp.toolset import McpTools

Checks = Mapping[str, Callable[[Services], Found | Awaitable[Found]]]

STYLES = {"ok": "green", "note": "yellow", "broken": "red"}


class Command(ReportCommand):
    """Check everything the server needs; exit code 1 when something essential is broken."""

    of_owner = True
    help = (
        "Say what works, what does not, and what to do about it: configuration, data, trust, "
        "models of every provider, tools, worker."
    )
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare ``--json``."""
        self.add_json_flag(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run the checks and print what they found."""
        findings = asyncio.run(_findings(build_services(django_settings.MOCHI, principal().owner)))
        healthy = all(finding.state != "broken" for finding in findings)
        if options["json"]:
            report = {"healthy": healthy, "findings": [asdict(finding) for finding in findings]}
            self.print_json(report)
        else:
            self._print(findings)
        if not healthy:
            raise SystemExit(1)

    def _print(self, findings: list[Finding]) -> None:
        # Folded, not cropped, so that names of files and commands can be copied.
        table = Table("", "Check", Column("Finding", overflow="fold"))
        for finding in findings:
            state = Text(finding.state, STYLES[finding.state])
            table.add_row(state, printable(finding.check), printable(finding.detail))
        self.print_rich(table)


async def _findings(services: Services) -> list[Finding]:
    of_apps = ((app.name.removesuffix("_app"), app.findings) for app in mochi_apps())
    try:
        return [
            each
            for check, find in (*CHECKS.items(), *of_apps, *LAST_CHECKS.items())
            for each in await findings_of(check, partial(find, services))
        ]
    finally:
        await services.aclose()


def _configuration(services: Services) -> Iterator[Finding]:
    # A wrong value fails earlier, when the settings are loaded.
    for sentence in setting_warnings(services.get(ServerSettings)):
        yield Finding("configuration", "note", sentence)


def _data_directory(services: Services) -> Iterator[Finding]:
    settings = services.get(ServerSettings)
    notes = prepare_data_dir(settings)
    yield Finding("data directory", "ok", f"{settings.resolved_data_dir} is writable")
    for note in notes:
        yield Finding("file system", "note", f"{note}.")


def _trust(services: Services) -> Iterator[Finding]:
    """Report what is not used for lack of trust, and what has changed."""
    notes = [printable(f"{note}.") for note in services.get(ServerSettings).trust.notes]
    for note in notes:
        yield Finding("trust", "note", note)
    if not notes:
        yield Finding("trust", "ok", "nothing waits for a decision")


def _needs_trust(check: str) -> Finding:
    """Return that a part is not used; the advice is given once, under ``trust``."""
    return Finding(check, "note", "not used, because the folder is not trusted")


def _sessions(services: Services) -> Finding:
    listing = services.get(SessionManager).repository.list()
    if not listing.unreadable:
        return Finding("sessions", "ok", f"{len(listing.sessions)} readable")
    broken = "; ".join(f"{item.file}: {item.reason}" for item in listing.unreadable)
    return Finding("sessions", "note", f"{len(listing.sessions)} readable, not readable: {broken}")


def _turns(services: Services) -> Finding:
    """Check for journals of turns that need a person's attention."""
    notes: list[str] = []
    for kind in (SessionKind.CHAT, SessionKind.AGENT):
        storage = services.get(Storages)[kind]
        if broken := storage.journal.broken():
            notes.append(
                f"could not be saved and was set aside; review and remove: {', '.join(broken)}"
            )
        listing = storage.repository.list()
        known = {metadata.session_id for metadata in listing.sessions}
        known |= {item.file.removesuffix(".json") for item in listing.unreadable}
        if missing := sorted(set(storage.journal.unended_sessions()) - known):
            notes.append(
                f"wait for sessions that are not in {storage.place} (is it mounted, is a "
                f"file to be restored?): {', '.join(missing)}"
            )
    if not notes:
        return Finding("turns", "ok", "nothing is left that could not be saved")
    return Finding("turns", "note", printable("; ".join(notes)))


def _owners(services: Services) -> Iterator[Finding]:
    owners = owners_in(services.get(ServerSettings).users_dir)
    if owners:
        advice = "`mochi-server doctor --owner NAME` checks the data of one"
        yield Finding("owners", "ok", f"{len(owners)} beside default; {advice}")


def _prompts(services: Services) -> Finding:
    return Finding("system prompts", "ok", f"{len(services.get(SystemPromptService).list())} files")


def _agents(services: Services) -> Finding:
    """Check the agents' files, without running their code."""
    settings, chats = services.get(AgentsSettings), services.get(SessionsSettings)
    found = read_folders(settings.resolved_agents_dir, chats_dir=chats.resolved_agent_chats_dir)
    if found and not settings.trust.allows(AGENTS):
        return _needs_trust("agents")
    wrong = [
        f"{folder.name}: {' '.join(folder.faults)}" for folder in found.values() if folder.faults
    ]
    advice = "`mochi-server agents check` tries their tools too"
    if wrong:
        usable = len(found) - len(wrong)
        detail = printable(f"{usable} complete, not usable: {'; '.join(wrong)} ({advice})")
        return Finding("agents", "note", detail)
    if not found:
        folder = settings.resolved_agents_dir
        return Finding("agents", "ok", f"none in {folder}; `mochi-server init` writes examples")
    return Finding("agents", "ok", f"{len(found)} complete; {advice}")


async def _tools(services: Services) -> Finding:
    listing = await services.get(FolderTools).listing()
    if listing.invalid and not services.get(ServerSettings).trust.allows(TOOLS):
        return _needs_trust("tools")
    if listing.invalid:
        wrong = "; ".join(f"{entry.name}: {entry.reason}" for entry in listing.invalid)
        advice = "`mochi-server tools check` says more"
        detail = f"{len(listing.tools)} usable, not usable: {printable(wrong)} ({advice})"
        return Finding("tools", "note", detail)
    if not listing.tools:
        folder = services.get(FolderTools).folder
        return Finding("tools", "ok", f"none in {folder}; `mochi-server init` writes examples")
    return Finding("tools", "ok", f"{len(listing.tools)} usable")


async def _servers(services: Services) -> Finding:
    servers = await services.get(McpTools).servers()  # which starts none
    wrong = [f"{server.name}: {server.error}" for server in servers if server.error]
    wrong += [f"{tool.name}: {tool.reason}" for server in servers for tool in server.invalid]
    if wrong and not services.get(ServerSettings).trust.allows(MCP):
        return _needs_trust("MCP servers")
    if wrong:
        return Finding("MCP servers", "note", printable("; ".join(wrong)))
    if not servers:
        return Finding("MCP servers", "ok", "none are configured")
    advice = "`mochi-server mcp check` tries them"
    return Finding("MCP servers", "ok", f"{len(servers)} configured; {advice}")


def _keys(services: Services) -> Finding:
    keys = services.get(KeyStore).keys().values()
    ended = sum(key.has_ended(utc_now()) for key in keys)
    owners = len({key.owner for key in keys})
    detail = f"{len(keys)} for {owners} owners, {ended} of them have ended" if keys else "none"
    return Finding("keys", "ok", detail)


def _worker(services: Services) -> Iterator[Finding]:
    if services.get(Stores).are_shared:  # any node's will do
        return
    settings = services.get(ServerSettings)
    # A start that named the folder trusts it, and has its worker's state in the folder itself.
    places = (settings.resolved_private_dir, settings.resolved_state_dir)
    states = [worker_state(place / WORKER_LOCK_FILE) for place in places]
    state = states[0] or states[1]
    if state is None:
        advice = "is not running"
        if not settings.background_worker:
            advice = "MOCHI_BACKGROUND_WORKER is false: run `mochi-server qcluster` yourself"
        yield Finding("worker", "note", advice)
    elif state.phase == "running":
        again = f", restarted {state.restarts} times" if state.restarts else ""
        yield Finding("worker", "ok", f"running, kept by process {state.keeper}{again}")
    elif state.phase == "starting":
        yield Finding("worker", "note", f"starting, kept by process {state.keeper}")
    else:
        yield Finding("worker", "note", "died and is being restarted; the server's log says why")


def _summaries(services: Services) -> Iterator[Finding]:
    if not services.get(ChatSettings).summarization_enabled:
        yield Finding("summaries", "note", "MOCHI_SUMMARIZATION_ENABLED is false")
    for failure in services.get(SummaryService).failing():
        when = "paused until the next answer" if failure.given_up else "tried again"
        yield Finding(
            "summaries",
            "note",
            f"{failure.session_id}: {failure.code}, {failure.message} ({when})",
        )


CHECKS: Checks = {
    "configuration": _configuration,
    "data directory": _data_directory,
    "trust": _trust,
    "keys": _keys,
    "sessions": _sessions,
    "retention": retention_finding,
    "attachments": attachments_finding,
    "turns": _turns,
    "owners": _owners,
    "system prompts": _prompts,
    "agents": _agents,
}
LAST_CHECKS: Checks = {
    "models": model_findings,
    "tools": _tools,
    "MCP servers": _servers,
    "worker": _worker,
    "summaries": _summaries,
}
