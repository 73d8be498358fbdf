"""Defines limits on the size and the time of a server's messages."""

import msgspec

from sessions_app.bounds import MOST_HISTORY_VALUES

MAX_MESSAGE_BYTES = 8 << 20
"""Size of one message; a longer one ends the connection, or over HTTP the call."""
MAX_BATCH = 1000
"""Number of messages that are sent at once."""
MAX_VALUES = MOST_HISTORY_VALUES
"""Number of JSON values in one message; to parse more would hold others up."""
MAX_BLOCKS = 1000
"""Number of blocks of a result; further ones are left out."""
MAX_LINK_BYTES = 64 << 10
"""Size of the addresses of resources that a session keeps of one result."""
MAX_TOOLS = 500
"""Number of tools of one server; further ones are left out."""
MAX_ENTRIES = 500
"""Number of prompts, or of resources, of one server; further ones are left out."""
MAX_LISTING_BYTES = 1 << 20
"""Size of names, descriptions and schemas of one server; further tools are left out."""


class McpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times, in seconds.

    Attributes:
        call: How long a call may take without progress.
        call_factor: How long a call may take in all, as a multiple of ``call``.
        start: How long the start of a server may take, its list of tools included: some commands
            first download the server.
        start_wait: How long a caller that needs a server waits for its start.
        listing_wait: How long a listing of all tools waits for servers that start.
        pause_wait: The longest pause that a caller that needs a server waits for.
        first_pause: The pause after a first failure; it doubles with each further one.
        longest_pause: The longest pause.
        stable_after: How long a server must have worked to begin with the first pause again.
        between_listings: The least time between two listings of a server's changed tools.
        close: How long the end of a server may take.
    """

    call: float = 60.0
    call_factor: int = 10
    start: float = 60.0
    start_wait: float = 10.0
    listing_wait: float = 2.0
    pause_wait: float = 2.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    stable_after: float = 60.0
    between_listings: float = 1.0
    close: float = 8.0
