"""An application behind a guard."""

import pytest

from tests.unit.mochi_project.guard.asking import App


@pytest.fixture
def app() -> App:
    """Return an application that remembers what reaches it."""
    return App()
