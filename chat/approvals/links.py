"""Makes and reads the links by which a person answers a question without a token.

A link names its question, and is signed by a key derived from the server's secret key: who has it
may answer this one question, once, until it expires (docs/decisions/0199).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from django.core.signing import BadSignature, Signer

from chat.approvals.confirmation import Confirmation, read_moment

PATH = "a"
"""The first part of the path of links."""


class InvalidLink(Exception):
    """Raised for a link that this server did not make."""


class ExpiredLink(Exception):
    """Raised for a link whose time is over."""


class ApprovalLink(NamedTuple):
    """Names the question that a link is for.

    Attributes:
        owner: The owner of the session.
        session_id: The session.
        confirmation_id: The question.
        arguments_hash: As of the question: a link is for these arguments alone.
        expires: The end of its time (Unix time).
    """

    owner: str
    session_id: str
    confirmation_id: str
    arguments_hash: str
    expires: int

    @classmethod
    def to(cls, question: Confirmation, owner: str) -> "ApprovalLink":
        """Return the link to a question of an owner's session."""
        expires = int(read_moment(question.expires_at).timestamp()) + 1
        return cls(owner, *_question_of(question), expires)

    def is_to(self, question: Confirmation) -> bool:
        """Return whether it is for this question, as it was asked."""
        return self[1:4] == _question_of(question)

    def token(self) -> str:
        """Return the last part of its path."""
        return _signer().sign_object(list(self))

    def url(self, public_url: str) -> str:
        """Return its address."""
        return f"{public_url}/{PATH}/{self.token()}"


def read_link(token: str, now: datetime | None = None) -> ApprovalLink:
    """Return what a token says.

    Raises:
        InvalidLink: It was not made with this server's secret key.
        ExpiredLink: It was, and its time is over.
    """
    try:
        fields: Sequence[str | int] = _signer().unsign_object(token)
    except BadSignature:
        raise InvalidLink from None
    link = ApprovalLink(*fields)  # type: ignore[arg-type]  # signed, so made above
    if (now or datetime.now(UTC)).timestamp() >= link.expires:
        raise ExpiredLink
    return link


def _question_of(question: Confirmation) -> tuple[str, str, str]:
    return question.session_id, question.confirmation_id, question.arguments_hash


def _signer() -> Signer:
    return Signer(salt="mochi.approval-link", sep=".")
