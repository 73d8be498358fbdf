"""Fixtures of unit tests in several folders."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Let nothing be collected as garbage while the test runs."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
