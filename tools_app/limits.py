"""Bounds tools: the size of their outputs, and the processes that run a folder.

The longest time of one call is a setting, ``MOCHI_TOOL_TIMEOUT_SECONDS``.
"""

from pathlib import Path

import msgspec

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE

MAX_OUTPUT_BYTES = 64 * KIBIBYTE
"""A tool's output is cut to this size (as UTF-8)."""


class ToolFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder with users' functions.

    Attributes:
        path: Its path.
        name: Its name in the log.
    """

    path: Path
    name: str


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on the hosts of one folder.

    Attributes:
        processes: Tool processes at once, thus calls at once; further calls wait.
        memory_bytes: Address space of a tool process and of each process that it starts, where the
            system can limit it; None for no limit.
        import_seconds: How long importing one module may take.
        loading_seconds: How long all attempts to load the folder may take together.
        loading_attempts: How many processes may be used up by loading the folder; each finds one
            module that hangs or ends its process.
        start_seconds: How long a new host may take before it begins to load.
        idle_seconds: How long a tool process stays without work while there is another one.
        last_idle_seconds: How long the last tool process stays without work.
        kill_seconds: How long a host may take to end before the server itself kills the processes
            that it knows of.
        log_bytes: How many bytes of a call's output are logged.
        log_lines: How many lines of a call's output are logged.
    """

    processes: int = 8
    memory_bytes: int | None = 4096 * MEBIBYTE
    import_seconds: float = 10.0
    loading_seconds: float = 60.0
    loading_attempts: int = 50
    start_seconds: float = 30.0
    idle_seconds: float = 60.0
    last_idle_seconds: float = 300.0
    kill_seconds: float = 5.0
    log_bytes: int = 64 * KIBIBYTE
    log_lines: int = 1000
