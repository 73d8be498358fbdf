"""Which models the key of a request is for, by their names."""

from dataclasses import replace

import pytest

from mochi_project.principal import OPERATOR, acting_for
from models_app.errors import ModelNotFound, ModelNotPermitted
from models_app.names import is_permitted, require_usable


@pytest.mark.parametrize(
    ("patterns", "name", "may"),
    [
        (["*"], "openai:gpt-5", True),
        (["qwen3:*"], "qwen3:14b", True),
        (["qwen3:*"], "ollama:qwen3:14b", True),
        (["qwen3"], "qwen3:latest", True),
        (["qwen3:latest"], "qwen3", True),
        (["qwen3:latest"], "ollama:qwen3", True),
        (["openai:gpt-5", "qwen3:*"], "openai:gpt-5", True),
        (["profile:coder"], "profile:coder", True),
        (["*:latest"], "openai:gpt-5", False),
        (["qwen3:*"], "qwen3:14b\nopenai", True),
        (["qwen3"], "qwen3:14b", False),
        (["qwen3:14b"], "qwen3:14bx", False),
        (["qwen3:14b"], "xqwen3:14b", False),
        (["qwen3.14b"], "qwen3:14b", False),
        (["qwen3:*"], "profile:coder", False),
        (["qwen3:*"], "QWEN3:14B", False),
        (["qwen3:*|openai:*"], "openai:gpt-5", False),
        (["a", "b*"], "ab", False),
        (["qwen3:*"], "", False),
    ],
)
def test_a_key_is_for_the_models_that_its_patterns_name(
    patterns: list[str], name: str, may: bool
) -> None:
    with acting_for(replace(OPERATOR, models=tuple(patterns))):
        assert is_permitted(name) is may
        if not may:
            with pytest.raises(ModelNotPermitted, match="not for model") as refused:
                require_usable(name)
            assert refused.value.details == {"model": name}


def test_a_name_that_is_too_long_is_of_no_model() -> None:
    with pytest.raises(ModelNotFound, match="characters at most"):
        require_usable("x" * 10_000)
