"""Collects an agent's activity as the data of one part, which is updated in place. Pure."""

from typing import Any

_FIRST_PIECE = 80
_GROWTH = 1.25
"""A text is sent again when it is so much longer: what is sent in all stays a few times its length,
although each update has the whole of it."""


class AgentData:
    """The state of an agent's run: the value of a ``data-agent`` part.

    Args:
        agent: The agent's name.
    """

    def __init__(self, agent: str) -> None:
        self._value: dict[str, Any] = {
            "agent": agent,
            "state": "planning",
            "plan": "",
            "text": "",
            "calls": [],
        }
        self._sent = 0

    def plan(self, text: str) -> bool:
        """Append to the plan; return whether it should be sent."""
        return self._add("plan", text)

    def say(self, text: str) -> bool:
        """Append to the agent's text; return whether it should be sent."""
        self._value["state"] = "working"
        return self._add("text", text)

    def call(self, call_id: str, tool_name: str, arguments: Any) -> None:
        """Add a tool call."""
        self._value["state"] = "working"
        self._value["calls"].append(
            {"id": call_id, "tool": tool_name, "input": arguments, "state": "running"}
        )

    def end_call(self, call_id: str, tool_name: str, summary: str, *, succeeded: bool) -> None:
        """Set the result of a call, which may not have been added if it needed approval."""
        calls = self._value["calls"]
        entry = next((each for each in calls if each["id"] == call_id), None)
        if entry is None:
            entry = {"id": call_id, "tool": tool_name}
            calls.append(entry)
        entry |= {"state": "done" if succeeded else "failed", "summary": summary}

    def end(self) -> None:
        """Set the end of the run."""
        self._value["state"] = "done"

    def value(self) -> dict[str, Any]:
        """Return the value to send."""
        self._sent = self._length
        return self._value

    @property
    def _length(self) -> int:
        return len(self._value["plan"]) + len(self._value["text"])

    def _add(self, name: str, text: str) -> bool:
        self._value[name] += text
        return self._length >= self._sent * _GROWTH + _FIRST_PIECE
