"""A workspace: what can be done in it, and that nothing leads out of it."""

import os
import stat
import time
from pathlib import Path

import psutil
import pytest

from agents_app.workspace import MAX_ENTRIES, MAX_FILE_BYTES, MAX_OUTPUT_BYTES
from mochi_server.workspace import Workspace, WorkspaceError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "workspace"


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@pytest.fixture
def lines(workspace: Workspace) -> str:
    workspace.write_file("a.txt", "one\ntwo\nthree\n")
    return "a.txt"


def test_nothing_is_made_before_it_is_needed(workspace: Workspace, root: Path) -> None:
    assert not root.exists()
    assert workspace.list_dir() == ". is empty."
    assert root.is_dir()


def test_files_are_written_read_and_listed(workspace: Workspace, root: Path) -> None:
    assert workspace.write_file("src/a.py", "ä\r\n") == "Created src/a.py (4 bytes)."
    assert workspace.write_file("src/a.py", "x") == "Replaced src/a.py (1 bytes)."
    (root / "link").symlink_to("src")

    assert workspace.read_file("src/a.py") == "x"
    assert workspace.read_file(str(root / "src" / "a.py")) == "x"
    assert workspace.list_dir() == "link (link)\nsrc/"
    assert workspace.list_dir("src") == "a.py (1 bytes)"
    assert sorted(os.listdir(root / "src")) == ["a.py"]


def test_a_script_stays_executable(workspace: Workspace, root: Path) -> None:
    workspace.write_file("run.sh", "#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)

    workspace.write_file("run.sh", "#!/bin/sh\necho hello\n")

    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
    assert workspace.run_cli_command("./run.sh") == "exit code 0\nhello"


def test_some_lines_are_read(workspace: Workspace, lines: str) -> None:
    assert workspace.read_file(lines, 2) == "two\nthree\n"
    assert workspace.read_file(lines, 2, 2) == "two\n"
    assert workspace.read_file(lines, 3, 99) == "three\n"
    with pytest.raises(WorkspaceError, match="has 3 lines"):
        workspace.read_file(lines, 4)
    with pytest.raises(WorkspaceError, match="must not be before"):
        workspace.read_file(lines, 2, 1)


def test_a_passage_is_replaced_once(workspace: Workspace, lines: str) -> None:
    workspace.insert_replace_text(lines, "TWO", old_text="two")
    assert workspace.read_file(lines) == "one\nTWO\nthree\n"

    workspace.insert_replace_text(lines, "", old_text="TWO\n")
    assert workspace.read_file(lines) == "one\nthree\n"

    with pytest.raises(WorkspaceError, match="occurs 0 times"):
        workspace.insert_replace_text(lines, "x", old_text="four")
    with pytest.raises(WorkspaceError, match="occurs 3 times"):
        workspace.insert_replace_text(lines, "x", old_text="e")


def test_text_is_inserted_before_a_line(workspace: Workspace, lines: str) -> None:
    workspace.insert_replace_text(lines, "zero", line=1)
    workspace.insert_replace_text(lines, "four", line=5)
    assert workspace.read_file(lines) == "zero\none\ntwo\nthree\nfour"

    workspace.insert_replace_text(lines, "five", line=6)
    assert workspace.read_file(lines).endswith("four\nfive")
    with pytest.raises(WorkspaceError, match="has 6 lines"):
        workspace.insert_replace_text(lines, "x", line=8)


@pytest.mark.parametrize("given", [{}, {"old_text": ""}, {"old_text": "one", "line": 1}])
def test_where_text_goes_must_be_clear(workspace: Workspace, lines: str, given) -> None:
    with pytest.raises(WorkspaceError, match="Give either"):
        workspace.insert_replace_text(lines, "x", **given)


def test_things_are_renamed_and_deleted(workspace: Workspace, root: Path, lines: str) -> None:
    assert workspace.delete_rename_file(lines, "new/b.txt") == "Renamed a.txt to new/b.txt."
    with pytest.raises(WorkspaceError, match="not empty"):
        workspace.delete_rename_file("new")
    assert workspace.delete_rename_file("new/b.txt") == "Deleted new/b.txt."
    assert workspace.delete_rename_file("new") == "Deleted new."
    assert os.listdir(root) == []


def test_nothing_is_overwritten_by_renaming(workspace: Workspace, lines: str) -> None:
    workspace.write_file("b.txt", "b")

    with pytest.raises(WorkspaceError, match="exists already"):
        workspace.delete_rename_file(lines, "b.txt")
    with pytest.raises(WorkspaceError, match="no such file"):
        workspace.delete_rename_file("nothing", "c.txt")
    with pytest.raises(WorkspaceError, match="must stay"):
        workspace.delete_rename_file(".")


def test_deleting_a_link_deletes_the_link(workspace: Workspace, root: Path) -> None:
    workspace.list_dir()
    (root / "link").symlink_to("../secret.txt")

    workspace.delete_rename_file("link")

    assert not (root / "link").is_symlink()
    assert (root.parent / "secret.txt").read_text() == "secret"


OUTSIDE = [
    "../secret.txt",
    "a/../../secret.txt",
    "..",
    "/etc/passwd",
    "{parent}/secret.txt",
    "link",
    "folder/secret.txt",
    "folder/new.txt",
    "loop",
    "a\0b",
    "\ud800",
    "~/../../../{parent}",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out(workspace: Workspace, root: Path, path: str) -> None:
    workspace.write_file("a/own.txt", "own")
    (root / "link").symlink_to("../secret.txt")
    (root / "folder").symlink_to("..")
    (root / "loop").symlink_to("loop")
    path = path.replace("{parent}", str(root.parent))
    before = sorted(os.listdir(root.parent))

    for attempt in (
        lambda: workspace.read_file(path),
        lambda: workspace.write_file(path, "mine"),
        lambda: workspace.insert_replace_text(path, "mine", old_text="secret"),
        lambda: workspace.list_dir(path),
        lambda: workspace.delete_rename_file("a/own.txt", path),
    ):
        with pytest.raises(WorkspaceError):
            attempt()
    if path not in {"link", "loop"}:  # those are entries of the workspace
        with pytest.raises(WorkspaceError):
            workspace.delete_rename_file(path)

    assert sorted(os.listdir(root.parent)) == before
    assert (root.parent / "secret.txt").read_text() == "secret"
    assert workspace.read_file("a/own.txt") == "own"


def test_links_within_are_followed(workspace: Workspace, root: Path) -> None:
    workspace.write_file("src/a.txt", "a")
    (root / "link.txt").symlink_to("src/a.txt")

    workspace.write_file("link.txt", "b")

    assert workspace.read_file("src/a.txt") == "b"
    assert (root / "link.txt").is_symlink()


@pytest.mark.parametrize("path", ["agent_chats", "agent_chats/x.json", "Agent_Chats/x.json"])
def test_what_is_hidden_is_not_touched(root: Path, path: str) -> None:
    (root / "agent_chats").mkdir(parents=True)
    (root / "agent_chats" / "x.json").write_text("{}")
    workspace = Workspace(root, hidden=frozenset({"agent_chats"}))
    (root / "link").symlink_to("agent_chats")

    assert workspace.list_dir() == "link (link)"
    for attempt in (path, "link", "link/x.json"):
        with pytest.raises(WorkspaceError, match="not part"):
            workspace.read_file(attempt)
    with pytest.raises(WorkspaceError, match="not part"):
        workspace.delete_rename_file(path)


def test_what_is_no_text_is_not_read(workspace: Workspace, root: Path) -> None:
    workspace.write_file("big", "x" * (MAX_FILE_BYTES + 1))
    (root / "binary").write_bytes(b"\xff\x00")
    os.mkfifo(root / "pipe")

    for path, reason in {
        "big": "larger",
        "binary": "not UTF-8 text",
        "pipe": "not a regular file",
        "missing": "no such file",
        ".": "not a regular file",
    }.items():
        with pytest.raises(WorkspaceError, match=reason):
            workspace.read_file(path)
    with pytest.raises(WorkspaceError, match="not a file"):
        workspace.write_file("pipe", "x")
    with pytest.raises(WorkspaceError, match="half of a character"):
        workspace.write_file("half", "\ud800")
    assert "half" not in os.listdir(root)


def test_a_long_listing_is_cut(workspace: Workspace, root: Path) -> None:
    workspace.list_dir()
    for number in range(MAX_ENTRIES + 2):
        (root / f"{number:05}").touch()

    assert workspace.list_dir().endswith("\n... and 2 more")


def test_a_command_tells_its_exit_code_and_all_that_it_printed(workspace: Workspace) -> None:
    workspace.write_file("hello.py", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n")

    assert workspace.run_cli_command("ls && pwd").startswith("exit code 0\nhello.py\n/")
    assert workspace.run_cli_command("echo out; echo err >&2; exit 3") == "exit code 3\nout\nerr"
    assert workspace.run_cli_command("true") == "exit code 0"
    assert workspace.run_cli_command("cat") == "exit code 0"
    assert workspace.run_cli_command("kill -9 $$") == "exit code 137"
    assert "not found" in workspace.run_cli_command("no-such-command")


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceError, match=r"longer than 5 seconds") as caught:
        workspace.run_cli_command("echo $$; sleep 600 & echo begun; wait", 5)

    pid = int(str(caught.value).partition("output was:\n")[2].split()[0])
    assert "begun" in str(caught.value)
    assert_gone(pid)


def test_a_command_does_not_wait_for_what_it_leaves_running(workspace: Workspace) -> None:
    output = workspace.run_cli_command("sleep 600 & echo $!", 30)

    assert_gone(int(output.split()[-1]))


def test_a_command_that_closes_its_output_is_waited_for(workspace: Workspace, root: Path) -> None:
    output = workspace.run_cli_command("exec >&- 2>&-; sleep 0.3; touch done", 30)

    assert output == "exit code 0"
    assert (root / "done").exists()


def test_endless_output_is_cut_in_the_middle(workspace: Workspace) -> None:
    output = workspace.run_cli_command("echo first; yes | head -c 1000000; echo last")

    assert output.startswith("exit code 0\nfirst\ny\n")
    assert output.endswith("y\nlast")
    assert "bytes left out" in output
    assert len(output) < MAX_OUTPUT_BYTES + 200


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.01)
