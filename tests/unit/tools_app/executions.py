"""Records of tool calls."""

from tools_app.storage.call_log import ToolExecution


def execution(tool="add_numbers", number=0, **values):
    return ToolExecution(
        **{
            "tool_name": tool,
            "session_id": "a1b2c3d4e5",
            "tool_call_id": f"call_{number}",
            "started_at": f"2026-01-15T10:30:{number % 60:02}.000000+00:00",
            "duration_ms": 1.5,
            "success": True,
            **values,
        }
    )
