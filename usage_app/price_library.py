"""Asks ``genai-prices``, which is imported with this module: 1.7 MB of data, 0.3 seconds."""

from datetime import UTC, datetime
from decimal import Decimal

from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, Provider

from models_app.language_model import Finished

_MOST_NAMES = 1000
_found: dict[tuple[str, str], tuple[Provider, ModelInfo] | None] = {}


def cost_of(provider: str, model: str, tokens: Finished) -> Decimal | None:
    """Return what a call costs now; None where the model or the tokens are not known.

    Args:
        provider: A vendor, by the library's name.
        model: The model's name.
        tokens: The tokens as the vendor counted them.
    """
    sent, answered = tokens.prompt_eval_count, tokens.eval_count
    found = _find(provider, model)
    if found is None or sent is None or answered is None:
        return None
    cached = min(tokens.cached_count or 0, sent)
    usage = Usage(
        input_tokens=sent,
        output_tokens=answered,
        cache_read_tokens=cached,
        cache_write_tokens=min(tokens.cache_write_count or 0, sent - cached),
    )
    try:
        price = found[1].calc_price(usage, found[0], genai_request_timestamp=datetime.now(UTC))
    except (LookupError, ValueError):
        return None
    return price.total_price


def _find(provider: str, model: str) -> tuple[Provider, ModelInfo] | None:
    key = provider, model
    try:
        return _found[key]
    except KeyError:
        pass
    try:
        found = get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        found = None
    if len(_found) >= _MOST_NAMES:
        _found.clear()
    _found[key] = found
    return found


get_snapshot()
