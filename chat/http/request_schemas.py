"""Declares the bodies of chat requests, and the header that starts a turn once."""

from typing import Annotated, Self, get_args

from ninja import Header
from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator
from pydantic.config import JsonDict

from chat.http.response_format import ResponseFormat
from models_app.language_model import ThinkLevel
from sessions_app.bounds import MOST_ITEMS
from sessions_app.errors import ValidationFailed
from sessions_app.http.attachments import AttachmentIn
from sessions_app.http.request_schemas import in_one_sentence
from sessions_app.http.wire_patterns import NOT_BLANK_PATTERN, SESSION_ID_PATTERN, given
from sessions_app.inbox import WhenBusy
from sessions_app.session import MODEL_NAME_LENGTH, OnCrash

Name = Annotated[str, Field(max_length=300)]
ModelName = Annotated[str, Field(min_length=1, max_length=MODEL_NAME_LENGTH)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the same turn, however often they are sent.",
    ),
]


# What the validator enforces, for clients to know.
_NOT_BLANK: JsonDict = {
    "anyOf": [
        {"properties": {"message": {"pattern": NOT_BLANK_PATTERN}}},
        {
            "properties": {"attachments": {"type": "array", "minItems": 1}},
            "required": ["attachments"],
        },
    ]
}


# What comes in is no Schema of Ninja's: that validates twice where further fields are forbidden.
class ChatIn(BaseModel):
    """A chat request. Without a message the answer to the last user message is (re)generated."""

    # A misspelt "message" must not pass for a request to answer the last one again.
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "message": "What does the file say?",
                "attachments": [{"data": "SGVsbG8h", "name": "hello.txt"}],
                "think": False,
            },
            "allOf": [_NOT_BLANK],
        },
    )

    message: str | None = Field(
        None,
        description="What the user says; absent or null regenerates or resumes. Blank only with "
        "attachments.",
    )
    attachments: list[AttachmentIn] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="Images and files of the message, which may then be left out: each an id, "
        '`{"id", "name"}`, or `{"data": base64, "name"}`.',
    )
    message_id: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="The message of the session to go back to. With `message` it is edited and "
        "answered, and must be one of the user; without, its answer is made again. What was said "
        "after it goes, and comes back if the turn ends without an answer. 409 `MESSAGE_CHANGED`: "
        "it is not there any more.",
    )
    think: Annotated[
        StrictBool | ThinkLevel | None,
        in_one_sentence(f"must be true, false or one of {', '.join(get_args(ThinkLevel))}"),
    ] = Field(None, description="Whether, or how hard, a thinking model reasons before it answers.")
    selected_tools: list[Name] | None = Field(
        None,
        max_length=MOST_ITEMS,
        description="The tools of this turn; absent leaves it to the session's settings.",
    )
    detached: StrictBool | None = Field(
        None,
        description="Whether the turn continues when its client disconnects; false unless given.",
    )

    on_crash: OnCrash | None = Field(
        None,
        description="What becomes of the turn if its process dies: `seal` saves what there is, "
        "`continue` lets another process go on, and detaches the turn. By default as the session "
        "says, and then the server.",
    )
    when_busy: WhenBusy | None = Field(
        None,
        description="What becomes of the message while a turn runs: `refuse` (409 `SESSION_BUSY`), "
        "`queue` (answered after it), `steer` (said to the model before its next step), or "
        "`interrupt` (the turn is stopped for it); the last three answer 202. "
        "`MOCHI_WHEN_BUSY` unless given. Only a message can wait: what is resumed, edited or made "
        "again is refused.",
    )
    response_format: ResponseFormat | None = Field(
        None,
        description="The form of the answer. One that does not fit is corrected by the model, "
        "twice at most; what never fits is 502 `ANSWER_INVALID`.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        is_blank = not (self.message or "").strip()
        if is_blank and self.attachments:
            self.message = ""
        elif is_blank and self.message is not None:
            raise ValidationFailed(
                "message must not be blank without attachments; leave it out to continue from the "
                "last user message",
                field="message",
            )
        return self


class OpenChatIn(ChatIn):
    """A chat request that names its session, or makes one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"model": "qwen3:14b", "message": "Hello!"},
            # A message alone is enough: there is a default model.
            "anyOf": [given("session_id"), given("message"), given("attachments")],
            "allOf": [_NOT_BLANK],
        },
    )

    session_id: str | None = Field(
        None,
        description="The session; absent makes a new one.",
        json_schema_extra={"pattern": SESSION_ID_PATTERN},
    )
    model: ModelName | None = Field(
        None,
        description="The model of a new session; absent takes `MOCHI_DEFAULT_MODEL`, else the "
        "first one that is installed. Beside `session_id`, another than the session's is 422.",
    )
