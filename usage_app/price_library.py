"""Looks up prices in ``genai-prices``. Importing this module loads 1.7 MB of data in 0.3 s."""

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider

from models_app.language_model import Finished

_MOST_NAMES = 1000


class PriceLibrary:
    """The prices of the library, loaded by the constructor."""

    def __init__(self) -> None:
        self._look_up = lru_cache(maxsize=_MOST_NAMES)(_entry_of)
        # The library imports more with its first calculation.
        self.cost_of("openai", "gpt-5.1", Finished("stop", 1, 1))

    def cost_of(self, provider: str, model: str, tokens: Finished) -> Decimal | None:
        """Return the cost of a call now; None if the model or its tokens are unknown.

        Args:
            provider: A vendor, by the library's name.
            model: The model's name.
            tokens: The tokens, as counted by the vendor.
        """
        sent, answered = tokens.prompt_eval_count, tokens.eval_count
        found = self._look_up(provider, model)
        if found is None or sent is None or answered is None:
            return None
        cached = min(tokens.cached_count or 0, sent)
        written = min(tokens.cache_write_count or 0, sent - cached)
        usage = Usage(
            input_tokens=sent,
            output_tokens=answered,
            cache_read_tokens=cached,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(tokens.cache_write_1h_count or 0, written),
        )
        try:
            price = found[1].calc_price(usage, found[0], genai_request_timestamp=datetime.now(UTC))
        except (LookupError, ValueError):
            return None
        return price.total_price


def _entry_of(provider: str, model: str) -> tuple[Provider, ModelInfo] | None:
    """Return a model's entry; None if the library does not have it. Takes milliseconds."""
    try:
        return get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
