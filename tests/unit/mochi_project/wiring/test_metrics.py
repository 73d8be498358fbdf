"""What counts for Prometheus is built where it is switched on, and nowhere else loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PROGRAM = """
import sys
from pathlib import Path
from mochi_project.configuration.loading import load_settings
from mochi_project.wiring.metrics import build_meters
meters = build_meters(load_settings(data_dir=Path(sys.argv[1]), metrics=sys.argv[2] == "on"))
print(meters is not None, "prometheus_client" in sys.modules)
"""


def built(data_dir: Path, metrics: str) -> str:
    """Build in a process of its own, as the library is loaded once in a process."""
    command = [sys.executable, "-c", PROGRAM, str(data_dir), metrics]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_metrics_that_are_on_are_built(tmp_path: Path) -> None:
    assert built(tmp_path, "on") == "True True"


def test_metrics_that_are_off_cost_not_even_an_import(tmp_path: Path) -> None:
    assert built(tmp_path, "off") == "False False"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of directories")
def test_where_nothing_can_be_written_nothing_is_counted(tmp_path: Path) -> None:
    (tmp_path / ".mochi").mkdir()
    (tmp_path / ".mochi" / "metrics").write_text("in the way")
    assert built(tmp_path, "on") == "False False"
