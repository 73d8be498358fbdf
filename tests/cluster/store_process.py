"""An object store as a process: moto's S3 with a lock, as it checks conditions before it writes.

Run as ``python store_process.py HOST``; it prints the port on which it listens, and serves until it
is killed. With ``--ignores-conditions`` it does what careless stores do.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

App = Callable[[dict[str, Any], Any], Iterable[bytes]]
CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class QuietHandler(WSGIRequestHandler):
    """Logs no requests."""

    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        """Say nothing."""


def one_at_a_time(app: App) -> App:
    """Return the application with a lock around what it checks and does."""
    lock = threading.Lock()

    def locked(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with lock:
            return list(app(environ, start_response))

    return locked


def careless(app: App) -> App:
    """Return the application without ears for conditions."""

    def deaf(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        kept = {name: value for name, value in environ.items() if name not in CONDITIONS}
        return app(kept, start_response)

    return deaf


def main() -> None:
    """Serve."""
    app: App = one_at_a_time(DomainDispatcherApplication(create_backend_app))
    if "--ignores-conditions" in sys.argv:
        app = careless(app)
    server = make_server(sys.argv[1], 0, app, threaded=True, request_handler=QuietHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
