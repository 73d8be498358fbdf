"""Fixtures of pytest: a server in test mode for a test, or for all tests of a module.

Opt in with ``pytest_plugins = ["mochi_server.testing.plugin"]`` in the topmost ``conftest.py``, or
with ``-p mochi_server.testing.plugin``.
"""

from collections.abc import Iterator

import pytest

from mochi_project.configuration.setting_arguments import SettingArguments
from mochi_server.testing.client import MochiClient
from mochi_server.testing.server import MochiServer, serve


@pytest.fixture(scope="session")
def mochi_settings() -> SettingArguments:
    """Return the settings of the servers; override it to change them."""
    return {}


@pytest.fixture
def mochi_server(mochi_settings: SettingArguments) -> Iterator[MochiServer]:
    """Run a server for one test."""
    with serve(**mochi_settings) as server:
        yield server


@pytest.fixture
def mochi_client(mochi_server: MochiServer) -> MochiClient:
    """Return a client of the test's server, which streams answers."""
    return mochi_server.client()


@pytest.fixture(scope="module")
def shared_mochi_server(mochi_settings: SettingArguments) -> Iterator[MochiServer]:
    """Run a server for all tests of a module; ``reset()`` forgets what one has scripted."""
    with serve(**mochi_settings) as server:
        yield server
