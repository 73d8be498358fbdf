"""Finds, describes and calls tools: functions of folders and tools of MCP servers."""
