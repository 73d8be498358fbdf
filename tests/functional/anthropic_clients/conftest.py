"""Clients of Anthropic's protocol; ``openai_clients/install`` puts them where they are."""

from tests.functional.openai_clients.conftest import client_program, environment

__all__ = ["client_program", "environment"]
