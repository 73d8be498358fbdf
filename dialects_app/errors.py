"""Declares the errors of protocols whose clients send the conversation as they have it."""

from sessions_app.errors import MochiError


class HistoryDiffers(MochiError):
    """The client has another conversation than the session, which went on without it."""

    code = "HISTORY_DIFFERS"

    def __init__(self, field: str) -> None:
        super().__init__(
            "The conversation that was sent is not the one that is kept. Get its messages anew.",
            field=field,
        )
