"""Defines the settings of providers: ``MOCHI_PROVIDERS__<NAME>__...``."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator

from mochi_project.configuration.setting_types import HttpUrl
from models_app.vendors.registry import KNOWN_VENDORS, RESERVED_NAMES


class ProviderConfig(BaseModel):
    """``MOCHI_PROVIDERS__<NAME>__BASE_URL`` and ``..._API_KEY_ENV``.

    For a known vendor they override its address or the variable of its key; any other name is an
    OpenAI-compatible server, which needs a base URL.
    """

    base_url: HttpUrl | None
    api_key_env: str | None = None


def _known_vendors_need_no_base_url(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004 - pydantic's way
    known = {vendor.name for vendor in KNOWN_VENDORS}
    return {
        name: {"base_url": None, **item} if name in known and isinstance(item, dict) else item
        for name, item in value.items()
    }


def _names_are_free(value: dict[str, ProviderConfig]) -> dict[str, ProviderConfig]:
    for name in sorted(RESERVED_NAMES & value.keys()):
        raise ValueError(f"can't hold a provider named {name}")
    return value


Providers = Annotated[
    dict[str, ProviderConfig],
    BeforeValidator(_known_vendors_need_no_base_url),
    AfterValidator(_names_are_free),
]
"""Providers by name."""
