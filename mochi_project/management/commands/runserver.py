"""``manage.py runserver``: run the development server, over ASGI.

Django's own uses WSGI, which holds a stream back until it is complete.
"""

import os
import threading
from typing import Any

from django.conf import settings
from django.core.management.commands.runserver import Command as RunserverCommand
from django.utils import autoreload

from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.server import WebServer, listen, server_config, url_of
from mochi_project.process.startup import announce

STOP_SECONDS = 5.0


class Command(RunserverCommand):
    """Serves with uvicorn; autoreload, addrport and checks are Django's."""

    help = "Starts the server for development: streams, and restarts when the code changes."

    default_addr = settings.MOCHI.host
    default_port = str(settings.MOCHI.port)

    addr: str  # Django's handle() has parsed these
    port: str
    _server: WebServer | None = None
    _stopped = threading.Event()

    def run(self, **options: Any) -> None:
        """Serve until CTRL-C; with the reloader, in a thread that is given time to stop."""
        try:
            super().run(**options)
        finally:
            if self._server and not self._stopped.is_set():
                self._server.should_exit = True
                self._stopped.wait(settings.MOCHI.shutdown_grace_seconds + STOP_SECONDS)

    def inner_run(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Check the project, then serve."""
        autoreload.raise_last_exception()
        if not options["skip_checks"]:
            self.check()  # silent unless there are problems: our line comes first
        mochi = settings.MOCHI.model_copy(update={"host": self.addr, "port": int(self.port)})
        try:
            sockets = listen(mochi.host, mochi.port)
        except ConfigurationError as error:
            self.stderr.write(f"mochi-server: {error}")
            os._exit(1)  # sys.exit would end the reloader's thread only

        self._server = WebServer(
            server_config(mochi),
            on_listening=lambda: announce(mochi, url_of(mochi.host, sockets)),
        )
        try:
            self._server.run(sockets=sockets)
        finally:
            self._stopped.set()
