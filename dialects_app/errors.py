"""Declares the errors of these protocols, and why a URL was not fetched.

The tree::

    MochiError
      * ChatDiffers   CHAT_DIFFERS
"""

from sessions_app.errors import MochiError


class ChatDiffers(MochiError):
    """The client's messages differ from the session: reload them."""

    code = "CHAT_DIFFERS"

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} Load the messages of the chat, and send it again.")


class FetchRefused(Exception):
    """A URL must not be fetched; the message says why."""


class FetchFailed(Exception):
    """A URL could not be fetched; the message says why."""
