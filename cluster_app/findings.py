"""Checks for ``mochi-server doctor`` what nodes share, and what each has for itself."""

import time
from collections.abc import Iterator
from functools import partial

from agents_app.settings import AgentsSettings
from cluster_app.connections import Cluster
from cluster_app.shared_stores import redis_report
from mochi_project.app import Services
from mochi_project.console.findings import Finding, findings_of
from mochi_project.trust.contents import AGENTS, MCP, TOOLS, FolderLayout, parts_of
from sessions_app.errors import StorageError
from tools_app.mcp.toolset import McpTools
from tools_app.settings import ToolsSettings

MOST_SECONDS_APART = 2.0
CODE_WRITER = "agent_builder"


async def shared_findings(services: Services) -> list[Finding]:
    """Check the journal, the store, and what is on this node alone."""
    cluster = services.get(Cluster)
    return [
        *await findings_of("journal", partial(_journal, cluster)),
        *await findings_of("sessions' store", partial(_store, cluster)),
        *await findings_of("this node", partial(_of_this_node, services)),
    ]


def _journal(cluster: Cluster) -> Iterator[Finding]:
    from cluster_app.redis.task_queue import count_workers  # noqa: PLC0415 - an extra

    connection = cluster.connection
    report = redis_report(cluster)
    for fault in report.faults:
        yield Finding("journal", "broken", f"{report.name}: {fault}.")
    for note in report.notes:
        yield Finding("journal", "note", f"{report.name}: {note}.")
    if not report.faults:
        yield Finding("journal", "ok", f"{report.name} at {connection.shown}")
    before = time.time()
    with connection.translated():
        seconds, microseconds = connection.client.time()
    yield _clock(before, seconds + microseconds / 1e6, time.time())
    yield _workers(count_workers(connection))


def _clock(before: float, theirs: float, after: float) -> Finding:
    """Compare the clocks, by a time of Redis and the times at which it was asked and answered."""
    apart = max(before - theirs, 0.0) + min(after - theirs, 0.0)
    if abs(apart) > MOST_SECONDS_APART:
        ahead = "ahead of" if apart > 0 else "behind"
        detail = f"this machine's is {abs(apart):.1f} s {ahead} Redis': times in sessions differ"
        return Finding("clock", "note", f"{detail}. Run an NTP client on each node.")
    return Finding("clock", "ok", "as Redis'")


def _workers(count: int) -> Finding:
    if count:
        return Finding("workers", "ok", f"{count} on all nodes")
    advice = "none runs on any node: run `mochi-server qcluster` somewhere"
    return Finding("workers", "note", advice)


def _store(cluster: Cluster) -> Iterator[Finding]:
    store = cluster.objects
    if store is None:
        yield Finding("sessions' store", "note", "files: nodes must share the folder of sessions")
        return
    from cluster_app.objects.probe import (  # noqa: PLC0415 - an extra
        ConditionsIgnored,
        require_atomic_conditions,
        require_conditions,
    )

    try:
        require_conditions(store)
        require_atomic_conditions(store)
    except (ConditionsIgnored, StorageError) as error:
        yield Finding("sessions' store", "broken", str(error))
    else:
        detail = f"{store.name} keeps to the conditions of writes, also of several at once"
        yield Finding("sessions' store", "ok", detail)


def _of_this_node(services: Services) -> Iterator[Finding]:
    """Name what is not shared: its digest tells whether it is the same on another node."""
    tools, agents = services.get(ToolsSettings), services.get(AgentsSettings)
    parts = parts_of(
        FolderLayout(
            folder=tools.resolved_data_dir,
            env=None,
            tools=tools.resolved_tools_dir,
            agents=agents.resolved_agents_dir,
            mcp=tools.resolved_mcp_config_path,
        )
    )
    shown = ", ".join(
        f"{name} {parts[name].digest[:8] if name in parts else 'none'}"
        for name in (TOOLS, AGENTS, MCP)
    )
    yield Finding("this node", "note", f"deploy these alike on every node: {shown}")
    if (agents.resolved_agents_dir / CODE_WRITER).is_dir():
        detail = f"agents that {CODE_WRITER} writes are on the node that it ran on, and no other"
        yield Finding("this node", "note", detail)
    if tools.resolved_workspace.is_dir():
        detail = f"the workspace {tools.resolved_workspace} is this node's, unless it is mounted"
        yield Finding("this node", "note", f"{detail} on each")


async def server_findings(services: Services) -> list[Finding]:
    """Name the MCP servers that are programs: each node has its own. Starts none."""
    servers = await services.get(McpTools).servers()
    programs = [each.name for each in servers if each.transport == "stdio"]
    if not programs:
        return []
    names = ", ".join(programs)
    detail = f"MCP servers that are programs run on each node, and share nothing: {names}"
    return [Finding("this node", "note", detail)]
