"""Defines the error messages that several places use, or that the API's schema shows."""

AUTHENTICATION_REQUIRED = (
    "Authentication required: send the header 'Authorization: Bearer <token>'."
)
KEY_ENDED = "This key has expired or was revoked: ask who runs the server for another one."
FOREIGN_PAGE = "Another site's page made this request; only its own pages may."
JSON_REQUIRED = "Bodies must be JSON in UTF-8: send the header 'Content-Type: application/json'."
TOO_MANY_LARGE_BODIES = "Too many large requests are being read already. Try again shortly."
SHUTTING_DOWN = "The server is shutting down."
INTERNAL_ERROR = "An unexpected error occurred in this server. Its log has the details."


def headers_too_large(limit: int) -> str:
    """Return the message for request headers that exceed ``limit`` bytes."""
    return f"The request's headers are larger than {limit} bytes."


def body_too_large(limit: int, variable: str = "MOCHI_MAX_BODY_BYTES") -> str:
    """Return the message for a body that exceeds ``limit`` bytes, set by ``variable``."""
    return f"The request's body is larger than {limit} bytes ({variable})."


def body_too_slow(seconds: float) -> str:
    """Return the message for a request body that takes longer than ``seconds`` to arrive."""
    return f"The request's body took longer than {seconds:g} seconds."
