"""Provides what other clients' protocols share, files and saved conversations, and MCP's server."""

from collections.abc import Mapping

from dialects_app.settings import DialectsSettings
from dialects_app.shared.attaching import RequestFiles
from dialects_app.shared.transcripts import Transcripts
from mochi_project.app import Factory, Services
from mochi_project.configuration.config import ServerSettings
from prompts_app.service import SystemPromptService
from sessions_app.attachments.service import AttachmentService
from sessions_app.service import SessionManager
from sessions_app.settings import SessionsSettings
from tools_app.recall.toolset import RecallTools


def _request_files(services: Services) -> RequestFiles:
    from dialects_app.shared.fetching import Fetcher  # noqa: PLC0415 - few need a client

    return RequestFiles(
        services.get(AttachmentService),
        max_count=services.get(SessionsSettings).max_attachments,
        fetcher=Fetcher() if services.get(DialectsSettings).fetch_images else None,
    )


def _transcripts(services: Services) -> Transcripts:
    transcripts = Transcripts(
        services.get(SessionManager),
        services.get(DialectsSettings).saved_clients,
        grace_seconds=services.get(ServerSettings).shutdown_grace_seconds,
    )
    services.on_close(transcripts.aclose)
    return transcripts


def _mcp(services: Services) -> object:
    from dialects_app.mcp.service import McpService  # noqa: PLC0415 - off by default

    return McpService(
        services.get(RecallTools), services.get(SessionManager), services.get(SystemPromptService)
    )


OWNED: Mapping[type | str, Factory] = {
    RequestFiles: _request_files,
    Transcripts: _transcripts,
    "dialects_app.mcp.service.McpService": _mcp,
}
