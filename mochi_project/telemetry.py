"""Declares what observes a process beside its log; without an app that does, nothing does."""


class Telemetry:
    """Observes nothing; the base of what does."""

    async def open(self) -> None:
        """Open resources in advance, so that the first turn need not wait."""

    async def flush(self) -> None:
        """Send observations, with a short time limit."""

    def sample(self, *, loop_lag: float, streams: int) -> None:
        """Record the event loop's delay in seconds and the number of listeners."""

    async def metrics(self, accept: str, *, queue_age: float | None) -> tuple[bytes, str] | None:  # noqa: ARG002
        """Return the metrics of all processes and their content type; None if there are none.

        Args:
            accept: The formats that the client accepts.
            queue_age: How many seconds the oldest due summary has been waiting.
        """
        return None
