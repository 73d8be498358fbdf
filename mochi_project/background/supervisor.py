"""Keeps the background worker running beside this process, if no other process does.

The worker is started by exec and looked after by a thread, which sleeps unless something happens:
the process that serves requests never forks and never waits.
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
from collections.abc import Mapping
from typing import Protocol

from mochi_project.background.lock import WORKER_LOCK_FILE, WorkerLock, WorkerState
from mochi_project.configuration.child_environment import with_own_code
from mochi_project.configuration.config import MochiSettings

logger = logging.getLogger(__name__)

TAKE_OVER_SECONDS = 2.0
CHORES_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 30.0


class Chores(Protocol):
    """The tasks that run beside the worker."""

    def __call__(self, *, worker_is_new: bool) -> object:
        """Do it; ``worker_is_new`` says that a worker of this keeper has come up."""
        ...


class WorkerSupervisor:
    """Takes the worker's lock when it is free, and runs the worker while it has it.

    Args:
        settings: The configuration that the worker shall have too.
        chores: Called in the thread of this, with ``worker_is_new=True`` when a worker has come up,
            and with False now and then while it runs.
        chores_seconds: How often.
    """

    def __init__(
        self, settings: MochiSettings, chores: Chores, *, chores_seconds: float = CHORES_SECONDS
    ) -> None:
        self._settings = settings
        self._chores = chores
        self._chores_seconds = chores_seconds
        self._lock = WorkerLock(settings.resolved_private_dir / WORKER_LOCK_FILE)
        self._bell, self._ring = socket.socketpair()
        self._stopped = threading.Event()
        self._complaint = ""
        self._restarts = 0
        self._thread = threading.Thread(target=self._run, name="worker-supervisor", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the worker, if it is ours, and wait for that: for a running task a limited time."""
        self._stopped.set()
        self._ring.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._bell.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            while not self._stopped.is_set():
                try:
                    if self._lock.acquire():
                        self._keep(selector)
                except OSError as error:
                    self._complain(error)
                finally:
                    self._lock.release()
                self._sleep(selector, TAKE_OVER_SECONDS)

    def _complain(self, error: OSError) -> None:
        """Log why the worker can't be kept; once, it is tried again every two seconds."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            logger.error("the background worker can't be kept; it is tried again: %s", error)

    def _keep(self, selector: selectors.BaseSelector) -> None:
        """Run one worker after another, as long as the lock is ours."""
        pause = 0.5
        while self._lock.is_held and not self._stopped.is_set():
            self._note(WorkerState(keeper=os.getpid(), restarts=self._restarts))
            began = time.monotonic()
            self._run_worker(selector)
            if self._stopped.is_set() or not self._lock.is_held:
                return
            pause = 0.5 if time.monotonic() - began > HEALTHY_SECONDS else pause * 2
            pause = min(pause, LONGEST_PAUSE_SECONDS)
            self._restarts += 1
            self._note(WorkerState(phase="broken", keeper=os.getpid(), restarts=self._restarts))
            logger.error("the background worker ended by itself; another starts in %g s", pause)
            self._sleep(selector, pause)

    def _run_worker(self, selector: selectors.BaseSelector) -> None:
        """Run one worker until it ends, until we stop, or until the lock is removed."""
        worker = _Worker(self._settings)
        selector.register(worker.lifeline, selectors.EVENT_READ)
        running = False
        is_new = True
        next_chores = 0.0
        pause = min(TAKE_OVER_SECONDS, self._chores_seconds)
        try:
            while not self._stopped.is_set() and self._lock.is_held:
                ready = {key.fileobj for key, _ in selector.select(pause)}
                if worker.lifeline in ready:
                    if not worker.lifeline.recv(64):
                        return
                    running = True
                    self._note(
                        WorkerState(phase="running", keeper=os.getpid(), restarts=self._restarts)
                    )
                if running and time.monotonic() >= next_chores:
                    next_chores = time.monotonic() + self._chores_seconds
                    is_new = not self._do_chores(worker_is_new=is_new) and is_new
        finally:
            selector.unregister(worker.lifeline)
            worker.end(self._settings.shutdown_grace_seconds)

    def _do_chores(self, *, worker_is_new: bool) -> bool:
        """Return whether they were done."""
        try:
            self._chores(worker_is_new=worker_is_new)
        except Exception:
            logger.exception("the worker's chores failed; they are tried again")
            return False
        return True

    def _note(self, state: WorkerState) -> None:
        try:
            self._lock.note(state)
        except OSError as error:  # a full disk: others see a worker that is still starting
            logger.warning("the worker's state can't be written down: %s", error)

    def _sleep(self, selector: selectors.BaseSelector, seconds: float) -> None:
        if not self._stopped.is_set():
            selector.select(seconds)


class _Worker:
    """Holds one worker's process tree and our end of its lifeline."""

    def __init__(self, settings: MochiSettings) -> None:
        self.lifeline, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [
                        *(sys.executable, "-P", "-m", "mochi_project.background.worker"),
                        *(str(theirs.fileno()), str(settings.shutdown_grace_seconds)),
                    ],
                    env=worker_environment(settings, os.environ),
                    pass_fds=[theirs.fileno()],
                    process_group=0,  # CTRL-C is for us, who tell it once
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
        except BaseException:
            self.lifeline.close()
            raise

    def end(self, seconds: float) -> None:
        """End the whole tree; what still runs after so many seconds is killed."""
        if not self._is_gone(0):
            self._process.send_signal(signal.SIGTERM)
            self._is_gone(seconds)
        # Not waited for yet, so the number of the group can't be another one's.
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: zombies only
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.lifeline.close()

    def _is_gone(self, seconds: float) -> bool:
        """Wait for the end of the lifeline, which the forked processes do not have."""
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


def worker_environment(settings: MochiSettings, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a worker is configured as this process is.

    In test mode that means this process's scripted model and temporary data directory.
    """
    environment = {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "mochi_project.settings",
        "MOCHI_DATA_DIR": str(settings.resolved_data_dir),
        "MOCHI_OLLAMA_HOST": settings.ollama_host,
    }
    if settings.test_mode:
        for name, provider in settings.providers.items():
            if provider.base_url:
                environment[f"MOCHI_PROVIDERS__{name.upper()}__BASE_URL"] = provider.base_url
    return with_own_code(environment)
