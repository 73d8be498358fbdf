"""Declares what observes the changes of sessions."""


class SessionObserver:
    """Handles changes once they are made, in the thread that made them; does nothing by itself.

    Methods are quick and must not raise.
    """

    def created(self, session_id: str, /) -> None:
        """Handle a new session."""

    def changed(self, session_id: str, /) -> None:
        """Handle a session that has changed, or may have."""

    def deleted(self, session_id: str, /) -> None:
        """Handle a deleted session."""

    def turn_started(self, session_id: str, turn_id: str, /) -> None:
        """Handle a turn that has claimed its session."""

    def turn_ended(self, session_id: str, turn_id: str, /) -> None:
        """Handle a turn that has released its claim, or was recovered."""


UNOBSERVED = SessionObserver()
