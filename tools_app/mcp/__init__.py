"""MCP servers as toolsets: what ``mcp.json`` names, started when somebody asks for its tools."""
