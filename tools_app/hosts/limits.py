"""What a folder's hosts may use, and which folder that is."""

from pathlib import Path

import msgspec

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE


class HostedFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of user code.

    Attributes:
        path: Where it is.
        name: What the log calls it.
    """

    path: Path
    name: str


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on the hosts of one folder.

    Attributes:
        processes: Workers at once, thus calls at once; further calls wait.
        memory_bytes: Address space of a worker and of each process that it starts, where the
            system can limit it; None for no limit.
        import_seconds: How long importing one module may take.
        loading_seconds: How long all attempts to load the folder may take together.
        loading_attempts: How many processes may be spent on loading the folder, each of which
            finds one module that hangs or ends its process.
        start_seconds: How long a new host may take before it begins to load.
        idle_seconds: When a worker without work ends, as long as another one is there.
        last_idle_seconds: When the last worker without work ends.
        kill_seconds: How long the processes of a host that was told to end may take before the
            server itself kills what it knows of them.
        log_bytes: How much of what is printed during a call is logged.
        log_lines: How many lines of it are logged.
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
