"""Serves the pages of links: a question with two buttons, and what became of it.

Only a POST decides, since chats and mail scanners open links to preview them. A page has no script,
is not stored, and tells nobody where it was opened from (docs/decisions/0199).
"""

import asyncio
import json
import logging
from urllib.parse import parse_qs

from django.core.signing import BadSignature
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chat.approvals.confirmation import Confirmation, Decision
from chat.approvals.forms import content_of, fields_of
from chat.approvals.links import ApprovalLink, read_link
from chat.approvals.service import ConfirmationService
from chat.errors import ConfirmationAlreadyDecided, ConfirmationExpired, ConfirmationNotFound
from mochi_project.app import service
from mochi_project.errors.handlers import not_allowed
from mochi_project.http.page import plain_page
from mochi_project.principal import acting_for
from mochi_project.routing import needs
from mochi_project.screen_text import printable, steering_escaped, unseen_escaped
from sessions_app.errors import SessionError, ValidationFailed

logger = logging.getLogger(__name__)

_CODES = {
    409: "CONFIRMATION_ALREADY_DECIDED",
    422: "VALIDATION_ERROR",
    503: "STORAGE_UNAVAILABLE",
}
_TITLES = {
    "call": "A tool needs your approval",
    "input": "A tool needs values from you",
    "url": "A tool asks you to open an address",
}
_DONE = {"call": "Approved: the tool runs.", "input": "Sent.", "url": "Noted: the tool goes on."}
_NOTHING = "There is nothing to answer here."
_DECIDED = "This question has been answered. It can be answered once."


@needs(token=False, body="form")
async def approval_page(request: HttpRequest, token: str) -> HttpResponse:
    """Show the question of a link, and record the answer that its form posts."""
    if request.method not in {"GET", "HEAD", "POST"}:
        return not_allowed(request.method, ["GET", "POST"])
    try:
        link = await asyncio.to_thread(read_link, token)  # the first reads the secret key
        with acting_for(link.owner):
            return await _answer(request, link)
    except BadSignature:
        status, title = 404, _NOTHING
    except (SessionError, ConfirmationNotFound, ConfirmationExpired):
        status, title = 410, _NOTHING
    except ConfirmationAlreadyDecided:
        status, title = 409, _DECIDED
    except Exception:  # not passed on: what handles it logs the path, which has the token
        logger.exception("a link could not be used")
        status, title = 503, "This can't be answered just now. Try again in a moment."
    return _page(status, title)


async def _answer(request: HttpRequest, link: ApprovalLink) -> HttpResponse:
    confirmations = service(ConfirmationService)
    question = next(filter(link.is_to, await confirmations.pending(link.session_id)), None)
    if question is None:
        for closed in filter(link.is_to, await confirmations.answered(link.session_id)):
            if await confirmations.is_answered_by_person(closed):
                return _page(409, _DECIDED)
        return _page(410, _NOTHING)
    if request.method != "POST":
        return _page(200, _TITLES[question.kind], _form(question))
    posted = parse_qs(request.body.decode("utf-8", "replace"), keep_blank_values=True)
    given = posted.get("decision")
    if given not in (["approve"], ["deny"]):
        return _page(422, "Choose one of the two buttons.", _form(question))
    approved = given == ["approve"]
    content = content_of(posted, question.schema) if approved and question.schema else None
    name = link.confirmation_id
    decision = Decision(confirmation_id=name, approved=approved, content=content)
    try:
        await confirmations.decide(link.session_id, decision, is_final=True)
    except ValidationFailed as error:
        return _page(422, error.message, _form(question))
    return _page(200, _DONE[question.kind] if approved else "Denied.")


def _form(question: Confirmation) -> SafeString:
    yes, no = ("Approve", "Deny") if question.kind == "call" else ("Accept", "Decline")
    return format_html(
        '{}<form method="post">{}<button name="decision" value="approve">{}</button>'
        '<button name="decision" value="deny" formnovalidate>{}</button></form>',
        _asked(question) if question.kind == "call" else _asked_by_server(question),
        fields_of(question.schema) if question.schema else "",
        yes,
        no,
    )


def _asked(question: Confirmation) -> SafeString:
    arguments = json.dumps(dict(question.arguments), indent=2, ensure_ascii=False, default=dict)
    agent = question.agent_name
    return format_html(
        "<p>{} wants to run <b>{}</b> with:</p><pre>{}</pre>",
        "The model" if agent is None else f"The agent {unseen_escaped(agent)}",
        unseen_escaped(question.tool_name),
        steering_escaped(arguments),
    )


def _asked_by_server(question: Confirmation) -> SafeString:
    """Return the words of a server, the address that it names, and a warning of secrets."""
    secret, url = question.secret_names, question.url
    return format_html(
        "<p>The server <b>{}</b> asks, while it runs {}:</p><pre>{}</pre>{}{}",
        unseen_escaped(question.server or ""),
        unseen_escaped(question.tool_name),
        printable(question.message or ""),
        format_html('<p><a href="{}" rel="noreferrer noopener">{}</a></p>', url, url)
        if url
        else "",
        format_html("<p><b>Don't give secrets: {}</b></p>", ", ".join(secret)) if secret else "",
    )


def _page(status: int, title: str, content: SafeString | str = "") -> HttpResponse:
    return plain_page(status, title, content, code=_CODES.get(status, "NOT_FOUND"))
