"""Supervises the background worker, if no other process does.

The worker is started by exec and supervised by a thread that sleeps until an event, so the process
that serves requests never forks or blocks.
"""

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO

from django.conf import settings as django_settings

from mochi_project.background.worker_state import WORKER_LOCK_FILE, Phase, WorkerState, write_state
from mochi_project.configuration.child_environment import with_own_code
from mochi_project.configuration.config import ServerSettings
from models_app.settings import ModelsSettings
from sessions_app.deadline import NEVER, Deadline
from sessions_app.errors import MochiError
from sessions_app.store.holder import Holder

logger = logging.getLogger(__name__)

TAKE_OVER_SECONDS = 2.0
CHORES_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 30.0


Chores = Callable[..., object]
"""Runs the tasks beside the worker; ``worker_is_new`` tells that a worker has just started."""


class WorkerSupervisor:
    """Takes the worker's lock when it is free, and runs the worker while holding it.

    Args:
        settings: The configuration, also for the worker.
        chores: Called in the supervisor's thread, with ``worker_is_new=True`` when a worker has
            started, and with False regularly while it runs.
        chores_seconds: The interval of these calls.
        deadline: The deadline of this process, and so of the worker's task.
    """

    def __init__(
        self,
        settings: ServerSettings,
        chores: Chores,
        *,
        chores_seconds: float = CHORES_SECONDS,
        deadline: Deadline = NEVER,
    ) -> None:
        self._settings = settings
        self._deadline = deadline
        self._chores = chores
        self._chores_seconds = chores_seconds
        self._path = settings.resolved_private_dir / WORKER_LOCK_FILE
        self._bell, self._ring = socket.socketpair()
        self._stopped = threading.Event()
        self._complaint = ""
        self._restarts = 0
        self._thread = threading.Thread(target=self._run, name="worker-supervisor", daemon=True)

    def start(self) -> None:
        """Start the supervisor's thread."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Stop supervising and tell our worker to end, which has a limited time for its task."""
        self._stopped.set()
        self._ring.close()

    def stop(self) -> None:
        """Stop supervising, and wait until our worker has ended."""
        self.begin_stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._bell.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._stopped.is_set():
                try:
                    holder = Holder.take(self._path)
                    if holder is not None:
                        try:
                            self._keep(holder, selector)
                        finally:
                            holder.release()
                except OSError as error:
                    self._complain(error)
                self._sleep(selector, TAKE_OVER_SECONDS)

    def _complain(self, error: OSError) -> None:
        """Log once why the worker can't be supervised, which is retried every two seconds."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.error("the background worker can't be supervised, retrying: %s", error)

    def _keep(self, holder: Holder, selector: selectors.BaseSelector) -> None:
        """Run one worker after another while holding the lock."""
        pause = 0.5
        while holder.is_in_place and not self._stopped.is_set():
            self._note(holder, "starting")
            began = time.monotonic()
            self._run_worker(holder, selector)
            if self._stopped.is_set() or not holder.is_in_place:
                return
            pause = 0.5 if time.monotonic() - began > HEALTHY_SECONDS else pause * 2
            pause = min(pause, LONGEST_PAUSE_SECONDS)
            self._restarts += 1
            self._note(holder, "broken")
            logger.error("the background worker ended unexpectedly; restarting in %g s", pause)
            self._sleep(selector, pause)

    def _run_worker(self, holder: Holder, selector: selectors.BaseSelector) -> None:
        """Run one worker until it ends, the supervisor is stopped, or the lock is removed."""
        worker = _Worker(self._settings)
        selector.register(worker.lifeline, selectors.EVENT_READ)
        running = False
        is_new = True
        next_chores = 0.0
        pause = min(TAKE_OVER_SECONDS, self._chores_seconds)
        try:
            while not self._stopped.is_set() and holder.is_in_place:
                ready = {key.fileobj for key, _ in selector.select(pause)}
                if worker.lifeline in ready:
                    if not worker.lifeline.recv(64):
                        return
                    running = True
                    self._note(holder, "running")
                if running and time.monotonic() >= next_chores:
                    next_chores = time.monotonic() + self._chores_seconds
                    is_new = not self._do_chores(worker_is_new=is_new) and is_new
        finally:
            selector.unregister(worker.lifeline)
            worker.end(self._settings.shutdown_grace_seconds, self._deadline)

    def _do_chores(self, *, worker_is_new: bool) -> bool:
        """Run the chores; return whether they succeeded."""
        try:
            self._chores(worker_is_new=worker_is_new)
        except Exception as error:
            logger.log(
                logging.ERROR,
                "the worker's chores failed; they will be retried: %s",
                error,
                exc_info=not isinstance(error, MochiError | OSError),
            )
            return False
        return True

    def _note(self, holder: Holder, phase: Phase) -> None:
        state = WorkerState(phase=phase, keeper=os.getpid(), restarts=self._restarts)
        try:
            write_state(holder, state)
        except OSError as error:  # a full disk: other processes see a worker that is starting
            logger.warning("the worker's state can't be written: %s", error)

    def _sleep(self, selector: selectors.BaseSelector, seconds: float) -> None:
        if not self._stopped.is_set():
            selector.select(seconds)


class _Worker:
    """A worker's process tree and the supervisor's end of its lifeline."""

    def __init__(self, settings: ServerSettings) -> None:
        self.lifeline, theirs = socket.socketpair()
        keeps_logging = django_settings.LOGGING_CONFIG is None  # a program that embeds the server
        quiet = {"MOCHI_LOG_LEVEL": "WARNING", "MOCHI_LOG_FORMAT": "text"} if keeps_logging else {}
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [
                        *(sys.executable, "-P", "-m", "mochi_project.background.worker"),
                        *(str(theirs.fileno()), str(settings.shutdown_grace_seconds)),
                    ],
                    env=worker_environment(settings, os.environ) | quiet,
                    pass_fds=[theirs.fileno()],
                    process_group=0,  # CTRL-C goes to this process only, which passes it on
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE if keeps_logging else None,
                )
            if self._process.stderr:
                threading.Thread(target=_log, args=[self._process.stderr], daemon=True).start()
        except BaseException:
            self.lifeline.close()
            raise

    def end(self, seconds: float, deadline: Deadline) -> None:
        """End the process tree; kill it if it still runs after this time, or at the deadline."""
        if not self._is_gone(0):
            self._process.send_signal(signal.SIGTERM)
            self._is_gone(deadline.within(seconds))
        # The process is not reaped yet, so its group id can't have been reused.
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: zombies only
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.lifeline.close()

    def _is_gone(self, seconds: float) -> bool:
        """Wait for the lifeline to close, which the worker's forked processes do not inherit."""
        deadline = time.monotonic() + seconds
        while True:
            self.lifeline.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                if not self.lifeline.recv(64):
                    return True
            except TimeoutError:
                return False
            except OSError:  # reset
                return True


def _log(stderr: IO[bytes]) -> None:
    with stderr:
        for line in stderr:
            logger.warning("the background worker: %s", line.decode(errors="replace").rstrip())


def worker_environment(settings: ServerSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that configures a worker like this process.

    In test mode this includes the scripted model and the temporary data directory.
    """
    models = settings.of(ModelsSettings)
    environment = {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "mochi_project.settings",
        "MOCHI_DATA_DIR": str(settings.resolved_data_dir),
        "MOCHI_OLLAMA_HOST": models.ollama_host,
    }
    if settings.test_mode:
        for name, provider in models.providers.items():
            if provider.base_url:
                environment[f"MOCHI_PROVIDERS__{name.upper()}__BASE_URL"] = provider.base_url
    return with_own_code(environment)
