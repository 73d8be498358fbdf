"""Declares the error of protocols whose clients send the conversation as they have it.

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
