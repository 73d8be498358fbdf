"""Declares the error of chats that went another way in the client than in the session.

The tree::

    MochiError
      * ChatDiffers   CHAT_DIFFERS
"""

from sessions_app.errors import MochiError


class ChatDiffers(MochiError):
    """The client's messages are not those of the session: load them anew."""

    code = "CHAT_DIFFERS"

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} Load the messages of the chat, and send it again.")
