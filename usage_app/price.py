"""Defines the price of a model call. Pure."""

from decimal import Decimal
from typing import Literal

import msgspec

from models_app.prices import money

PriceSource = Literal["prices.json", "genai-prices", "local"]
"""The origins of a price: the user's file, the library, or Ollama, whose models are free."""


class Price(msgspec.Struct, frozen=True):
    """The cost of a model call in US dollars, and its origin."""

    amount: Decimal
    source: PriceSource

    @property
    def text(self) -> str:
        """The amount as it is written: a decimal number."""
        return money(self.amount)
