"""Makes the environment in which a child process finds the server's own code."""

import os
import site
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def with_own_code(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which ``python -P -m mochi_project...`` runs this code.

    ``-P`` must not be left out: without it, ``-m`` puts the folder where the server is started
    first on the path, and a ``mochi_project`` that lies there would run instead of ours.
    """
    found = dict(environment)
    installed = {Path(folder).resolve() for folder in site.getsitepackages()}
    if _ROOT not in installed:  # a clone, which may be imported by its manage.py only
        paths = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        found["PYTHONPATH"] = os.pathsep.join(paths)
    return found
