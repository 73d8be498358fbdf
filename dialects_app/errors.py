"""Declares the error of protocols whose clients send the whole conversation.

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
