"""Chooses the tools that a turn offers its model, and which of them need approval. Pure."""

from collections.abc import Mapping, Sequence
from itertools import chain
from textwrap import indent

import msgspec

from sessions_app.attachments.references import whole_results
from sessions_app.messages import Attachment, Message, ToolCall, ToolMessage, ToolSpec
from sessions_app.session import SessionMetadata, ToolSettings
from tools_app.digests import changed_tools, with_first_uses
from tools_app.errors import ToolNotFound
from tools_app.policy import must_ask
from tools_app.result_reader import READ_RESULT
from tools_app.tool_search import FIND_TOOLS, MOST_LOADED, list_of, loaded_by
from tools_app.toolset import Tool, ToolListing, ToolSelection


class AvailableTools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that the model of one turn may call.

    Attributes:
        tools: The tools that are offered to the model, by name.
        settings: The session's policies.
        resumed: Tools of calls that an earlier turn left open, by name. They may run although
            they are not offered now, and always after asking: that turn may have been told to
            offer them (``selected_tools``).
        changed: Names of tools that are not what they were when the session enabled them. They
            need approval, whatever the policies say.
        first_uses: The session's settings with digests of tools that are offered for the first
            time, to be kept; None when there are none.
        agent_name: The agent whose tools these are, if they are one's.
        linked: Tools that are offered once results have linked to resources of their servers.
        links: The resources that results have linked to, by server.
        client_tools: Tools that are offered, but run by the client, by name.
        results: The whole texts of the session's long results, of which `read_result` reads parts;
            None if the model may not call it.
        result_tokens: How many tokens the result of a call may take; None where that is unknown.
        loaded: Names of the tools whose schemas are sent beside `find_tools`, which loads more;
            None if all are sent.
    """

    tools: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    settings: ToolSettings = msgspec.field(default_factory=ToolSettings)
    resumed: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    first_uses: ToolSettings | None = None
    agent_name: str | None = None
    linked: Mapping[str, Tool] = msgspec.field(default_factory=dict)
    links: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    client_tools: Mapping[str, ToolSpec] = msgspec.field(default_factory=dict)
    results: Sequence[Attachment] | None = None
    result_tokens: int | None = None
    loaded: Sequence[str] | None = None

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The descriptions that are sent to the model."""
        linked = [tool.spec for tool in self.linked.values() if tool.server in self.links]
        if self.loaded is not None:  # each has its place from when it comes: caches go by prefixes
            first = [READ_RESULT] if self.reads_results(READ_RESULT.name) else []
            agents = [tool.spec for tool in self.tools.values() if tool.delegated]
            found = [self.tools[name].spec for name in self.loaded]
            return [FIND_TOOLS, *first, *self.client_tools.values(), *agents, *found, *linked]
        specs = [*(tool.spec for tool in self.tools.values()), *self.client_tools.values()]
        if self.results and self.reads_results(READ_RESULT.name):
            specs.append(READ_RESULT)
        return [*specs, *linked]

    def allows(self, name: str) -> bool:
        """Return whether the server may run a call of this tool at all."""
        return bool(self.find(name)) or self.reads_results(name) or self.finds_tools(name)

    def finds_tools(self, name: str) -> bool:
        """Return whether a call of this name loads other tools."""
        return name == FIND_TOOLS.name and self.loaded is not None

    @property
    def system_text(self) -> str | None:
        """The system text about the tools: words of their servers, and names to be loaded.

        A server's words are quoted line by line, so that they can't look like ours.
        """
        tools = self.tools.values()
        said = {tool.server: tool.instructions for tool in tools if tool.instructions}
        texts = [
            f'Notes of the tool server "{server}" (written by it, not by the user):\n'
            + indent(text, "> ", lambda _: True)
            for server, text in said.items()
        ]
        if self.loaded is not None:
            texts.append(list_of([tool for tool in tools if not tool.delegated]))
        return "\n\n".join(texts) or None

    def reads_results(self, name: str) -> bool:
        """Return whether a call of this name reads a long result, and is no other tool."""
        if name != READ_RESULT.name or self.results is None:
            return False
        return not (name in self.tools or name in self.resumed or name in self.client_tools)

    def after(self, messages: Sequence[Message]) -> "AvailableTools":
        """Return the tools after these messages, which have long results or links, or load some."""
        tools = msgspec.structs.replace(self, links=self._links_with(messages))
        if tools.results is not None and (more := whole_results(messages)):
            tools = msgspec.structs.replace(tools, results=[*tools.results, *more])
        if tools.loaded is None:
            return tools
        loaded = list(tools.loaded)
        for name in chain.from_iterable(map(loaded_by, messages)):
            if name in self.tools and name not in loaded and not self.delegates(name):
                loaded = [*loaded, name][-MOST_LOADED:]
        return msgspec.structs.replace(tools, loaded=loaded)

    def _links_with(self, messages: Sequence[Message]) -> Mapping[str, frozenset[str]]:
        links = {**self.links}
        for message in messages:
            if isinstance(message, ToolMessage) and message.links:
                tool = self.find(message.tool_name)
                if tool is not None and tool.server is not None:
                    links[tool.server] = links.get(tool.server, frozenset()).union(message.links)
        return links

    def links_of(self, name: str) -> frozenset[str]:
        """Return the resources that a tool may read: those that its server's results link to."""
        tool = self.find(name)
        return self.links.get(tool.server or "", frozenset()) if tool else frozenset()

    def delegates(self, name: str) -> bool:
        """Return whether a call of this tool is a turn of its own (an agent's)."""
        return name in self.tools and self.tools[name].delegated

    def is_destructive(self, name: str) -> bool:
        """Return whether this tool may run and counts as destructive."""
        tool = self.find(name)
        return tool is not None and tool.destructive

    def find(self, name: str) -> Tool | None:
        """Return a tool that may run; None for any other name."""
        return self.tools.get(name) or self.linked.get(name) or self.resumed.get(name)

    def must_ask(self, call: ToolCall) -> bool:
        """Return whether a call needs approval; one that can't run needs none."""
        name = call.name
        tool = self.tools.get(name) or self.linked.get(name)
        if tool is None:
            return name in self.resumed
        if name in self.changed:
            return True
        return not tool.delegated and must_ask(
            tool_name=name,
            destructive=tool.destructive,
            policy=self.settings.execution_policy,
            overrides=self.settings.tool_policies,
            agent_name=self.agent_name,
            scopes=self.settings.tool_scopes,
            arguments=call.arguments,
        )


NO_AVAILABLE_TOOLS = AvailableTools()


def selection_of(
    metadata: SessionMetadata, selected: Sequence[str] | None, open_calls: Sequence[ToolCall]
) -> ToolSelection | None:
    """Return which tools a turn has to look up; None when it needs none.

    Args:
        metadata: The session's settings.
        selected: The tools that the request selects instead of the session's, if it does.
        open_calls: Calls that the turn resumes.
    """
    settings = metadata.tool_settings or ToolSettings()
    if metadata.answering_agent is not None:
        settings = ToolSettings()  # it has tools of its own
    chosen = settings.tools if selected is None else selected
    group = settings.tool_group if selected is None else None
    agents = metadata.callable_agents
    if not (chosen or open_calls or group or agents):
        return None
    resumed = [call.name for call in open_calls]
    return ToolSelection(
        names=tuple(dict.fromkeys([*chosen, *resumed])), group=group, agents=tuple(agents)
    )


def choose_tools(
    listing: ToolListing,
    metadata: SessionMetadata,
    selected: Sequence[str] | None,
    open_calls: Sequence[ToolCall],
) -> AvailableTools:
    """Choose the tools that are offered to the model.

    A tool of the session's settings that is not there (any more, or because its server is down)
    is left out; one that the request selects must be there.

    Raises:
        ToolNotFound: A selected tool does not exist.
    """
    settings = metadata.tool_settings or ToolSettings()
    if selected is not None:
        for name in selected:
            if name not in listing.tools:
                raise ToolNotFound(name)
        names = list(selected)
    elif metadata.answering_agent is not None:
        names = []
    else:
        group = listing.groups.get(settings.tool_group, ()) if settings.tool_group else ()
        names = [*settings.tools, *group]
    names += [name for name, tool in listing.tools.items() if tool.delegated]
    tools = {name: listing.tools[name] for name in names if name in listing.tools}
    servers = {tool.server for tool in tools.values()}
    linked = {
        name: tool
        for name, tool in listing.tools.items()
        if tool.is_linked and tool.server in servers and name not in tools
    }
    resumed = {
        call.name: listing.tools[call.name]
        for call in open_calls
        if call.name in listing.tools and call.name not in tools
    }
    first_uses = with_first_uses(settings, tools.values(), whole_group=selected is None)
    return AvailableTools(
        tools=tools,
        settings=settings,
        resumed=resumed,
        linked=linked,
        changed=changed_tools([*tools.values(), *resumed.values()], settings),
        first_uses=first_uses if metadata.tool_settings and first_uses is not settings else None,
    )
