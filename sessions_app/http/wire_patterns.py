"""Declares JSON Schema patterns for the OpenAPI document.

They check nothing by themselves: the code checks the same, with error messages of its own
(docs/decisions/0025).
"""

from pydantic.config import JsonDict

from sessions_app.ids_and_clock import SESSION_ID

SESSION_ID_PATTERN = f"^{SESSION_ID}$"
NOT_BLANK_PATTERN = r"[^\s\u001c-\u001f\u0085]"
"""At least one character that is no white space, as ``str.strip`` sees it."""
PROMPT_FILE: JsonDict = {"pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]*\.(md|txt)$", "maxLength": 100}
"""The name of a system prompt file."""


def given(*fields: str) -> JsonDict:
    """Return a schema for an object in which these fields are present and not null."""
    return {
        "required": [*fields],
        "properties": {field: {"not": {"type": "null"}} for field in fields},
    }
