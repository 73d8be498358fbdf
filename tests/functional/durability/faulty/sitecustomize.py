"""Makes the disk under a server fail while a test says so, and has it swept every two seconds.

Python imports this first where its folder is on ``PYTHONPATH``.
"""

import os
from pathlib import Path

SWEEP_SECONDS = 2.0

if switches := os.environ.get("MOCHI_E2E_FAULTS"):
    from mochi_project.background.housekeeping import Housekeeper
    from tests.unit.chat.disk import FailingDisk

    FailingDisk(Path(os.environ["MOCHI_DATA_DIR"]), Path(switches)).install()
    Housekeeper.run.__defaults__ = (SWEEP_SECONDS,)
