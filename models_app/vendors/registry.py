"""Lists the known vendors and makes vendors from the configuration. Cheap to import."""

import msgspec

from models_app.vendors.anthropic import Anthropic
from models_app.vendors.compatible import CompatibleServer
from models_app.vendors.google import Google
from models_app.vendors.openai import OpenAI
from models_app.vendors.openrouter import OpenRouter
from models_app.vendors.vendor import Api, Vendor

KNOWN_VENDORS: tuple[Vendor, ...] = (OpenAI(), Anthropic(), Google(), OpenRouter())
"""The vendors that need no configuration but a key."""

RESERVED_NAMES = frozenset({"ollama", "profile", "agent"})
"""Prefixes of model names that no configured provider may take."""


def make_vendor(
    name: str, *, base_url: str | None, key_variable: str | None, api: Api = "auto"
) -> Vendor:
    """Return the vendor that an entry of the configuration describes.

    A known name changes that vendor; any other is an OpenAI-compatible server. A configured address
    gets only the key that the configuration names: the vendor's usual key must not reach another
    host.

    Raises:
        ValueError: The name is reserved, or an unknown provider has no address.
    """
    if name in RESERVED_NAMES:
        raise ValueError(f"'{name}' can't be the name of a provider")
    named = (key_variable,) if key_variable else ()
    known = next((vendor for vendor in KNOWN_VENDORS if vendor.name == name), None)
    if known is not None:
        keys = named if base_url else named or known.key_variables
        address = base_url or known.base_url
        return msgspec.structs.replace(known, base_url=address, key_variables=keys, api=api)
    if base_url is None:
        raise ValueError(f"the provider '{name}' needs a base URL")
    return CompatibleServer(name=name, base_url=base_url, key_variables=named, api=api)
