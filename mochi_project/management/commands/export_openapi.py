"""``mochi-server export_openapi``: print the OpenAPI schema, for client generators."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from ninja.responses import NinjaJSONEncoder

from mochi_project.console.command import MochiCommand


class Command(MochiCommand):
    """Print the OpenAPI schema as JSON."""

    help = "Print the OpenAPI schema of the HTTP API as JSON, or write it to a file."
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--output", type=Path, help="the file to write instead of stdout")
        parser.add_argument("--indent", type=int, default=2, help="spaces per level (2)")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Write the schema."""
        from mochi_project.api import api  # noqa: PLC0415 - after Django is set up

        text = json.dumps(api.get_openapi_schema(), cls=NinjaJSONEncoder, indent=options["indent"])
        if options["output"] is None:
            self.stdout.write(text)
        else:
            options["output"].write_text(text + "\n", encoding="utf-8")
