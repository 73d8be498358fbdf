"""Declares the port to the prices of models."""

import re
from decimal import Decimal
from typing import Protocol

from models_app.language_model import Finished

_MONEY = re.compile(r"[0-9]{1,15}(\.[0-9]{1,40})?", re.ASCII)


class Prices(Protocol):
    """Knows what model calls cost. Asked on the event loop, so it must not block."""

    def cost_of(self, provider: str, model: str, tokens: Finished, /) -> Decimal | None:
        """Return what a call costs in US dollars; None where that is not known, or not yet.

        Args:
            provider: The provider: ``ollama``, or a vendor's name.
            model: The model's name, without a provider in front.
            tokens: The tokens as the provider counted them.
        """
        ...


class NoPrices:
    """Knows no prices; implements ``Prices``."""

    def cost_of(self, provider: str, model: str, tokens: Finished, /) -> None:
        """Return None."""


NO_PRICES = NoPrices()


def money(amount: Decimal) -> str:
    """Return an amount as it is written: a decimal number without an exponent."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def read_money(text: str) -> Decimal | None:
    """Return an amount as ``money`` writes it; None where this is none."""
    return Decimal(text) if _MONEY.fullmatch(text) else None
