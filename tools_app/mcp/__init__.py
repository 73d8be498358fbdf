"""Connects to the MCP servers of ``mcp.json``, on demand, and offers their tools."""
