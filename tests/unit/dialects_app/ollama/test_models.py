"""Models as Ollama's lists describe them."""

import hashlib

import msgspec

from dialects_app.ollama.models import shown, tag_of
from models_app.language_model import ModelInfo

QWEN = ModelInfo(
    name="qwen3:14b",
    size_mb=9276.2,
    format="gguf",
    family="qwen3",
    parameter_size="14.8B",
    quantization_level="Q4_K_M",
    capabilities=("completion", "tools", "thinking"),
    context_length=40960,
    modified_at=1_760_000_000,
    digest="ab" * 32,
)
GPT = ModelInfo(name="openai:gpt-5.1", size_mb=0, capabilities=("completion",), provider="openai")
DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "qwen3",
    "families": ["qwen3"],
    "parameter_size": "14.8B",
    "quantization_level": "Q4_K_M",
}


def test_a_model_of_ollama_is_listed_as_there() -> None:
    assert tag_of(QWEN) == {
        "name": "qwen3:14b",
        "model": "qwen3:14b",
        "modified_at": "2025-10-09T08:53:20.000000Z",
        "size": 9_276_200_000,
        "digest": "ab" * 32,
        "details": DETAILS,
        "capabilities": ("completion", "tools", "thinking"),
    }


def test_another_model_has_no_size_and_a_digest_of_its_name() -> None:
    tag = tag_of(GPT)
    assert tag["size"] == 0
    assert tag["digest"] == hashlib.sha256(b"openai:gpt-5.1").hexdigest()
    assert tag["details"]["families"] == []


def test_a_profile_has_a_digest_of_its_own() -> None:
    profile = msgspec.structs.replace(QWEN, name="profile:work")
    assert tag_of(profile)["digest"] == hashlib.sha256(b"profile:work").hexdigest()


def test_the_longest_context_is_shown_below_the_name_of_the_architecture() -> None:
    facts = shown(QWEN)
    assert facts["model_info"] == {
        "general.architecture": "qwen3",
        "qwen3.context_length": 40960,
    }
    assert facts["details"] == DETAILS
    assert shown(GPT)["model_info"] == {"general.architecture": "openai"}
