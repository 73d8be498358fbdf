"""Declares the tools that recall conversations: their names, arguments and descriptions."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sessions_app.messages import ToolSpec

SEARCH, READ, EXPAND = "search_conversations", "read_conversation", "expand_summary"

_SessionId = Annotated[str, Meta(max_length=100, description="a conversation; else this one")]
_Time = Annotated[str, Meta(max_length=40, description="ISO 8601: 2026-01-31, or with a time")]
_Offset = Annotated[int, Meta(description="so many are skipped; below 0 from the end")]
_Limit = Annotated[int, Meta(ge=1, le=50, description="how many messages at most")]
_Role = Annotated[
    Literal["user", "assistant", "tool", "title", "summary"],
    Meta(extra_json_schema={"type": "string"}),  # without it, some providers refuse an enum
]


class SearchConversations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `search_conversations`."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=500,
            description='words, all of which occur; "in a row", -without, begin*',
        ),
    ]
    limit: Annotated[int, Meta(ge=1, le=20, description="how many results at most")] = 8
    role: _Role | UnsetType = UNSET
    session_id: (
        Annotated[str, Meta(max_length=100, description="only this conversation")] | UnsetType
    ) = UNSET
    model: (
        Annotated[str, Meta(max_length=300, description="only answers of this model")] | UnsetType
    ) = UNSET
    after: _Time | UnsetType = UNSET
    before: _Time | UnsetType = UNSET


class ExpandSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `expand_summary`."""

    session_id: _SessionId | UnsetType = UNSET
    offset: _Offset = 0
    limit: _Limit = 20


class ReadConversation(ExpandSummary, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `read_conversation`."""

    message_id: (
        Annotated[str, Meta(max_length=100, description="the message to start at")] | UnsetType
    ) = UNSET


RecallArguments = SearchConversations | ReadConversation | ExpandSummary
ARGUMENTS: Mapping[str, type[RecallArguments]] = {
    SEARCH: SearchConversations,
    READ: ReadConversation,
    EXPAND: ExpandSummary,
}
_DESCRIPTIONS = {
    SEARCH: "Finds words in the saved conversations of this server: in messages, titles and "
    "summaries. Returns ids and excerpts; the conversation that was changed last comes first.",
    READ: "Returns messages of a saved conversation in order, with their ids.",
    EXPAND: "Returns, word for word, the messages of a conversation that are left out of its "
    "model's context, and that a summary may stand for.",
}
SPECS: Mapping[str, ToolSpec] = {
    name: ToolSpec(
        name=name,
        description=_DESCRIPTIONS[name],
        parameters=msgspec.json.schema_components([kind])[1][kind.__name__],
    )
    for name, kind in ARGUMENTS.items()
}
