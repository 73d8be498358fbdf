"""The command that installs packages fits how the server was started."""

import sys
from pathlib import Path

import pytest

from tools_app.functions import installing
from tools_app.functions.installing import install_command

RECEIPT = """
[tool]
requirements = [
    { name = "mochi-server", extras = ["otel"], directory = "/home/me/mochi server" },
    { name = "six", specifier = ">=1" },
]
"""


@pytest.fixture(autouse=True)
def prefix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder of the environment; nothing says yet that uv started the server."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    for variable in ("UV", "UV_RUN_RECURSION_DEPTH"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_an_installed_tool_is_installed_again_with_what_it_had(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix / "uv-receipt.toml").write_text(RECEIPT)
    monkeypatch.setenv("UV", "/bin/uv")

    assert install_command(["pandas>=2"]) == (
        "uv tool install --with 'six>=1' --with 'pandas>=2' "
        "'mochi-server[otel] @ /home/me/mochi server'"
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('git = "https://example.org/m"', "'mochi-server @ git+https://example.org/m'"),
        ('git = "https://example.org/m?rev=v1"', "'mochi-server @ git+https://example.org/m@v1'"),
        ('git = "https://example.org/m?tag=v1"', "'mochi-server @ git+https://example.org/m@v1'"),
        ('git = "file:///m?branch=a%2Fb"', "'mochi-server @ git+file:///m@a/b'"),
        (
            'extras = ["otel", "s3"], git = "ssh://git@host/m?subdirectory=a%2Fb&rev=v1"',
            "'mochi-server[otel,s3] @ git+ssh://git@host/m@v1#subdirectory=a/b'",
        ),
        ('editable = "/m"', "--editable 'mochi-server @ /m'"),
        ('extras = ["s3"], editable = "/m"', "--editable 'mochi-server[s3] @ /m'"),
        ('path = "/m.whl"', "'mochi-server @ /m.whl'"),
        ('url = "https://a.org/m.whl"', "'mochi-server @ https://a.org/m.whl'"),
        ('specifier = "==0.2.0"', "mochi-server==0.2.0"),
    ],
)
def test_a_tool_is_installed_again_from_where_it_came(prefix: Path, entry: str, words: str) -> None:
    (prefix / "uv-receipt.toml").write_text(
        f'[tool]\nrequirements = [{{ name = "mochi-server", {entry} }}]\n'
    )

    assert install_command(["six"]) == f"uv tool install --with six {words}"


def test_what_else_is_editable_stays_so(prefix: Path) -> None:
    others = '{ name = "mochi-server" }, { name = "mine", editable = "/mine" }'
    (prefix / "uv-receipt.toml").write_text(f"[tool]\nrequirements = [{others}]\n")

    assert install_command(["six"]) == (
        "uv tool install --with-editable 'mine @ /mine' --with six mochi-server"
    )


@pytest.mark.parametrize("receipt", ["[", "[tool]", '[tool]\nrequirements = ["mochi-server"]'])
def test_a_receipt_of_another_kind_gives_the_name(prefix: Path, receipt: str) -> None:
    (prefix / "uv-receipt.toml").write_text(receipt)

    assert install_command(["six"]) == "uv tool install --with six mochi-server"


def test_uv_run_is_told_what_to_run_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV", "/bin/uv")
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")

    assert install_command(["six", "pandas>=2"]) == (
        "uv run --with six --with 'pandas>=2' mochi-server"
    )


def test_uvx_is_told_what_to_run_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV", "/bin/uv")

    assert install_command(["six"]) == "uvx --with six mochi-server"


@pytest.mark.parametrize(
    ("has_pip", "command"),
    [
        (True, "/venv/bin/python -m pip install six"),
        (False, "uv pip install --python {prefix} six"),
    ],
)
def test_an_environment_gets_packages_by_pip_or_by_uv(
    has_pip: bool, command: str, prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda _name: object() if has_pip else None)

    assert install_command(["six"]) == command.format(prefix=prefix)
