"""How much a server may say, and how long it may take."""

import msgspec

MAX_MESSAGE_BYTES = 8 << 20
"""One message of a server. A longer one costs the connection, or over HTTP the call."""
MAX_TOOLS = 500
"""Tools of one server; those beyond are left out."""
MAX_LISTING_BYTES = 1 << 20
"""Names, descriptions and schemas of one server's tools; those beyond are left out."""


class McpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Times, in seconds.

    Attributes:
        call: What a call may take without a sign of progress.
        calls_at_most: What a call may take in all, however much progress it tells, as a multiple
            of ``call``.
        start: What starting a server may take, its list of tools included: some commands first
            download the server.
        need: How long somebody who needs a server waits for it to start.
        glance: How long somebody who wants to see all tools waits for servers that start.
        patience: How long a pause somebody who needs a server sits out.
        first_pause: The pause after a first failure; it doubles with each further one.
        longest_pause: The longest pause.
        proven: A server that worked for so long begins with the first pause again.
        between_listings: The least time between two looks at a server's changed tools.
        close: What ending a server may take.
    """

    call: float = 60.0
    calls_at_most: int = 10
    start: float = 60.0
    need: float = 10.0
    glance: float = 2.0
    patience: float = 2.0
    first_pause: float = 1.0
    longest_pause: float = 60.0
    proven: float = 60.0
    between_listings: float = 1.0
    close: float = 8.0
