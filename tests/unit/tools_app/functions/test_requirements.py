"""What the modules of a folder need: told when it is missing, with one command that has it all."""

import platform

import pytest

from tests.unit.tools_app.functions.folders import ADD, WriteTools, load, reasons
from tools_app.functions.installing import install_command


def block(*lines: str) -> str:
    return "\n".join(("# /// script", *(f"# {line}".rstrip() for line in lines), "# ///", ""))


def test_a_missing_package_is_told_with_the_command_that_has_it(write_tools: WriteTools) -> None:
    loaded = load(write_tools(good=ADD, bad=f"import nowhere.inside\n{ADD}"))

    assert list(loaded.functions) == ["add"]
    assert reasons(loaded)["bad"] == (
        "No module named 'nowhere' (line 1); if its package has the same name: "
        f"`{install_command(['nowhere'])}`"
    )


def test_one_command_has_what_all_files_of_the_folder_need(write_tools: WriteTools) -> None:
    needs = block('dependencies = ["PyNowhere>=2", "pydantic>=2",', '  "another-one", ]')
    loaded = load(
        write_tools(
            listing=f"{needs}import nowhere\n{ADD}", guessing=f"import elsewhere\n{ADD}", good=ADD
        )
    )

    command = install_command(["elsewhere", "PyNowhere>=2", "another-one"])
    assert reasons(loaded) == {
        "listing": "No module named 'nowhere' (line 5); not installed: PyNowhere>=2, "
        f"another-one; for all that is missing: `{command}`",
        "guessing": "No module named 'elsewhere' (line 1); if its package has the same name: "
        f"`{command}`",
    }


def test_a_file_that_needs_a_package_only_later_is_loaded_and_told(
    write_tools: WriteTools,
) -> None:
    loaded = load(write_tools(later=block('dependencies = ["pynowhere"]', "#", "") + ADD))

    assert list(loaded.functions) == ["add"]
    (entry,) = loaded.invalid
    assert (entry.name, entry.file) == ("# /// script", "later.py")
    assert entry.reason == (
        "The file is loaded; not installed: pynowhere; for all that is missing: "
        f"`{install_command(['pynowhere'])}`"
    )


@pytest.mark.parametrize(
    "needs",
    [
        'dependencies = ["pydantic>=2", "absent; python_version < \'3\'"]',
        'requires-python = ">=3.11"',
        'dependencies = []\n#\n# [tool.uv]\n# exclude-newer = "2026-01-01T00:00:00Z"',
        "",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_there_is_not_told(needs: str, end: str, write_tools: WriteTools) -> None:
    folder = write_tools(good="")
    (folder / "good.py").write_text(f"{block(needs)}{ADD}".replace("\n", end), newline="")

    loaded = load(folder)

    assert list(loaded.functions) == ["add"]
    assert not loaded.invalid


def test_an_older_version_than_the_file_needs_is_missing(write_tools: WriteTools) -> None:
    loaded = load(write_tools(good=block('dependencies = ["pydantic>=99"]') + ADD))

    assert reasons(loaded)["# /// script"].startswith(
        "The file is loaded; not installed: pydantic>=99; "
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (block("dependencies = ["), "Invalid value"),
        (block('dependencies = "requests"'), "Expected `array`, got `str` - at `$.dependencies`"),
        (block('dependencies = ["a b"]'), "'a b': Expected"),
        (block("requires-python = 3"), "Expected `str`, got `int`"),
        (block('requires-python = ">=99"'), f"this is Python {platform.python_version()}."),
        (block('requires-python = "new"'), "Invalid specifier: 'new'."),
        (block("") + "\n" + block(""), "there are 2, keep one."),
        ("# /// script\n# dependencies = []\n", "close it with '# ///'"),
        ("# /// script\n#dependencies = []\n# ///\n", "close it with '# ///'"),
    ],
)
def test_a_malformed_block_is_told_and_the_file_is_loaded(
    text: str, reason: str, write_tools: WriteTools
) -> None:
    loaded = load(write_tools(good=text + ADD))

    assert list(loaded.functions) == ["add"]
    assert reason in reasons(loaded)["# /// script"]


def test_the_version_of_python_is_told_beside_the_syntax_that_needs_it(
    write_tools: WriteTools,
) -> None:
    needs = block('requires-python = ">=99"')

    loaded = load(write_tools(new=f"{needs}new syntax\n{ADD}"))

    assert reasons(loaded)["new"].startswith("SyntaxError")
    assert "requires-python is '>=99'" in reasons(loaded)["# /// script"]


@pytest.mark.parametrize("statement", ["from .nowhere import x", "import tools.nowhere"])
def test_a_missing_module_of_the_folder_is_nothing_to_install(
    statement: str, write_tools: WriteTools
) -> None:
    loaded = load(write_tools(bad=f"{statement}\n{ADD}"))

    assert "if its package" not in reasons(loaded)["bad"]


def test_a_mark_inside_a_text_is_no_block(write_tools: WriteTools) -> None:
    assert not load(write_tools(good=f'TEXT = "# /// script"\n{ADD}')).invalid
