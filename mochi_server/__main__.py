"""``python -m mochi_server`` is ``mochi-server``."""

import sys

from mochi_project.cli import main

if __name__ == "__main__":
    sys.exit(main())
