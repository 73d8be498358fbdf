"""Logs each completed request (``MOCHI_ACCESS_LOG``)."""

import logging
import re
import time
from collections.abc import Awaitable
from urllib.parse import quote

from mochi_project.asgi_types import ASGIApp, Message, Receive, Scope, Send
from mochi_project.guard.proxies import TrustedProxies
from mochi_project.principal import log_fields

_SECRET = re.compile(r"(?<=/a/)[^/]{60,}")
"""The token of a link (``chat/approvals/links.py``), which is for who got the link."""

logger = logging.getLogger(__name__)


class AccessLog:
    """Serves an application and logs method, path, status, seconds and client of its requests.

    Query strings are not logged, since they may contain search terms, nor are tokens of links. The
    status is None if the client disconnected before the response began. Request ids below ``/v1``
    are logged, too, and owner and id of a key, if they are not the operator's.

    Args:
        app: The application.
        proxies: The proxies whose forwarded addresses are trusted.
    """

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | None = None
        named: dict[str, str] = {}

        def noting_status(message: Message) -> Awaitable[None]:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named.update(log_fields())  # of whom the guard let in
                for name, value in message["headers"]:
                    if name == b"x-request-id":
                        named["request_id"] = value.decode("latin-1")
            return send(message)

        started = time.perf_counter()
        try:
            await self._app(scope, receive, noting_status)
        finally:
            logger.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": _SECRET.sub("...", quote(scope["path"])),
                    "status": status,
                    "seconds": round(time.perf_counter() - started, 4),
                    "client": self._proxies.client_of(scope),
                    **named,
                },
            )
