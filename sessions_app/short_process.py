"""Runs the ``main`` of a module of ours in a process that ends itself (docs/decisions/0117).

A regular expression or a schema of others can take hours, gigabytes, or the whole stack, and
while it does, other threads stand still.
"""

import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

CPU_SECONDS = 2
SECONDS = 5.0
"""The time of a process: of computing, and altogether on a busy machine."""

_MAX_MEMORY = 1 << 30
_ROOT = Path(__file__).parent.parent
_BOOTSTRAP = """\
import sys
from importlib import import_module
module, root = sys.argv[1:]
sys.path.append(root)
import_module(module).main()
"""


def answer_of(module: str, question: bytes) -> bytes:
    """Return what a module's ``main`` prints; the question is its standard input. Blocks.

    Raises:
        OSError: No process can be started.
        subprocess.SubprocessError: It took too long, or failed.
    """
    command = [sys.executable, "-P", "-c", _BOOTSTRAP, module, str(_ROOT)]
    return subprocess.run(  # noqa: S603 - our own module
        command, input=question, capture_output=True, timeout=SECONDS, check=True
    ).stdout


def limit_resources() -> None:
    """Limit the time and the memory of this process; called by ``main``, after its imports."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # not everywhere can addresses be limited
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    os.nice(10)
