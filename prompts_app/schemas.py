"""Declares the bodies of the ``/system-prompts`` routes."""

from ninja import Schema
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN, PROMPT_FILE
from sessions_app.text_rules import MAX_PROMPT_LENGTH

# The service checks these; here they are only told, so that every refusal has the same words.
_CONTENT_RULES: JsonDict = {"pattern": NOT_BLANK_PATTERN, "maxLength": MAX_PROMPT_LENGTH}
_EXAMPLE_TEXT = "You are a helpful assistant. Answer briefly."


class PromptSummaryOut(Schema):
    """A prompt in a list."""

    filename: str = Field(description="Name of the file")
    preview: str = Field(description="Beginning of the text on one line, 100 characters at most")
    word_count: int = Field(description="Words in the whole text")


class PromptListOut(Schema):
    """All readable prompts, by name."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "prompts": [
                    {
                        "filename": "using_agents.md",
                        "preview": "You have access to specialized agents...",
                        "word_count": 245,
                    }
                ]
            }
        }
    )

    prompts: list[PromptSummaryOut]


class PromptOut(Schema):
    """A prompt with its whole text."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"filename": "helpful.md", "content": _EXAMPLE_TEXT}},
    )

    filename: str = Field(description="Name of the file")
    content: str = Field(description="The whole text")


class PromptCreateIn(Schema):
    """A new prompt."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"filename": "helpful.md", "content": _EXAMPLE_TEXT}},
    )

    filename: str = Field(
        description="Name of the file to make; ends in `.md` or `.txt`",
        json_schema_extra=PROMPT_FILE,
    )
    content: str = Field(description="The whole text", json_schema_extra=_CONTENT_RULES)


class PromptUpdateIn(Schema):
    """The new text of a prompt."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"content": _EXAMPLE_TEXT}}
    )

    content: str = Field(description="The whole new text", json_schema_extra=_CONTENT_RULES)
