"""A server process of the edge alone, for its tests: guard, handler, API; deadlines can be short.

Prints its URL. EDGE_BODY_DEADLINE: seconds for a body. EDGE_HEAD_DEADLINE: the same for a head.
EDGE_WAITING: how many connections may wait. EDGE_BREAK: make this service crash.
"""

import os
import socket

import django
import uvicorn

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mochi_project.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402

from mochi_project.app import service  # noqa: E402
from mochi_project.fast_django.handler import AsyncHandler  # noqa: E402
from mochi_project.guard.guard import Guard  # noqa: E402
from mochi_project.principal import OPERATOR, acting_for  # noqa: E402
from mochi_project.uvicorn_protocol.config import ServerConfig  # noqa: E402
from mochi_project.uvicorn_protocol.protocol import BoundedHttpToolsProtocol  # noqa: E402
from prompts_app.service import SystemPromptService  # noqa: E402


def main() -> None:
    token = settings.MOCHI.api_token
    guard = Guard(
        AsyncHandler(),
        settings.MOCHI,
        token=token.get_secret_value() if token else None,
        body_deadline=float(os.environ.get("EDGE_BODY_DEADLINE", "30")),
    )
    if os.environ.get("EDGE_BREAK"):

        def crash(*_args: object, **_options: object) -> None:
            raise RuntimeError("secret-in-a-crash")

        with acting_for(OPERATOR):
            service(SystemPromptService).list = crash
    sock = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    most = os.environ.get("EDGE_WAITING")
    config = ServerConfig(
        guard,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        http=BoundedHttpToolsProtocol,
        log_level="warning",
        head_timeout=float(os.environ.get("EDGE_HEAD_DEADLINE", "30")),
        most_waiting=int(most) if most else None,
    )
    uvicorn.Server(config).run(sockets=[sock])


main()
