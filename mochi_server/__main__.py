"""Runs the ``mochi-server`` command for ``python -m mochi_server``."""

import sys

from mochi_project.cli import main

if __name__ == "__main__":
    sys.exit(main())
