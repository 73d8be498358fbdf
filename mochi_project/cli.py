"""Implements the ``mochi-server`` command: sets variables from flags, then serves.

``mochi-server COMMAND ...`` runs a management command with the same configuration instead.
"""

import argparse
import faulthandler
import gc
import logging.config
import os
import sys
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mochi_project.configuration.constants import CORE, WINGS
from mochi_project.flags import check_flags, flags_of
from mochi_project.screen_text import printable
from mochi_project.version import VERSION

if TYPE_CHECKING:
    from mochi_project.configuration.config import ServerSettings

APPS_OFF = "MOCHI_APPS_OFF"
FLAG_VARIABLES = {
    "host": "MOCHI_HOST",
    "port": "MOCHI_PORT",
    "unix_socket": "MOCHI_UNIX_SOCKET",
    "ollama_host": "MOCHI_OLLAMA_HOST",
    "data_dir": "MOCHI_DATA_DIR",
    "workers": "MOCHI_WORKERS",
    "log_level": "MOCHI_LOG_LEVEL",
    "test_mode": "MOCHI_TEST_MODE",
    "insecure_no_auth": "MOCHI_INSECURE_NO_AUTH",
    "background_worker": "MOCHI_BACKGROUND_WORKER",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server until it is stopped, or one command; return the exit code."""
    parser = _parser()
    flags, unknown = parser.parse_known_args(arguments)
    if unknown:
        check_flags(parser, unknown)
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if flags.command and flags.command[0] not in commands():
        parser.error(_unknown(flags.command[0]))
    if flags.version:
        print(VERSION)  # noqa: T201 - the interface of a command
        return 0
    if not flags.command:
        # Imported modules stay, and the collector would scan them 250 times: a twelfth of the
        # start. WebServer enables it when it listens.
        gc.disable()
    # Everything else is imported after --help and --version have been answered.
    from mochi_project.configuration.setting_errors import ConfigurationError  # noqa: PLC0415

    for name, variable in FLAG_VARIABLES.items():
        if (value := getattr(flags, name)) is not None:
            # Child processes get the same configuration this way.
            os.environ[variable] = str(value)
    if flags.command:
        return _run(flags.command)
    try:
        return _serve()
    except ConfigurationError as error:
        for line in str(error).splitlines():
            _say(line)
        return 1
    except KeyboardInterrupt:  # CTRL-C before the server handled it
        return 0
    finally:
        gc.enable()


def program_flags() -> Sequence[str]:
    """Return the flags that stand before the command."""
    return flags_of(_parser())


def _run(command: Sequence[str]) -> int:
    """Run a management command, which ends the process itself when it fails."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "mochi_project.settings"
    from django.core.management import ManagementUtility  # noqa: PLC0415

    from mochi_project.process.command_notices import warn_before  # noqa: PLC0415

    warn_before(command[0])
    ManagementUtility(["mochi-server", *command]).execute()
    return 0


def _serve() -> int:
    from mochi_project.configuration.logs import logging_config  # noqa: PLC0415
    from mochi_project.configuration.test_mode import with_fresh_data_dir  # noqa: PLC0415
    from mochi_project.process.server import (  # noqa: PLC0415
        WebServer,
        allow_many_connections,
        listening,
        server_config,
    )
    from mochi_project.process.startup import (  # noqa: PLC0415
        announce,
        api_token,
        prepare_data_dir,
        trust_new_data_dir,
    )
    from mochi_project.process.web_workers import WebProcessPool  # noqa: PLC0415

    settings = _settings()
    allow_many_connections()
    with listening(settings) as (sockets, url):
        trust_new_data_dir(settings)
        settings = with_fresh_data_dir(settings)
        prepare_data_dir(settings)
        api_token(settings, on_network=not settings.is_loopback)  # or said by each web process
        logging.config.dictConfig(logging_config(settings))

        def on_listening() -> None:
            announce(settings, url)

        if settings.workers > 1:
            gc.enable()
            with _noticing_deaths(settings) as on_death:
                return WebProcessPool(
                    settings.workers,
                    sockets,
                    on_listening=on_listening,
                    grace_seconds=settings.shutdown_grace_seconds,
                    on_death=on_death,
                ).run()
        faulthandler.enable()
        server = WebServer(server_config(settings), on_listening=on_listening)
        server.run(sockets=sockets)
        return 0 if server.started else 1


def _noticing_deaths(
    settings: "ServerSettings",
) -> AbstractContextManager[Callable[[int], None]]:
    """Return what tells other machines of dead web processes; the system tells this one."""
    if settings.journal_url is None:
        return nullcontext(lambda _: None)
    from cluster_app.dead_processes import condemning_dead  # noqa: PLC0415 - an extra

    return condemning_dead(settings)


def _settings() -> "ServerSettings":
    """Ask for trust if necessary, load the settings, and print warnings about them."""
    from mochi_project.configuration.loading import load_settings  # noqa: PLC0415
    from mochi_project.configuration.variable_names import (  # noqa: PLC0415
        CHECKED_VARIABLE,
        rename_variables,
        setting_warnings,
    )
    from mochi_project.process.startup import access_warning  # noqa: PLC0415
    from mochi_project.process.trust_question import ask_at_start  # noqa: PLC0415
    from mochi_project.trust.decision import pass_on  # noqa: PLC0415

    ask_at_start()
    settings = load_settings()
    for note in settings.trust.notes:
        _say(f"warning: {note}")
    pass_on(settings.trust.decided)  # with it, no other process says this again
    for sentence in setting_warnings(settings):
        _say(f"warning: {sentence}")
    os.environ[CHECKED_VARIABLE] = "1"  # with it, no other process says this again
    rename_variables(os.environ)
    if warning := access_warning(settings):
        _say(f"warning: {warning}")
    return settings


def _unknown(command: str) -> str:
    from sessions_app.suggestions import suggestion  # noqa: PLC0415

    hint = suggestion(command, commands()) or "; `mochi-server --help` lists them"
    return f"there is no command {command!r}{hint}"


def commands(off: Container[str] = ()) -> dict[str, str]:
    """Return the commands for users, and what they do; Django's other ones are for developers.

    Args:
        off: The apps that are left out.
    """
    lines: dict[str, str] = {}
    for app in ("mochi_project", *CORE, *WINGS):
        if app not in off and find_spec(f"{app}.management"):
            lines |= import_module(f"{app}.management").COMMANDS
    return dict(sorted(lines.items()))


def _apps_off() -> Container[str]:
    """Return the apps that are left out; without a sign of that, import no settings."""
    if APPS_OFF not in os.environ and not os.path.exists(".env"):  # noqa: PTH110 - imports nothing
        return ()
    from mochi_project.configuration.loading import load_settings  # noqa: PLC0415
    from mochi_project.configuration.setting_errors import ConfigurationError  # noqa: PLC0415

    try:
        return load_settings().apps_off
    except ConfigurationError:  # whoever asks for help is told at the next start
        return ()


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        """Return the help, with the commands of the apps that are on."""
        lines = commands(_apps_off())
        width = max(map(len, lines))
        listed = "\n".join(f"  {name:{width}}  {line}" for name, line in lines.items())
        self.epilog = (
            f"commands:\n{listed}\n\n"
            "Flags come before the command; `mochi-server COMMAND --help` says more.\n"
            "Every flag, and more, can be set as a MOCHI_ variable or in .env; flags win."
        )
        return super().format_help()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mochi-server",
        usage="%(prog)s [flags] [command ...]",
        description=(
            "A headless server for LLM conversations, beside Ollama or in test mode.\n"
            "Without a command it serves until CTRL-C."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_flags(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", metavar="N", help="port to listen on (8000; 0: a free one)")
    parser.add_argument(
        "--unix-socket",
        metavar="PATH",
        help="listen on a Unix socket that only you can use, instead of on a port",
    )
    parser.add_argument("--ollama-host", metavar="URL", help="Ollama (http://localhost:11434)")
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where sessions, tools, agents and prompts are (.)"
    )
    parser.add_argument("--workers", metavar="N", help="number of web processes (1)")
    parser.add_argument(
        "--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING, ERROR or CRITICAL (INFO)"
    )
    parser.add_argument(
        "--test-mode",
        action="store_true",
        default=None,
        help="answer from a scripted model, offline, with fresh data, on port 5099",
    )
    parser.add_argument(
        "--no-worker",
        dest="background_worker",
        action="store_false",
        default=None,
        help="do not run the background worker (summaries) beside the server",
    )
    parser.add_argument(
        "--insecure-no-auth",
        action="store_true",
        default=None,
        help="listen beyond this machine without asking for a token",
    )
    parser.add_argument("--version", action="store_true", help="say the version and exit")


def _say(text: str) -> None:
    print(printable(f"mochi-server: {text}"), file=sys.stderr)  # noqa: T201 - the interface of a command


if __name__ == "__main__":
    sys.exit(main())
