"""Runs the ``mochi-server`` command for ``python -m mochi_server``."""

import sys
from pathlib import Path


def leave_out_current_folder() -> None:
    """Remove the current folder, which ``python -m`` puts first, from where modules are found.

    That folder is where people keep their data and their own programs: a package ``chat`` in it
    would take the place of the server's. Kept when the server itself was found there.
    """
    here = Path.cwd()
    if sys.flags.safe_path or Path(__file__).resolve().parents[1] == here.resolve():
        return
    if sys.path and sys.path[0] == str(here):
        del sys.path[0]


if __name__ == "__main__":
    leave_out_current_folder()

    from mochi_project.cli import main

    sys.exit(main())
