"""Makes an environment in which child processes import this server's code."""

import os
import site
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def with_own_code(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which ``python -P -m mochi_project...`` runs this code.

    ``-P`` is required: without it, ``-m`` puts the working directory first on the path, and a
    ``mochi_project`` there would run instead of ours.
    """
    found = dict(environment)
    installed = {Path(folder).resolve() for folder in site.getsitepackages()}
    if _ROOT not in installed:  # a clone of the repository, not an installed package
        paths = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        found["PYTHONPATH"] = os.pathsep.join(paths)
    return found
