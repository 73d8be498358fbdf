"""Decides what to leave out of a request that a server has refused, one part at a time. Pure.

Servers and models differ in what they take, and say so only in a refusal. Each has words of its
own, so a refusal counts for the first part in ``PARTS`` that the request had and that it may be
about (docs/decisions/0136).
"""

import re
from collections.abc import Callable, Iterable

import msgspec

from models_app.errors import ModelError, ServiceUnavailable

MOST_OMISSIONS = 4
"""The most parts that are left out of one request, each after another refusal."""

_NO_SUMMARY = (
    "'{provider}' does not show the reasoning of {model} to this key: OpenAI shows it to verified "
    "organizations alone."
)
_NO_RESPONSES = (
    "'{provider}' has no Responses API for {model}, which was asked by Chat Completions. "
    "{variable}=chat does so at once."
)
# Anthropic's and OpenAI's words. A signature counts for the model and the conversation that it was
# made in; OpenAI's, for the organization, too.
_ABOUT_REASONING = re.compile(
    r"\bencrypted[ _]content\b|\bItem with id\b|without its required following item"
    r"|invalid `?signature`? in `?thinking`? block|block is bound to a different conversation",
    re.IGNORECASE,
)
# By the names of the fields. Servers of pydantic may refuse extra inputs without a name.
_ABOUT_CACHE = re.compile(r"cache_control|prompt_cache|(?<!: )extra inputs", re.IGNORECASE)


class RequestPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a request that some servers or models refuse.

    Attributes:
        name: Its name.
        is_refused: Returns whether a refusal may be about it. Asked only if it was sent.
        is_of_turn: Whether it is left out of the next requests of the same turn and question only;
            else of all of the model's, for ten minutes.
        warning: What to say of an answer without it, when it is refused; None for nothing.
    """

    name: str
    is_refused: Callable[[ModelError], bool]
    is_of_turn: bool = False
    warning: str | None = None


def _is_about_reasoning(error: ModelError) -> bool:
    return error.details.get("status") in (400, 404) and (
        error.provider_code == "invalid_encrypted_content"
        or _ABOUT_REASONING.search(error.message) is not None
    )


def _is_about_summary(error: ModelError) -> bool:
    return error.details.get("status") in (400, 403) and (
        error.provider_field == "reasoning.summary" or "must be verified" in error.message
    )


def _is_about_cache(error: ModelError) -> bool:
    is_refusal = error.details.get("status") in (400, 422)
    return is_refusal and _ABOUT_CACHE.search(error.message) is not None


def _is_about_endpoint(error: ModelError) -> bool:
    has_no_route = error.details.get("status") in (404, 405, 501)
    return has_no_route and error.provider_code != "model_not_found"


def _may_be_about_schema(error: ModelError) -> bool:
    """Return whether a refusal can be one of the schema; each server has words of its own."""
    is_refusal = isinstance(error, ServiceUnavailable) and not error.retryable
    return is_refusal and error.details.get("status") in (400, 422, 501)


REASONING = RequestPart(name="reasoning", is_refused=_is_about_reasoning, is_of_turn=True)
"""Signed or encrypted reasoning of earlier answers."""
SUMMARY = RequestPart(name="summary", is_refused=_is_about_summary, warning=_NO_SUMMARY)
"""The wish to see a summary of the reasoning."""
CACHE = RequestPart(name="cache", is_refused=_is_about_cache)
"""Marks of what to keep in a cache."""
ENDPOINT = RequestPart(name="endpoint", is_refused=_is_about_endpoint, warning=_NO_RESPONSES)
"""OpenAI's Responses, in whose place Chat Completions is."""
SCHEMA = RequestPart(name="schema", is_refused=_may_be_about_schema)
"""A JSON schema that the answer has to fit."""

PARTS = (REASONING, SUMMARY, CACHE, ENDPOINT, SCHEMA)
"""The parts that can be left out. A refusal counts for the first that fits: guesses come last."""


class Attempt:
    """One try of a request: what it leaves out, and what it has.

    Args:
        omitted: The parts to leave out.
        refused: Those of them that were refused in this request, not in an earlier one.
    """

    def __init__(
        self, omitted: Iterable[RequestPart] = (), refused: tuple[RequestPart, ...] = ()
    ) -> None:
        self.refused = refused
        self._omitted = frozenset(omitted)
        self._sent: set[RequestPart] = set()

    def sends(self, part: RequestPart) -> bool:
        """Note that a request has a part; return whether it is sent, or to be left out."""
        if part in self._omitted:
            return False
        self._sent.add(part)
        return True

    def after(self, error: ModelError) -> "Attempt | None":
        """Return the next try after a refusal; None if it is about nothing to leave out."""
        if len(self.refused) == MOST_OMISSIONS:
            return None
        for part in PARTS:
            if part in self._sent and part.is_refused(error):
                return Attempt(self._omitted | {part}, (*self.refused, part))
        return None

    def lost(self, part: RequestPart) -> None:
        """Note that a part was refused, and left out without us."""
        self.refused = (*self.refused, part)

    def warnings(self, provider: str, model: str) -> list[str]:
        """Return what to say about the answer of this try."""
        given = [part.warning for part in self.refused if part.warning is not None]
        variable = f"MOCHI_PROVIDERS__{provider.upper()}__API"
        return [
            warning.format(provider=provider, model=model, variable=variable) for warning in given
        ]
