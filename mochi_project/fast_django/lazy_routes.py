"""Django with all routes, made after the server listens: a good part of the time that it starts.

``/health`` is answered meanwhile, as its route does it. Every other request waits until the routes
are there, and makes them at once where nobody has begun.
"""

import asyncio
from typing import cast

from mochi_project.asgi_types import ASGIApp, Message, Receive, Scope, Send
from mochi_project.http.health import HEALTH_PATH, health


class LateRoutes:
    """An ASGI application that becomes Django's."""

    def __init__(self) -> None:
        self._django: ASGIApp | None = None
        self._making: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        django = self._django
        if django is None:
            if self._is_early(scope):
                await _answer_health(send)
                return
            django = await self.make()
        await django(scope, receive, send)

    async def make(self) -> ASGIApp:
        """Make the routes, in a thread, unless they are there.

        Raises:
            Exception: Whatever kept them from being made; ``/health`` raises it too from then on.
        """
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(_make))
        self._django = await asyncio.shield(self._making)  # others wait for it too
        return self._django

    def _is_early(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        waits_for_nothing = self._making is None or not self._making.done()
        return waits_for_nothing and path == HEALTH_PATH and scope["method"] == "GET"


def _make() -> ASGIApp:
    from django.urls import get_resolver  # noqa: PLC0415 - all of this is what comes late

    from mochi_project.fast_django.handler import LeanHandler  # noqa: PLC0415
    from mochi_project.fast_django.route_table import table_of  # noqa: PLC0415

    table_of(get_resolver())
    # Django's stubs want a dict where ASGI promises a mapping.
    return cast("ASGIApp", LeanHandler())


async def _answer_health(send: Send) -> None:
    body = await health()
    start: Message = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"application/json; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
        ],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
