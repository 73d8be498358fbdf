"""Names what people are told of, and when it is tried again. Pure."""

import msgspec

from chat.settings import NoticeEvent
from sessions_app.decoding import decode_as

TRIES = (0, 30, 120, 480, 1500, 3600)
"""The seconds after an event at which it is sent, until a receiver takes it."""


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """Names something that people are told of, by identifiers alone: what the queue holds.

    Attributes:
        event: What happened.
        owner: The owner of the session.
        session_id: The session.
        subject: The question, or the turn.
        since: When it was to be told first (Unix time).
        code: The code of the error, of a turn that failed.
    """

    event: NoticeEvent
    owner: str
    session_id: str
    subject: str
    since: int
    code: str = ""

    def __str__(self) -> str:
        """Return it as the argument of a task."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, argument: str) -> "Notice":
        """Return the notice of such an argument.

        Raises:
            msgspec.MsgspecError: It is none.
        """
        return decode_as(argument.encode(), cls)

    def next_try_after(self, seconds: float) -> float | None:
        """Return the time of the next try, in seconds since ``since``; None after the last."""
        return next((each for each in TRIES if each > seconds), None)
