"""Checks the settings of notifications for ``mochi-server doctor``."""

from collections.abc import Iterator

from chat.settings import ChatSettings
from mochi_project.app import Services
from mochi_project.configuration.config import ServerSettings
from mochi_project.console.findings import Finding


def notice_findings(services: Services) -> Iterator[Finding]:
    """Point out variables that do nothing alone; yields nothing without any of them."""
    chat, server = services.get(ChatSettings), services.get(ServerSettings)
    if chat.webhook_url is None:
        if chat.webhook_secret is not None:
            yield _note("MOCHI_WEBHOOK_SECRET does nothing without MOCHI_WEBHOOK_URL")
        return
    if server.public_url is None and "approval.asked" in chat.webhook_events:
        yield _note("questions have no links to answer them: set MOCHI_PUBLIC_URL")
    elif not server.background_worker:
        yield _note("MOCHI_BACKGROUND_WORKER=false: another server has to send what is told")
    else:
        yield Finding("notifications", "ok", f"{', '.join(chat.webhook_events)} are told")


def _note(detail: str) -> Finding:
    return Finding("notifications", "note", detail)
