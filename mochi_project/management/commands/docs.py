"""``mochi-server docs``: read the guides of the installed version (docs/decisions/0163)."""

from argparse import ArgumentParser
from pathlib import Path
from pydoc import pager
from typing import Any

from mochi_project.console.command import MochiCommand

_PACKAGED = Path(__file__).parents[2] / "docs"
_FOLDER = _PACKAGED if _PACKAGED.is_dir() else _PACKAGED.parents[1] / "docs"  # of the checkout
_GUIDES = {page.stem: page.read_text("utf-8") for page in sorted(_FOLDER.glob("*.md"))}


class Command(MochiCommand):
    """Shows a guide as Markdown, or what guides there are."""

    help = "Read a guide of this version, as Markdown."
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the guide's name."""
        parser.add_argument("guide", metavar="GUIDE", nargs="?", choices=_GUIDES, help="its name")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Show the guide, page by page on a terminal, or list all."""
        titles = (f"{name:14} {text.splitlines()[0][2:]}\n" for name, text in _GUIDES.items())
        pager(_GUIDES.get(options["guide"]) or "".join(titles))
