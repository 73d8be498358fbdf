"""The agent builder's tools: files and commands in the folder of agents, and nowhere else."""

from pathlib import Path

from mochi_server.workspace import Workspace

# The folder that this agent's own is in. What agents said in their sessions is not its business.
_agents = Workspace(Path(__file__).resolve().parents[1], hidden=frozenset({"agent_chats"}))

# The tools are described by the docstrings of these methods.
read_file = _agents.read_file
write_file = _agents.write_file
insert_replace_text = _agents.insert_replace_text
list_dir = _agents.list_dir
delete_rename_file = _agents.delete_rename_file
run_cli_command = _agents.run_cli_command
