"""Looks up prices in ``genai-prices``. Importing this module loads 1.7 MB of data in 0.3 s."""

from datetime import UTC, datetime
from decimal import Decimal

from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider

from models_app.language_model import Finished

_MOST_NAMES = 1000
_Found = tuple[Provider, ModelInfo] | None


class PriceLibrary:
    """The prices of the library, loaded by the constructor."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Found] = {}
        # The library imports more with its first calculation.
        self.cost_of("openai", "gpt-5.1", Finished("stop", 1, 1))

    def knows(self, provider: str, model: str) -> bool:
        """Return whether a model was looked up before; a lookup takes milliseconds."""
        return (provider, model) in self._found

    def look_up(self, provider: str, model: str) -> _Found:
        """Return a model's entry; None if the library does not have it."""
        key = provider, model
        if key in self._found:
            return self._found[key]
        try:
            found = get_snapshot().find_provider_model(model, None, provider, None)
        except LookupError:
            found = None
        if len(self._found) >= _MOST_NAMES:
            self._found = {}
        self._found[key] = found
        return found

    def cost_of(self, provider: str, model: str, tokens: Finished) -> Decimal | None:
        """Return the cost of a call now; None if the model or its tokens are unknown.

        Args:
            provider: A vendor, by the library's name.
            model: The model's name.
            tokens: The tokens, as counted by the vendor.
        """
        sent, answered = tokens.prompt_eval_count, tokens.eval_count
        found = self.look_up(provider, model)
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
