"""Declares the base class of all commands: help, misspelt words, and errors for people."""

import argparse
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from mochi_project.cli import program_flags
from mochi_project.flags import check_flags
from mochi_project.principal import DEFAULT_OWNER, InvalidOwner, acting_for
from mochi_project.screen_text import printable
from mochi_project.version import VERSION
from sessions_app.errors import MochiError
from sessions_app.store.atomic import make_private_directory
from sessions_app.suggestions import suggestion

PROGRAM = "mochi-server"
WRONG_USAGE = 2


class Actions:
    """The actions of a command: ``mochi-server COMMAND ACTION``.

    Args:
        parser: The parser of the command.
        add_arguments: Declares what all of them take.
    """

    def __init__(
        self,
        parser: argparse.ArgumentParser,
        add_arguments: Callable[[argparse.ArgumentParser], None],
    ) -> None:
        self._add_arguments = add_arguments
        self.parsers: dict[str, argparse.ArgumentParser] = {}
        self._parsers = parser.add_subparsers(
            dest="action", required=True, metavar="ACTION", title="actions"
        )

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002 - argparse's word
        """Declare an action; ``help`` is also the description that its own ``--help`` shows."""
        description = f"{help[:1].upper()}{help[1:]}."
        parser: argparse.ArgumentParser = self._parsers.add_parser(
            name, help=help, description=description
        )
        self.parsers[name] = parser
        self._add_arguments(parser)
        return parser


class MochiCommand(BaseCommand):
    """A command for users, who need not know Django.

    ``--help`` leaves Django's flags out, which still work. From a shell, a ``CommandError``, a
    ``MochiError`` or an error with a file ends the command with one line on stderr; from
    ``call_command`` all are a ``CommandError``.

    Attributes:
        data_dir: What happens to a data directory that is not there: a command that needs it is
            refused, or it is made, or the command does without.
        making_actions: The actions that make it, of a command that needs it.
        of_owner: Whether it acts on the data of one owner: that of ``--owner``.
    """

    data_dir: Literal["needed", "made", "unused"] = "needed"
    making_actions: Collection[str] = ()
    of_owner = False

    suppressed_base_arguments = {  # noqa: RUF012 - declared so by Django
        "--version",
        "--verbosity",
        "--settings",
        "--pythonpath",
        "--traceback",
        "--no-color",
        "--force-color",
    }
    requires_system_checks = ()  # they import all routes
    _actions: Actions | None = None

    def add_actions(self, parser: argparse.ArgumentParser) -> Actions:
        """Declare that the command has actions, one of which must be named."""
        self._actions = Actions(parser, self._add_owner)
        return self._actions

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser of the command."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        self._add_owner(parser)
        return parser

    def _add_owner(self, parser: argparse.ArgumentParser) -> None:
        if self.of_owner:
            parser.add_argument(
                "--owner",
                metavar="NAME",
                default=argparse.SUPPRESS,  # or that of an action would undo what is before it
                help=f"whose data it acts on ({DEFAULT_OWNER})",
            )

    def get_version(self) -> str:
        """Return this program's version, for ``--version``."""
        return VERSION

    def confirm(self, question: str, *, unasked: str) -> bool:
        """Ask a person on the terminal a question that is answered with yes or no.

        Raises:
            CommandError: There is no terminal; ``unasked`` says what was not done.
        """
        if not sys.stdin.isatty():
            raise CommandError(f"{unasked}, and there is no terminal to ask on. Pass --yes.")
        self.stderr.write(f"{question} [y/N] ", ending="")
        self.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command as a shell does."""
        self._called_from_command_line = True
        parser = self.create_parser(argv[0], argv[1])
        words, action = argv[2:], None
        if self._actions is not None:
            _check_action(parser, self._actions.parsers, words)
            parsers = self._actions.parsers
            action = next((parsers[word] for word in words if word in parsers), None)
        check_flags(
            parser,
            words,
            action=action,
            hidden=self.suppressed_base_arguments,
            of_program=program_flags,
        )
        super().run_from_argv(argv)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command."""
        try:
            return self._execute(*args, **options)
        except CommandError as error:
            if not self._called_from_command_line or options.get("traceback"):
                raise
            # Some of the words may be a provider's, or a file's.
            self.stderr.write(printable(f"{PROGRAM}: {error}"))
            raise SystemExit(error.returncode) from error

    def _execute(self, *args: Any, **options: Any) -> str | None:
        try:
            self._check_data_dir(options)
            owner = options.pop("owner", DEFAULT_OWNER) if self.of_owner else DEFAULT_OWNER
            with acting_for(owner):
                return super().execute(*args, **options)
        except InvalidOwner as error:
            raise CommandError(str(error)) from error
        except MochiError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            if error.filename is None:  # nothing that a person could look at
                raise
            raise CommandError(f"{error.filename}: {error.strerror}.") from error

    def _check_data_dir(self, options: Mapping[str, Any]) -> None:
        """Refuse a data directory that can't be used: it would look like an empty one."""
        if self.data_dir == "unused":
            return
        directory = django_settings.MOCHI.resolved_data_dir
        try:
            makes = options.get("action") in self.making_actions and not options.get("dry_run")
            if self.data_dir == "made" or makes:
                make_private_directory(directory)
            with os.scandir(directory):
                pass
        except OSError as error:
            raise CommandError(
                f"MOCHI_DATA_DIR {directory} can't be used: {error.strerror}."
            ) from error


def _check_action(parser: CommandParser, actions: Collection[str], words: Sequence[str]) -> None:
    """Show help if no action is named, and suggest one for a misspelt one."""
    if not words:
        parser.print_help(sys.stderr)
        raise SystemExit(WRONG_USAGE)
    if not words[0].startswith("-") and words[0] not in actions:
        hint = suggestion(words[0], actions) or f"; there are {', '.join(actions)}"
        parser.error(f"there is no action {words[0]!r}{hint}")
