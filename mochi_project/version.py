"""Reads the version of the installed package."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version_of

try:
    VERSION = _version_of("mochi-server")
except PackageNotFoundError:  # a source tree that is not installed
    VERSION = "0"
