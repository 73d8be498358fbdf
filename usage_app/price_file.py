"""Reads ``prices.json``, the prices that the user of the data directory sets.

::

    {"mine:*": {"input_per_million": 0.2, "output_per_million": 0.8}}

A name is that of a model with its provider in front; ``*`` matches any text. An exact name takes
precedence over patterns, and a longer pattern over a shorter one.
"""

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter

from models_app.language_model import Finished
from usage_app.entry_faults import Entry, read_entries
from usage_app.name_patterns import literal_but_stars

NAME = "prices.json"
_MILLION = 1_000_000
Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000_000)]


def _with_provider(name: str) -> str:
    if ":" not in name and name != "*":
        raise ValueError("has no provider in front, as in 'openai:gpt-5.1' or 'ollama:*'")
    return name


class ModelPrices(Entry):
    """The prices of a model, in US dollars per million tokens.

    Attributes:
        input_per_million: The price of prompt tokens.
        output_per_million: The price of completion tokens.
        cached_per_million: The price of prompt tokens read from the provider's cache; None for the
            price of all input.
        cache_write_per_million: The price of prompt tokens written to the provider's cache; None
            for the price of all input.
        cache_write_1h_per_million: The price of those that it keeps for an hour; None for the same.
    """

    input_per_million: Dollars
    output_per_million: Dollars
    cached_per_million: Dollars | None = None
    cache_write_per_million: Dollars | None = None
    cache_write_1h_per_million: Dollars | None = None

    def cost_of(self, tokens: Finished) -> Decimal | None:
        """Return the cost of a call; None if its tokens are unknown."""
        sent, answered = tokens.prompt_eval_count, tokens.eval_count
        if sent is None or answered is None:
            return None
        cached = min(tokens.cached_count or 0, sent)
        written = min(tokens.cache_write_count or 0, sent - cached)
        for_an_hour = min(tokens.cache_write_1h_count or 0, written)
        usual = self.input_per_million
        write = _or(self.cache_write_per_million, usual)
        total = (
            (sent - cached - written) * usual
            + cached * _or(self.cached_per_million, usual)
            + (written - for_an_hour) * write
            + for_an_hour * _or(self.cache_write_1h_per_million, write)
            + answered * self.output_per_million
        )
        return total / _MILLION


def _or(price: Decimal | None, usual: Decimal) -> Decimal:
    return usual if price is None else price


_PRICES = TypeAdapter(dict[Annotated[str, AfterValidator(_with_provider)], ModelPrices])


class PriceTable:
    """The prices of a file.

    Args:
        prices: The prices by names and patterns of models.
    """

    def __init__(self, prices: Mapping[str, ModelPrices]) -> None:
        self._exact = {name: each for name, each in prices.items() if "*" not in name}
        patterns = sorted((name for name in prices if "*" in name), key=len, reverse=True)
        self._patterns = [(literal_but_stars(name), prices[name]) for name in patterns]

    def __len__(self) -> int:
        """Return the number of models and patterns with prices."""
        return len(self._exact) + len(self._patterns)

    def find(self, name: str) -> ModelPrices | None:
        """Return the prices of a model, named with its provider."""
        found = self._exact.get(name)
        if found is not None:
            return found
        return next((each for pattern, each in self._patterns if fnmatchcase(name, pattern)), None)


NO_PRICES = PriceTable({})


def read_prices(path: Path) -> PriceTable:
    """Read the file; return an empty table if it does not exist. Blocks.

    Raises:
        InvalidFileError: It can't be used.
    """
    try:
        prices: dict[str, ModelPrices] = read_entries(path, _PRICES)
    except FileNotFoundError:
        return NO_PRICES
    return PriceTable(prices)
