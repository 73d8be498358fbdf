"""Computes the cost of model calls, by ``prices.json``, else by the library ``genai-prices``.

The library is imported in a thread with the first call of a vendor that it knows; it never uses the
network. Ollama's models are free; the cost of a model that neither knows is unknown, never 0.
"""

import logging
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from models_app.language_model import Finished
from models_app.prices import Prices
from models_app.vendors.registry import KNOWN_VENDORS
from usage_app.entry_faults import InvalidFileError, Stamp, stamp_of
from usage_app.price import Price
from usage_app.price_file import NO_PRICES, PriceTable, read_prices

if TYPE_CHECKING:
    from usage_app.price_library import PriceLibrary

logger = logging.getLogger(__name__)

VENDORS = frozenset(vendor.name for vendor in KNOWN_VENDORS)
"""The providers whose prices the library knows, by the same names; own ones it can't."""

FRESH_SECONDS = 2.0
"""The time that a change of ``prices.json`` may go unseen."""

_LOCAL = "ollama"
_FREE = Price(Decimal(0), "local")


class PriceList(Prices):
    """The prices of one process. Thread-safe.

    Args:
        path: ``prices.json``; changes apply from the next ``refresh`` on.

    Attributes:
        problem: Why the file is invalid; None if it is valid or missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: Stamp | tuple[()] = ()
        self._due = 0.0
        self._table: PriceTable = NO_PRICES
        self._library: PriceLibrary | None = None
        self._has_no_library = False
        self.problem: str | None = None

    @property
    def own(self) -> int:
        """The number of models and patterns with prices in the file."""
        return len(self._table)

    def cost_of(self, provider: str, model: str, tokens: Finished, /) -> Decimal | None:
        """Return the cost of a call in US dollars; None if it is unknown or not loaded yet."""
        price = self.price_of(provider, model, tokens)
        return None if price is None else price.amount

    def price_of(self, provider: str, model: str, tokens: Finished) -> Price | None:
        """Return the price of a call from the loaded prices; None if it is unknown."""
        own = self._table.find(f"{provider}:{model}")
        if own is not None:
            cost = own.cost_of(tokens)
            return None if cost is None else Price(cost, "prices.json")
        if provider == _LOCAL:
            return _FREE
        if provider not in VENDORS or self._library is None:
            return None
        cost = self._library.cost_of(provider, model, tokens)
        return None if cost is None else Price(cost, "genai-prices")

    def are_due(self, provider: str) -> bool:
        """Return whether the prices of a provider should be loaded or refreshed."""
        return time.monotonic() >= self._due or self._needs_library(provider)

    def load(self, provider: str) -> None:
        """Load the prices of a provider: read the file, import the library if needed. Blocks."""
        self.refresh()
        with self._lock:
            if not self._needs_library(provider):
                return
            try:
                from usage_app.price_library import PriceLibrary  # noqa: PLC0415 - 0.3 s

                self._library = PriceLibrary()
            except Exception:
                self._has_no_library = True
                logger.exception("genai-prices can't be used: vendors' prices are unknown")

    def refresh(self) -> None:
        """Read ``prices.json`` again if it has changed. Blocks for moments.

        If the file is invalid its prices are ignored; ``problem`` and the log say why.
        """
        with self._lock:
            stamp = stamp_of(self._path)
            if stamp != self._stamp:
                try:
                    self._table, self.problem = read_prices(self._path), None
                except InvalidFileError as error:
                    self._table, self.problem = NO_PRICES, str(error)
                    logger.error("%s Your prices are ignored until the file is fixed.", error)  # noqa: TRY400
                self._stamp = stamp
            self._due = time.monotonic() + FRESH_SECONDS

    def _needs_library(self, provider: str) -> bool:
        return provider in VENDORS and self._library is None and not self._has_no_library
