"""Recognizes the formats of exports by their shape. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

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


class Format(msgspec.Struct, frozen=True):
    """The format of a program's exports.

    Attributes:
        source: The program.
        recognises: Returns whether an entry has the shape of this format.
        parse: Returns the conversation; raises ``UnusableEntry``.
    """

    source: str
    recognises: Callable[[Mapping[str, Any]], bool]
    parse: Read


FORMATS: Sequence[Format] = (
    Format(own.SOURCE, own.recognises, own.parse),
    Format(chatgpt.SOURCE, chatgpt.recognises, chatgpt.parse),
    Format(claude.SOURCE, claude.recognises, claude.parse),
    Format(open_webui.SOURCE, open_webui.recognises, open_webui.parse),
    Format(librechat.SOURCE, librechat.recognises, librechat.parse),
    Format(chatbot_ui.SOURCE, chatbot_ui.recognises, chatbot_ui.parse),
)
_BY_SOURCE = {each.source: each for each in FORMATS}


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
    if source == "auto":
        found = next((each for each in FORMATS if each.recognises(entry)), None)
        if found is None:
            raise UnusableEntry("it has the shape of no known export")
    else:
        found = _BY_SOURCE[source]
        if not found.recognises(entry):
            raise UnusableEntry(f"it has not the shape of an export of {source}")
    return found.parse(entry, all_branches=all_branches)
