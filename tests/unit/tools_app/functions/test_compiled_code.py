"""Compiled code in a folder of tools: what runs is what can be read."""

import py_compile
from pathlib import Path

import pytest

from tools_app.functions.loading import load_folder

pytestmark = pytest.mark.usefixtures("nothing_stays_imported")


@pytest.mark.parametrize(
    ("imported", "source"),
    [
        ("from helpers.secret import word", "tools/helpers/secret.py"),
        ("from tools.helpers.secret import word", "tools/helpers/secret.py"),
        ("from .helpers.secret import word", "tools/helpers/secret.py"),
        ("from beside.secret import word", "beside/secret.py"),
        ("from secret_beside import word", "secret_beside.py"),
        ("from secret_inside import word", "tools/secret_inside.py"),
    ],
)
def test_compiled_code_that_lies_beside_a_source_is_never_run(
    tmp_path: Path, imported: str, source: str
) -> None:
    """Nobody reads it before a folder is trusted, and it need not be what the source says."""
    path = tmp_path / source
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("word = 'compiled'")
    py_compile.compile(
        str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH, doraise=True
    )
    path.write_text("word = 'as it is read'")
    tool = f'{imported}\n__all__ = ["say"]\ndef say() -> str:\n    """Say."""\n    return word\n'
    (tmp_path / "tools").mkdir(exist_ok=True)
    (tmp_path / "tools" / "speaker.py").write_text(tool)

    assert load_folder(tmp_path / "tools").functions["say"]() == "as it is read"
