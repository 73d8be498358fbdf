"""A headless server for LLM conversations, and its parts as a library.

``create_app`` gives the ASGI application; :mod:`mochi_server.sessions` and
:mod:`mochi_server.ollama` work on their own, without Django settings. Importing this package
imports none of them.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

from mochi_project import version
from mochi_project.asgi_types import Receive, Scope, Send

if TYPE_CHECKING:
    from mochi_project.configuration.setting_arguments import SettingArguments

__all__ = ["MochiApplication", "__version__", "create_app"]

__version__ = version.VERSION


class MochiApplication(Protocol):
    """An ASGI application: an ASGI server runs it, or another application mounts it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Open the services for an ``async with`` block, for applications that mount this one."""


def create_app(
    *,
    ollama_host: str | None = None,
    data_dir: str | Path | None = None,
    **settings: "Unpack[SettingArguments]",
) -> MochiApplication:
    """Return this process's ASGI application: ``uvicorn.run(create_app(), port=8000)``.

    Args:
        ollama_host: URL of the Ollama server.
        data_dir: Directory of sessions, tools, agents and prompts.
        **settings: Every other setting, by the lower-case name of its ``MOCHI_`` variable. The
            program's logging is left alone, unless ``log_level`` or ``log_format`` is given.

    Raises:
        mochi_server.errors.ConfigurationError: A value is unusable, or a package of the program
            hides one of the server's; the message names it.
        mochi_server.errors.AlreadyConfiguredError: The process has an application with other
            settings, or runs another Django project.
    """
    from mochi_project import embedding  # noqa: PLC0415 - keeps `import mochi_server` light

    return embedding.create_app({"ollama_host": ollama_host, "data_dir": data_dir, **settings})
