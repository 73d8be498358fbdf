"""Describes the models of the scripted server."""

import hashlib
from typing import Any

import msgspec


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model's facts; ``size`` in bytes, ``context_length`` in tokens.

    One with ``efforts`` reasons by default, with these efforts only. It is made for OpenAI's
    Responses API: in Chat Completions it hides its reasoning, and calls tools only without it.
    """

    name: str
    family: str
    parameter_size: str
    quantization_level: str
    size: int
    context_length: int
    capabilities: tuple[str, ...]
    efforts: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """A digest as Ollama has one for each version of a model; stable."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    @property
    def details(self) -> dict[str, Any]:
        """The ``details`` object of Ollama's answers."""
        return {
            "parent_model": "",
            "format": "gguf",
            "family": self.family,
            "families": [self.family],
            "parameter_size": self.parameter_size,
            "quantization_level": self.quantization_level,
        }


# The first has the name that the README's quick start uses, so that it works in test mode too.
THINKER = ModelCard(
    name="qwen3:14b",
    family="qwen3",
    parameter_size="14.8B",
    quantization_level="Q4_K_M",
    size=9_276_198_565,
    context_length=40_960,
    capabilities=("completion", "tools", "thinking"),
)
PLAIN = ModelCard(
    name="scripted-plain:latest",
    family="llama",
    parameter_size="1B",
    quantization_level="Q8_0",
    size=1_321_098_329,
    context_length=8192,
    capabilities=("completion",),
)
SEEING = ModelCard(
    name="scripted-vision:latest",
    family="gemma3",
    parameter_size="4B",
    quantization_level="Q4_K_M",
    size=3_338_801_804,
    context_length=131_072,
    capabilities=("completion", "tools", "vision"),
)
CARDS = (THINKER, PLAIN, SEEING)


def find_card(name: str) -> ModelCard | None:
    """Return the model of this name; ``:latest`` may be left out."""
    full = name if ":" in name else f"{name}:latest"
    return next((card for card in CARDS if card.name == full), None)


def _efforts(*efforts: str) -> ModelCard:
    return msgspec.structs.replace(THINKER, efforts=efforts)


# What vendors would call these, so that a session that names a vendor's model works offline too.
VENDOR_NAMES = {
    "anthropic": {
        "claude-haiku-4-5": THINKER,
        "claude-sonnet-4-6": THINKER,
        "claude-3-haiku": PLAIN,
    },
    "google": {
        "gemini-2.5-flash": THINKER,
        "gemini-2.0-flash": PLAIN,
        "gemini-3-flash": THINKER,
    },
    "openai": {
        "gpt-5.1": THINKER,
        "gpt-5.6-terra": _efforts("none", "low", "medium", "high", "xhigh", "max"),
        "gpt-6-astra": _efforts("low", "medium", "high", "xhigh", "max"),
        "gpt-5.4-pro": _efforts("medium", "high", "xhigh"),
        "deepseek-reasoner": THINKER,
        "gpt-4o-mini": PLAIN,
    },
    "openrouter": {
        "qwen/qwen3-14b": THINKER,
        "meta-llama/llama-3.2-1b-instruct": PLAIN,
        "google/gemma-3-4b-it": SEEING,
    },
}


def find_vendor_card(vendor: str, name: str) -> ModelCard | None:
    """Return the model that has this name with a vendor; the plain names work everywhere."""
    return VENDOR_NAMES[vendor].get(name) or find_card(name)
