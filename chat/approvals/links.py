"""Makes and reads the links by which a person answers a question without a token.

A link names its question, and is signed by a key derived from the server's secret key: who has it
may answer this one question, once, while it is open (docs/decisions/0199).
"""

from typing import NamedTuple

from django.core.signing import Signer

from chat.approvals.confirmation import Confirmation

PATH = "a"
"""The first part of the path of links."""


class ApprovalLink(NamedTuple):
    """Names the question that a link is for.

    Attributes:
        owner: The owner of the session.
        session_id: The session.
        confirmation_id: The question.
        arguments_hash: As of the question: a link is for these arguments alone.
    """

    owner: str
    session_id: str
    confirmation_id: str
    arguments_hash: str

    @classmethod
    def to(cls, question: Confirmation, owner: str) -> "ApprovalLink":
        """Return the link to a question of an owner's session."""
        return cls(owner, question.session_id, question.confirmation_id, question.arguments_hash)

    def is_to(self, question: Confirmation) -> bool:
        """Return whether it is for this question, as it was asked."""
        return self == ApprovalLink.to(question, self.owner)

    def token(self) -> str:
        """Return the last part of its path."""
        return _signer().sign_object(list(self))

    def url(self, public_url: str) -> str:
        """Return its address."""
        return f"{public_url}/{PATH}/{self.token()}"


def read_link(token: str) -> ApprovalLink:
    """Return what a token says.

    Raises:
        BadSignature: It was not made with this server's secret key.
    """
    return ApprovalLink(*_signer().unsign_object(token))


def _signer() -> Signer:
    return Signer(salt="mochi.approval-link", sep=".")
