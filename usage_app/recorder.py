"""Records model calls in the ledger when they end; slow work is done in a thread."""

import asyncio
import atexit
import logging
import os
import threading
from queue import Empty, SimpleQueue

from models_app.model_calls import ModelCall, ModelCallStart
from usage_app.ledger import Ledger, MonthFile
from usage_app.prices import PriceList
from usage_app.record import UsageRecord, record_of, tokens_of

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0


class UsageRecorder:
    """Appends a record of each model call to the ledger; a ``ModelCallObserver``.

    A record is written before the end of the call is reported, so every answer that a client saw is
    in the ledger. A thread loads prices and opens files; it starts with the first call. If the disk
    is full or read-only, records are lost and counted, and calls continue.

    Args:
        ledger: Where the records go.
        prices: What the calls cost. They are loaded when a call begins, so that they are there when
            it ends.

    Attributes:
        lost: The number of records that could not be written.
    """

    def __init__(self, ledger: Ledger, prices: PriceList) -> None:
        self.lost = 0
        self._ledger = ledger
        self._prices = prices
        self._queue: SimpleQueue[ModelCallStart | ModelCall | threading.Event | None] = (
            SimpleQueue()
        )
        self._file: MonthFile | None = None
        self._thread: threading.Thread | None = None
        self._process: int | None = None  # the one in which it runs: a fork has it, but not running
        self._starting = threading.Lock()
        self._is_failing = False

    async def model_calling(self, start: ModelCallStart, /) -> None:
        """Start loading the prices of the model."""
        if not self._is_running():
            await asyncio.to_thread(self._begin)
        if self._prices.are_due(start.provider, start.model):
            self._queue.put(start)

    def model_called(self, call: ModelCall, /) -> None:
        """Record the call; in the thread if its price or the file is not loaded yet."""
        start, file = call.start, self._file
        if file is None or self._prices.are_due(start.provider, start.model):
            self._queue.put(call)
            return
        record = self._record(call)
        try:
            if record.month != file.month or not file.is_there:
                self._queue.put(call)
                return
            file.append([record])
        except OSError as error:
            self._note_loss(error, 1)
        else:
            self._note_success()

    def flush(self) -> None:
        """Wait until all calls that have ended are recorded or lost. Blocks."""
        if self._is_running():
            done = threading.Event()
            self._queue.put(done)
            done.wait(_CLOSE_SECONDS)

    def close(self) -> None:
        """Record what is left and stop the thread; a later call restarts it. Blocks."""
        with self._starting:
            thread = self._thread
            if thread is not None and self._is_running():
                self._queue.put(None)
                thread.join(_CLOSE_SECONDS)
            if thread is None or not thread.is_alive():
                self._process = None
            self._file = None  # the loop may write to it at this moment: closed by its last user

    def _is_running(self) -> bool:
        return self._process == os.getpid()

    def _begin(self) -> None:
        self._prices.refresh()  # so that not even the first answer misses them
        self._start()

    def _start(self) -> None:
        with self._starting:
            if self._is_running():
                return
            thread = threading.Thread(target=self._run, name="usage ledger", daemon=True)
            thread.start()
            if self._thread is None:
                atexit.register(self.close)
            self._thread, self._process = thread, os.getpid()

    def _run(self) -> None:
        while True:
            items = [self._queue.get()]
            try:
                while items[-1] is not None:
                    items.append(self._queue.get_nowait())
            except Empty:
                pass
            try:
                self._handle(
                    [item for item in items if isinstance(item, ModelCallStart | ModelCall)]
                )
            except Exception:
                logger.exception("model calls were not recorded")
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()
            if items[-1] is None:
                return

    def _handle(self, items: list[ModelCallStart | ModelCall]) -> None:
        for item in items:
            start = item if isinstance(item, ModelCallStart) else item.start
            self._prices.load(start.provider, start.model)
        records = [self._record(item) for item in items if isinstance(item, ModelCall)]
        if not records:
            return
        try:
            self._ledger.append(records)
            self._keep_open(records[-1].month)
        except OSError as error:
            self._note_loss(error, len(records))
        else:
            self._note_success()

    def _keep_open(self, month: str) -> None:
        """Open the file of the current month, for the next calls."""
        file = self._file
        if file is None or file.month != month or not file.is_there:
            self._file = self._ledger.open(month)

    def _record(self, call: ModelCall) -> UsageRecord:
        start = call.start
        return record_of(call, self._prices.price_of(start.provider, start.model, tokens_of(call)))

    def _note_loss(self, error: OSError, count: int) -> None:
        self.lost += count
        if not self._is_failing:
            self._is_failing = True
            logger.error(
                "usage is not recorded: %s can't be written to (%s)",
                self._ledger.directory,
                error.strerror or error,
            )

    def _note_success(self) -> None:
        if self._is_failing:
            self._is_failing = False
            logger.warning("usage is recorded again; %d calls were not", self.lost)
