"""Records model calls in the ledger when they end."""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime

from models_app.model_calls import ModelCall, ModelCallStart
from usage_app.ledger import Ledger
from usage_app.prices import PriceList
from usage_app.record import record_of, tokens_of

logger = logging.getLogger(__name__)


class UsageRecorder:
    """Appends a record of each model call to the ledger; a ``ModelCallObserver``.

    A record is written before the end of the call is reported, so every answer that a client saw is
    in the ledger. If the disk is full or read-only, records are lost and counted, and calls
    continue.

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
        self._is_failing = False

    async def model_calling(self, start: ModelCallStart, /) -> None:
        """Load the prices of the provider, and open the file of the month."""
        if self._is_failing or self._prices.are_due(start.provider):
            await asyncio.to_thread(self._prepare, start)

    def model_called(self, call: ModelCall, /) -> None:
        """Record the call."""
        start = call.start
        price = self._prices.price_of(start.provider, start.model, tokens_of(call))
        try:
            self._ledger.append([record_of(call, price)])
        except OSError as error:
            self._note_loss(error)
        else:
            self._note_success()

    def _prepare(self, start: ModelCallStart) -> None:
        self._prices.load(start.provider)
        with suppress(OSError):  # the end of the call says it
            self._ledger.open(f"{datetime.now(UTC):%Y-%m}")

    def _note_loss(self, error: OSError) -> None:
        self.lost += 1
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
