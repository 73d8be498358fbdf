"""Names the programs whose exports are read, and what an import is asked for. Imports no reader."""

from collections.abc import Callable
from typing import Literal, get_args

import msgspec

Source = Literal["auto", "chatgpt", "claude", "open_webui", "librechat", "chatbot_ui", "mochi"]
SOURCES: tuple[Source, ...] = get_args(Source)


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of an import.

    Attributes:
        source: The program that wrote the export; ``auto`` to detect it.
        all_branches: Whether to import branches that are not shown, too.
        model: The model of all sessions, overriding the export's.
        default_model: Returns the model of sessions for which the export has none, if there is one.
        dry_run: Whether to write nothing, and only report.
    """

    source: Source = "auto"
    all_branches: bool = False
    model: str | None = None
    default_model: Callable[[], str | None] = lambda: None
    dry_run: bool = False
