"""Who else runs models: name, address, and where the key is found. Nothing heavy is imported."""

import os
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from models_app.errors import Unauthorized

VendorKind = Literal["anthropic", "google", "openai", "openrouter", "compatible"]
"""Which protocol a vendor speaks; ``compatible`` is OpenAI's Chat Completions elsewhere."""

KeyLookup = Callable[[str], str | None]
"""From the name of an environment variable to its value."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A provider other than Ollama.

    Attributes:
        name: What stands in front of the colon of a model's name.
        kind: Which protocol it speaks.
        base_url: Where it is, without a slash at its end.
        key_variables: Environment variables that may hold the key, the first that is set counts;
            none for a server that needs no key.
    """

    name: str
    kind: VendorKind
    base_url: str
    key_variables: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine, so that no proxy may come between."""
        host = urlsplit(self.base_url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")

    def key(self, look_up: KeyLookup = os.environ.get) -> str | None:
        """Return the key, or None where none is set."""
        for variable in self.key_variables:
            if value := (look_up(variable) or "").strip():
                return value
        return None

    def is_configured(self, look_up: KeyLookup = os.environ.get) -> bool:
        """Whether it can be asked: its key is there, or it needs none."""
        return not self.key_variables or self.key(look_up) is not None

    def require_key(self, look_up: KeyLookup = os.environ.get) -> str | None:
        """Return the key; None where none is needed.

        Raises:
            Unauthorized: None is set, or what is set can't be a key; the message names the
                variable.
        """
        key = self.key(look_up)
        if key is not None and not (key.isascii() and key.isprintable()):
            # Refused here, without it: what an HTTP client says of such a header quotes it.
            names = " or ".join(self.key_variables)
            raise Unauthorized(
                f"The API key for '{self.name}' in {names} holds characters that no key has, such "
                "as a line break: set it again and restart the server.",
                provider=self.name,
                variables=list(self.key_variables),
            )
        if key is None and self.key_variables:
            names = " or ".join(self.key_variables)
            raise Unauthorized(
                f"There is no API key for '{self.name}': set {names} in the environment of the "
                "server and start it again.",
                provider=self.name,
                variables=list(self.key_variables),
            )
        return key


KNOWN_VENDORS = (
    Vendor(
        name="openai",
        kind="openai",
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
    ),
    Vendor(
        name="anthropic",
        kind="anthropic",
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
    ),
    Vendor(
        name="google",
        kind="google",
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    Vendor(
        name="openrouter",
        kind="openrouter",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
    ),
)
"""The vendors that need no configuration but a key."""

RESERVED_NAMES = frozenset({"ollama", "profile"})
"""Names that no provider of one's own may have."""


def make_vendor(name: str, *, base_url: str | None, key_variable: str | None) -> Vendor:
    """Return the vendor that a piece of configuration describes.

    A known name changes that vendor; any other is an OpenAI-compatible server. At an address of
    one's own only the key that the configuration names is sent: the vendor's usual one must not
    reach another host.

    Raises:
        ValueError: The name is reserved, or a server of one's own has no address.
    """
    if name in RESERVED_NAMES:
        raise ValueError(f"'{name}' can't be the name of a provider")
    named = (key_variable,) if key_variable else ()
    known = next((vendor for vendor in KNOWN_VENDORS if vendor.name == name), None)
    if known is not None:
        if base_url is None:
            return msgspec.structs.replace(known, key_variables=named or known.key_variables)
        return msgspec.structs.replace(known, base_url=base_url, key_variables=named)
    if base_url is None:
        raise ValueError(f"the provider '{name}' needs a base URL")
    return Vendor(name=name, kind="compatible", base_url=base_url, key_variables=named)
