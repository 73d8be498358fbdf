"""Tools, agents and MCP servers in a data directory."""

import json
from pathlib import Path

TOOL = '''
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b
'''
NOTES = '''
def note(text: str) -> str:
    """Write a line down.

    Args:
        text: The line.
    """
    return f"noted {text}"
'''
SKILL = "---\ndescription: Takes notes.\n---\nYou take notes.\n"


def write_tool(data_dir: Path) -> None:
    """Write a folder of tools with one that adds."""
    (data_dir / "tools").mkdir()
    (data_dir / "tools" / "sums.py").write_text(TOOL)
    (data_dir / "tools" / "__init__.py").write_text('from .sums import add\n\n__all__ = ["add"]\n')


def write_mcp(data_dir: Path, url: str) -> None:
    """Write the configuration of one MCP server."""
    (data_dir / "mcp.json").write_text(json.dumps({"mcpServers": {"small": {"url": url}}}))


def write_agent(data_dir: Path) -> None:
    """Write an agent with a tool."""
    folder = data_dir / "agents" / "scribe"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "scribe.py").write_text(NOTES)
    (folder / "__init__.py").write_text('from .scribe import note\n\n__all__ = ["note"]\n')
