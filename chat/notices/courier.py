"""Sends notices, in the background worker: what they say is made when they are sent.

See docs/decisions/0201.
"""

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chat.approvals.confirmation import Confirmation
from chat.approvals.links import ApprovalLink
from chat.approvals.store import ConfirmationStore
from chat.approvals.waiting import still_asked
from chat.notices.formats import FORMATS, Delivery, Message
from chat.notices.notice import Notice
from chat.notices.notifier import TASK
from chat.settings import ChatSettings
from chat.storage.task_queue import TaskQueue
from chat.summaries.task_lock import held
from mochi_project.screen_text import unseen_escaped
from sessions_app.errors import MochiError, SessionNotFound
from sessions_app.session import Session
from sessions_app.store.repository import SessionReader

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 10.0
"""The time for a receiver's answer, connecting and looking its name up included."""
ARGUMENTS_BYTES = 2048
_TOLD = ("confirmation_id", "kind", "tool_name", "agent_name", "server", "message", "expires_at")


class NotTaken(Exception):
    """Raised if a receiver did not take a message; says why."""


@dataclass(frozen=True, slots=True)
class Courier:
    """Sends the notices of one owner.

    Attributes:
        settings: Name the receiver.
        sessions: The owner's sessions.
        confirmation_store: Their questions.
        queue: Has the tries that are to come.
        public_url: What links begin with; None for no links.
    """

    settings: ChatSettings
    sessions: SessionReader
    confirmation_store: ConfirmationStore
    queue: TaskQueue
    public_url: str | None

    async def deliver(self, notice: Notice) -> str:
        """Send what a notice is about, if it still is the case; return the outcome in a few words.

        What is not taken is tried again later, six times within an hour.
        """
        async with held(self.queue, TASK, str(notice)) as is_ours:
            if not is_ours:
                return "skipped: another worker sends it"
            begun = time.time()
            try:
                delivery = await asyncio.to_thread(self._delivery, notice)
                if delivery is None:
                    return "skipped: it is over"
                await send(delivery)
            except (NotTaken, MochiError) as error:
                return await asyncio.to_thread(self._put_off, notice, begun, error)
            return "done"

    def put_back(self, notice: Notice) -> None:
        """Queue a notice that could not be tried. Blocks."""
        self.queue.add(TASK, str(notice), delay_seconds=1.0)

    def _put_off(self, notice: Notice, begun: float, error: Exception) -> str:
        extra = {"session_id": notice.session_id, "event": notice.event, "reason": str(error)}
        at = notice.next_try_after(begun - notice.since)
        if at is None:
            logger.warning("a notification was given up", extra=extra)
            return "given up"
        logger.info("a notification was not taken; it is sent again", extra=extra)
        delay = max(notice.since + at - time.time(), 1.0)
        self.queue.add(TASK, str(notice), delay_seconds=delay)
        return "put off"

    def _delivery(self, notice: Notice) -> Delivery | None:
        """Return what to send; None if the question is answered, or the session deleted."""
        try:
            session = self.sessions.load(notice.session_id)
        except SessionNotFound:
            return None
        is_question = notice.event == "approval.asked"
        message = self._question(notice, session) if is_question else _turn(notice, session)
        if message is None:
            return None
        settings = self.settings
        secret = settings.webhook_secret.get_secret_value() if settings.webhook_secret else ""
        return FORMATS[settings.webhook_format](message, settings.webhook_url or "", secret)

    def _question(self, notice: Notice, session: Session) -> Message | None:
        pending = self.confirmation_store.pending(notice.session_id)
        question = next((each for each in pending if each.confirmation_id == notice.subject), None)
        if question is None or not still_asked(session, question):
            return None
        link = None
        if self.public_url is not None:
            link = ApprovalLink.to(question, notice.owner).url(self.public_url)
        arguments, name = _arguments(question), unseen_escaped(question.tool_name)
        is_call = question.kind == "call"
        data = _about(session, notice.owner, question.turn_id) | {
            "arguments": arguments,
            "link": link,
        }
        data |= {each: getattr(question, each) for each in _TOLD}
        return Message(
            id=question.confirmation_id,
            event="approval.asked",
            happened_at=question.created_at,
            headline=f"May {name} run?" if is_call else f"{name} asks you",
            text=_with_title(f"{name} {arguments}" if is_call else question.message or "", session),
            link=link,
            data={key: value for key, value in data.items() if value is not None},
        )


def _turn(notice: Notice, session: Session) -> Message:
    has_failed = notice.event == "turn.failed"
    return Message(
        id=f"{notice.subject}.{notice.event}",
        event=notice.event,
        happened_at=datetime.fromtimestamp(notice.since, UTC).isoformat(),
        headline=f"A turn failed ({notice.code})" if has_failed else "The answer is there",
        text=_with_title("", session),
        link=None,
        data=_about(session, notice.owner, notice.subject)
        | ({"error_code": notice.code} if has_failed else {}),
    )


def _about(session: Session, owner: str, turn_id: str) -> dict[str, Any]:
    return {
        "owner": owner,
        "session_id": session.session_id,
        "turn_id": turn_id,
        "title": session.metadata.title,
        "model": session.metadata.model,
    }


def _with_title(text: str, session: Session) -> str:
    title = session.metadata.title or session.session_id
    return f"{text}\n{title}".strip()


def _arguments(question: Confirmation) -> str:
    """Return the arguments as JSON, cut to what fits a phone."""
    encoded = unseen_escaped(json.dumps(dict(question.arguments), ensure_ascii=False, default=dict))
    cut = encoded.encode()[:ARGUMENTS_BYTES].decode(errors="ignore")
    return encoded if cut == encoded else f"{cut}…"


async def send(delivery: Delivery) -> None:
    """Send a request, of whose answer only the head is read; redirects are not followed.

    Raises:
        NotTaken: It was not answered with a 2xx status in time.
    """
    import aiohttp  # noqa: PLC0415 - only in workers that have something to send

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    headers = {"Content-Type": "application/json", **delivery.headers}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as client,
            client.post(
                delivery.url, data=delivery.body, headers=headers, allow_redirects=False
            ) as answer,
        ):
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        # Not its text, which may have the address.
        raise NotTaken(type(error).__name__) from None
    if not 200 <= status < 300:
        raise NotTaken(f"status {status}")
