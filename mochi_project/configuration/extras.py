"""Checks that the libraries of an extra are installed, without importing them."""

from collections.abc import Sequence
from importlib.util import find_spec


def require_extra(extra: str, libraries: Sequence[str]) -> None:
    """Check that libraries are installed.

    Args:
        extra: The extra of ``mochi-server`` that installs them.
        libraries: The import names of the packages.

    Raises:
        ValueError: One is missing; the message says how to install it.
    """
    missing = [name for name in libraries if not _is_installed(name)]
    if missing:
        names = " and ".join(missing)
        raise ValueError(
            f"needs {names}, which is not installed: uv tool install '.[{extra}]' in the clone, "
            f"or pip install 'mochi-server[{extra}]'"
        )


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
