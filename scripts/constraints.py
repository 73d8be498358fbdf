"""Pins the newest dependencies that the ranges allow, as ``[tool.uv]`` constraints.

    just constraints            # then run the tests, then commit

``uv run`` and ``uv sync`` obey them, so that everyone gets the versions that were tested, while
the published package keeps its ranges. Versions only: a lock file would record the addresses of
the index it was made with.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN = "# >>> just constraints\n"
END = "# <<< just constraints\n"
BLOCK = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
# The long-term release on every Python; `just test-django6` tests the newest one.
HELD_BACK = ["django<6"]
ELSEWHERE = ("win32", "emscripten")


def block(constraints: list[str]) -> str:
    """Return the part of pyproject.toml between the two marks, marks included."""
    lines = "".join(f'    "{constraint}",\n' for constraint in constraints)
    return f"{BEGIN}[tool.uv]\nconstraint-dependencies = [\n{lines}]\n{END}"


def resolve(pyproject: str) -> list[str]:
    """Return ``name==version`` of every dependency, the newest that the ranges allow."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "pyproject.toml").write_text(
            BLOCK.sub(lambda _: block(HELD_BACK), pyproject)
        )
        for name in ("README.md", "LICENSE"):
            shutil.copy(ROOT / name, directory)
        command = ["uv", "export", "--quiet", "--all-groups", "--no-emit-project", "--no-hashes"]
        exported = subprocess.run(
            [*command, "--no-annotate", "--no-header"],
            cwd=directory,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return [
        line.strip()
        for line in exported.splitlines()
        if "==" in line and not any(f"sys_platform == '{name}'" in line for name in ELSEWHERE)
    ]


def main() -> None:
    """Rewrite the block in pyproject.toml."""
    path = ROOT / "pyproject.toml"
    pyproject = path.read_text()
    if not BLOCK.search(pyproject):
        sys.exit(f"pyproject.toml has no block between {BEGIN!r} and {END!r}")
    constraints = resolve(pyproject)
    path.write_text(BLOCK.sub(lambda _: block(constraints), pyproject))
    print(f"{len(constraints)} versions written to pyproject.toml")


if __name__ == "__main__":
    main()
