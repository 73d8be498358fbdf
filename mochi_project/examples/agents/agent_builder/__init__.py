"""The agent builder: what ``__all__`` lists are the agent's tools."""

from .agent_builder import (
    delete_rename_file,
    insert_replace_text,
    list_dir,
    read_file,
    run_cli_command,
    write_file,
)

__all__ = [
    "read_file",
    "write_file",
    "insert_replace_text",
    "list_dir",
    "delete_rename_file",
    "run_cli_command",
]

# These change something: the policy ``confirm_destructive`` asks before they run.
__destructive__ = ["write_file", "insert_replace_text", "delete_rename_file", "run_cli_command"]
