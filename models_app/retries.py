"""Decides whether and when a request that failed before its first delta is retried."""

import random

from models_app.errors import ModelError

BACKOFFS = ((0.15, 0.4), (0.4, 0.75))
"""Shortest and longest pause before each retry, in seconds.

At most 1.2 together: an error must come while the answer can still be a plain HTTP error.
"""


class Retries:
    """Counts the retries of one request."""

    def __init__(self) -> None:
        self._backoffs = list(BACKOFFS)

    def pause_after(self, error: ModelError) -> float:
        """Return how many seconds to wait before the next retry, or raise the error.

        If the provider asks for a longer pause (``retry_after``) there is no retry: it would refuse
        that one too, and count it.
        """
        if not error.retryable or not self._backoffs:
            raise error
        shortest, longest = self._backoffs.pop(0)
        wanted = error.details.get("retry_after")
        if wanted is None:
            return random.uniform(shortest, longest)  # noqa: S311 - jitter
        if wanted > longest:
            raise error
        return random.uniform(max(shortest, wanted), longest)  # noqa: S311 - jitter
