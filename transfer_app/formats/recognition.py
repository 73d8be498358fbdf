"""Recognizes the formats of exports by their shape. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from sessions_app.session import Session
from transfer_app.formats import (
    chatbot_ui,
    chatgpt,
    claude,
    librechat,
    open_webui,
    own,
)
from transfer_app.formats.conversation import ImportedConversation, UnusableEntry
from transfer_app.formats.sources import Source

Read = Callable[..., ImportedConversation | Session]


Recognises = Callable[[Mapping[str, Any]], bool]

FORMATS: Mapping[str, tuple[Recognises, Read]] = {
    own.SOURCE: (own.recognises, own.parse),
    chatgpt.SOURCE: (chatgpt.recognises, chatgpt.parse),
    claude.SOURCE: (claude.recognises, claude.parse),
    open_webui.SOURCE: (open_webui.recognises, open_webui.parse),
    librechat.SOURCE: (librechat.recognises, librechat.parse),
    chatbot_ui.SOURCE: (chatbot_ui.recognises, chatbot_ui.parse),
}
"""The programs, each with a function that recognizes an entry by its shape, and its reader."""


def parse(
    entry: object, source: Source = "auto", *, all_branches: bool = False
) -> ImportedConversation | Session:
    """Parse an entry of an export to a conversation or a session.

    Args:
        entry: A JSON value.
        source: The required format; ``auto`` to detect it.
        all_branches: Whether to parse branches that are not shown, too.

    Raises:
        UnusableEntry: It is of no format that is known, or broken.
    """
    if not isinstance(entry, dict):
        raise UnusableEntry("it is not a JSON object")
    for recognises, read in FORMATS.values() if source == "auto" else [FORMATS[source]]:
        if recognises(entry):
            return read(entry, all_branches=all_branches)
    if source == "auto":
        raise UnusableEntry("it has the shape of no known export")
    raise UnusableEntry(f"it has not the shape of an export of {source}")
