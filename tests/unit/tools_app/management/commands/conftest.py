"""Commands that use tools: what runs these is forked."""

import pytest


@pytest.fixture(autouse=True)
def commands_fork_tools(forked_tools: None) -> None:
    """Fork what runs tools for every command."""
