"""Reads the exports of other programs among the fixtures, which are written by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transfer_app.formats.conversation import Branch

FOLDER = Path(__file__).parents[3] / "fixtures" / "imports"


def entries_of(name: str) -> Sequence[dict[str, Any]]:
    content = json.loads((FOLDER / f"{name}.json").read_text())
    if isinstance(content, dict):
        content = content.get("history", [content])
    entries: list[dict[str, Any]] = content
    return entries


def said(branch: Branch) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in branch.messages]
