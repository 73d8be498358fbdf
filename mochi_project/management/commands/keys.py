"""``mochi-server keys``: make keys for people and programs, list, revoke and rotate them."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
from django.core.management import CommandError
from rich.table import Table

from mochi_project.app import service
from mochi_project.console.reports import ReportCommand
from mochi_project.keys.key import USUAL_SCOPES, Key, new_key
from mochi_project.keys.schemas import KeyOut, KeyTokenOut
from mochi_project.keys.store import KeyStore
from mochi_project.principal import DEFAULT_OWNER, Scope
from mochi_project.screen_text import printable

_LONGEST_DAYS = 36_500


class Command(ReportCommand):
    """Make keys, list, revoke and rotate them."""

    making_actions = ("add",)
    help = "Make keys for people and programs, list, revoke or rotate them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the subcommands, each with ``--json``."""
        actions = self.add_actions(parser)
        add = actions.add_parser("add", help="make a key, and print its token, this once")
        add.add_argument("name", nargs="?", default="", help="what people call it")
        add.add_argument("--owner", default=DEFAULT_OWNER, help="whose data it is for (default)")
        add.add_argument(
            "--scopes",
            default=",".join(USUAL_SCOPES),
            metavar="SCOPE,...",
            help=f"some of {', '.join(get_args(Scope))} ({','.join(USUAL_SCOPES)})",
        )
        add.add_argument(
            "--models", default="*", metavar="PATTERN,...", help="models, as openai:*,qwen3:14b (*)"
        )
        add.add_argument("--days", type=int, metavar="N", help="after how many days it ends")
        listing = actions.add_parser("list", help="list the keys, also those that have ended")
        revoke = actions.add_parser("revoke", help="end a key, its streams and its turns")
        revoke.add_argument("--keep-turns", action="store_true", help="let its turns go on")
        rotate = actions.add_parser("rotate", help="give a key another token, and print that")
        for action in (revoke, rotate):
            action.add_argument("key_id")
        self.add_json_flag(add, listing, revoke, rotate)
        self._run: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "add": self._add,
            "list": self._list,
            "revoke": self._revoke,
            "rotate": self._rotate,
        }

    def handle(self, *args: Any, action: str, **options: Any) -> None:  # noqa: ARG002
        """Run one of the subcommands."""
        self._run[action](options)

    def _add(self, options: Mapping[str, Any]) -> None:
        days = options["days"]
        if days is not None and not 0 < days <= _LONGEST_DAYS:
            raise CommandError(f"--days must be from 1 to {_LONGEST_DAYS}.")
        try:
            key, token = new_key(
                owner=options["owner"],
                name=options["name"],
                scopes=[each.strip() for each in options["scopes"].split(",")],
                models=[each.strip() for each in options["models"].split(",")],
                expires_at=datetime.now(UTC) + timedelta(days=days) if days else None,
            )
        except msgspec.ValidationError as error:
            raise CommandError(printable(f"This can't be a key: {error}.")) from error
        self._show_token(service(KeyStore).add(key), token, options)

    def _list(self, options: Mapping[str, Any]) -> None:
        shown = [KeyOut.of(key) for key in service(KeyStore).keys().values()]
        if options["json"]:
            self.print_json({"keys": [key.model_dump(mode="json") for key in shown]})
            return
        table = Table("Key", "Owner", "Name", "Scopes", "Models", "Ends")
        for key in shown:
            ends = "revoked" if key.revoked_at else str(key.expires_at or "never")[:16]
            cells = (key.id, key.owner, key.name, " ".join(key.scopes), " ".join(key.models), ends)
            table.add_row(*map(printable, cells))
        self.print_table(table, empty="No key yet: `mochi-server keys add` makes one.")

    def _revoke(self, options: Mapping[str, Any]) -> None:
        key = service(KeyStore).revoke(options["key_id"], keep_turns=options["keep_turns"])
        if options["json"]:
            self.print_json(KeyOut.of(key).model_dump(mode="json"))
        else:
            self.stdout.write(f"{key.id} is revoked: running servers notice within two seconds.")

    def _rotate(self, options: Mapping[str, Any]) -> None:
        self._show_token(*service(KeyStore).rotate(options["key_id"]), options)

    def _show_token(self, key: Key, token: str, options: Mapping[str, Any]) -> None:
        if options["json"]:
            self.print_json(KeyTokenOut.of(key, token=token).model_dump(mode="json"))
            return
        self.stdout.write(token)
        self.stderr.write(f"This is key {key.id} of {key.owner}. It is not shown again.")
