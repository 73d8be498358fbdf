"""Declares the errors of responses, conversations and their items.

The tree::

    MochiError
      * ResponseNotFound        RESPONSE_NOT_FOUND
      * ResponseNotStreamable   RESPONSE_NOT_STREAMABLE
      * PreviousResponseNotFound  PREVIOUS_RESPONSE_NOT_FOUND
      * ConversationNotFound    CONVERSATION_NOT_FOUND
      * ItemNotFound            ITEM_NOT_FOUND
      * SocketsNotOffered       UPGRADE_REQUIRED
"""

from sessions_app.errors import MochiError


class ResponseNotFound(MochiError):
    """The response does not exist, was deleted, or was not stored."""

    code = "RESPONSE_NOT_FOUND"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Response with id '{response_id[:100]}' not found.", response_id=response_id[:100]
        )


class ResponseNotStreamable(MochiError):
    """The events of a response were deleted, while the response itself is still stored."""

    code = "RESPONSE_NOT_STREAMABLE"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Response with id '{response_id}' can no longer be streamed. Retrieve it without "
            "`stream`.",
            field="stream",
            response_id=response_id,
        )


class PreviousResponseNotFound(MochiError):
    """The response to continue does not exist, or was not stored."""

    code = "PREVIOUS_RESPONSE_NOT_FOUND"

    def __init__(self, response_id: str) -> None:
        super().__init__(
            f"Previous response with id '{response_id[:100]}' not found.",
            field="previous_response_id",
        )


class ConversationNotFound(MochiError):
    """There is no such conversation."""

    code = "CONVERSATION_NOT_FOUND"

    def __init__(self, conversation_id: str, *, field: str | None = None) -> None:
        super().__init__(
            f"Conversation with id '{conversation_id[:100]}' not found.",
            conversation_id=conversation_id[:100],
            **({} if field is None else {"field": field}),
        )


class ItemNotFound(MochiError):
    """There is no such item in a saved session."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, item_id: str, *, field: str | None = None) -> None:
        super().__init__(
            f"Item with id '{item_id[:100]}' not found. Items are not kept when `store` is false.",
            item_id=item_id[:100],
            **({} if field is None else {"field": field}),
        )


class SocketsNotOffered(MochiError):
    """Responses are not sent over a WebSocket."""

    code = "UPGRADE_REQUIRED"

    def __init__(self) -> None:
        super().__init__("Responses have no WebSocket here: use POST /v1/responses.")
