"""Runs the background worker: django-q2's cluster, in a separate process tree.

``python -m mochi_project.background.worker <lifeline>`` is started by ``supervisor.py``, by exec.
The lifeline is one end of a socket pair: the worker sends a byte when it runs. Its closing tells
the supervisor that the worker has ended, and the worker (even after ``kill -9``) that the
supervisor has, upon which it stops.

django-q2 forks a sentinel, which watches the others, and processes that fetch tasks, run them and
save their results. None outlives this process: each waits on a pipe whose other end only this
process has.
"""

import contextlib
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from mochi_project.memory.release import map_large_buffers
from sessions_app.errors import MochiError

if TYPE_CHECKING:
    from mochi_project.background.cluster import WholeCluster

RUNNING = b"."
NICENESS = 19
ASK_SECONDS = 1.0
logger = logging.getLogger(__name__)


class ForkWatch:
    """Ends all forked processes together with this process."""

    def __init__(self, lifeline: socket.socket) -> None:
        self._lifeline = lifeline
        self._read_end, self._write_end = os.pipe()

    def install(self) -> None:
        """Watch all forks from now on, including those of forked processes."""
        os.register_at_fork(after_in_child=self._in_child)

    def _in_child(self) -> None:
        self._lifeline.close()
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._read_end, 1)  # returns when the first process has ended
        os._exit(1)


def work(lifeline: socket.socket, stop_seconds: float) -> int:
    """Run tasks until a stop signal, or until the supervisor or a forked process dies.

    Args:
        lifeline: This end of the lifeline.
        stop_seconds: How long a running task may delay the end after the supervisor has died; a
            living supervisor enforces its own limit.

    Returns:
        The exit code: 0 if it was stopped.
    """
    import django  # noqa: PLC0415 - only this process may import it after reading its arguments

    django.setup()
    from django.conf import settings  # noqa: PLC0415 - set up now
    from django.db import DatabaseError  # noqa: PLC0415

    if settings.DATABASES:
        try:
            from mochi_project.background.database import prepare_queue_database  # noqa: PLC0415

            prepare_queue_database(Path(str(settings.DATABASES["default"]["NAME"])))
        except (DatabaseError, MochiError, OSError) as error:
            logger.error("the queue's database can't be made: %s", error)  # noqa: TRY400 - no bug
            return 1
    from mochi_project.background.cluster import WholeCluster  # noqa: PLC0415 - needs Django

    ForkWatch(lifeline).install()
    gc.collect()
    gc.freeze()  # keeps imported objects on memory pages shared with forked processes
    cluster = WholeCluster()
    cluster.start()
    return _supervise(cluster, lifeline, stop_seconds)


def _supervise(cluster: "WholeCluster", lifeline: socket.socket, stop_seconds: float) -> int:
    with contextlib.suppress(BrokenPipeError):  # the supervisor has ended, which poll reports, too
        lifeline.send(RUNNING)
    poller = (
        select.poll()
    )  # select() can't handle descriptors above 1,023, which a supervisor may pass
    poller.register(lifeline, select.POLLIN)
    # Not the sentinel's own pipe: its children inherit it and may outlive it.
    while cluster.sentinel.is_alive():
        keeper_is_gone = poller.poll(ASK_SECONDS * 1000)
        if keeper_is_gone:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, max(stop_seconds, 0.1))
            cluster.stop()
            return 0
    return 1


def main() -> None:
    """Run the worker; the arguments are the lifeline's descriptor and ``work``'s seconds."""
    os.umask(0o077)
    os.nice(NICENESS)  # chats have priority
    map_large_buffers()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mochi_project.settings")
    lifeline = socket.socket(fileno=int(sys.argv[1]))
    lifeline.set_inheritable(False)
    # No cleanup is needed, and the forked processes end with this one.
    os._exit(work(lifeline, float(sys.argv[2])))


if __name__ == "__main__":
    main()
