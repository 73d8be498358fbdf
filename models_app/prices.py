"""Declares the prices of models, of which an app may know some."""

import re
from decimal import Decimal

from models_app.language_model import Finished

_MONEY = re.compile(r"[0-9]{1,15}(\.[0-9]{1,40})?", re.ASCII)


class Prices:
    """Provides the costs of model calls; knows none by itself.

    Called on the event loop, so it must not block.
    """

    def cost_of(self, provider: str, model: str, tokens: Finished, /) -> Decimal | None:  # noqa: ARG002 - of those that know
        """Return the cost of a call in US dollars; None if it is unknown or not loaded yet.

        Args:
            provider: The provider: ``ollama``, or a vendor's name.
            model: The model's name, without its provider.
            tokens: The tokens as the provider counted them.
        """
        return None


NO_PRICES = Prices()


def money(amount: Decimal) -> str:
    """Return an amount as it is written: a decimal number without an exponent."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def read_money(text: str) -> Decimal | None:
    """Parse an amount in the format of ``money``; None if it is not one."""
    return Decimal(text) if _MONEY.fullmatch(text) else None
