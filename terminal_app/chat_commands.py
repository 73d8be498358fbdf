"""Runs the commands that are typed within a conversation: ``/model``, ``/edit``, ``/retry``."""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from chat.inbox.service import InboxService
from chat.stream.events import Event
from models_app.catalogue import ModelCatalogue
from models_app.language_model import Think, ThinkLevel
from sessions_app.inbox import EMPTY_INBOX
from sessions_app.suggestions import suggestion
from terminal_app.calls import shown_text
from terminal_app.console import Console
from terminal_app.conversation import Conversation

HELP = """\
/model [NAME]     say which models there are, or let another one answer
/attach [FILE]    send an image or a file with your next message
/think [HOW]      let the model reason: on, off, or minimal to max
/edit             change your last message, and have it answered
/retry            answer the last message again, or go on where approval is due
/queue            list the messages that wait, also while an answer comes
/queue up 2       do something with one of them: up, drop, steer, now (stops the
                  answer), edit 2 TEXT; /queue resume after a stop or a failure
/follow           show the answer that another program gets in this session
/new              begin a new conversation
/help             show this
/quit             end (or CTRL-D)
Enter sends; while an answer comes it queues, and twice has the model read it
before its next step. Alt-Enter or CTRL-J begins a new line, as Enter does
between \"\"\" and \"\"\". CTRL-C stops an answer and keeps what there is of it.
Up and down find what you typed before. Tab completes commands, models and files."""
QUEUE = "/queue"
LISTED_CHARACTERS = 70
NAMES = (
    *("/attach", "/edit", "/follow", "/help", "/model", "/new"),
    *("/queue", "/quit", "/retry", "/think"),
)
_SAME = {"/exit": "/quit", "/bye": "/quit", "/?": "/help"}
_WHEN = {"steer": " (read before the next step)", "interrupt": " (next)"}
_THINK: Mapping[str, Think] = {
    "on": True,
    "off": False,
    **{level: level for level in get_args(ThinkLevel)},
}


class Quit(Exception):
    """The person ends the conversation."""


class ChatCommands:
    """Runs the commands of one conversation.

    Args:
        conversation: The conversation.
        models: The models that may answer.
        console: Where answers to commands go.
        inbox: What waits for the end of an answer.
        read: Lets the person edit a text, and returns it as it is then.
    """

    def __init__(
        self,
        conversation: Conversation,
        models: ModelCatalogue,
        console: Console,
        inbox: InboxService,
        read: Callable[[str], Awaitable[str]],
    ) -> None:
        self._conversation = conversation
        self._models = models
        self._console = console
        self._inbox = inbox
        self._read = read
        self._run: Mapping[str, Callable[[str], Awaitable[Event | None]]] = {
            "/attach": self._attach,
            "/edit": self._edit,
            "/follow": self._follow,
            "/help": self._help,
            "/model": self._model,
            "/new": self._new,
            QUEUE: self._queue,
            "/quit": self._quit,
            "/retry": self._retry,
            "/think": self._think,
        }

    async def run(self, typed: str) -> Event | None:
        """Run a command; return the last event of the turn that it ran, if it ran one.

        Raises:
            Quit: The person ends the conversation.
            MochiError: The command failed.
        """
        name, _, rest = typed.strip().partition(" ")
        run = self._run.get(_SAME.get(name, name))
        if run is None:
            hint = suggestion(name, NAMES) or "; /help lists the commands"
            self._console.error(f"There is no command {name}{hint}")
            self._console.info("To send it as a message, put a space before it.")
            return None
        return await run(rest.strip())

    async def _help(self, _: str) -> None:
        self._console.info(HELP)

    async def _quit(self, _: str) -> None:
        raise Quit

    async def _new(self, _: str) -> None:
        left = await self._conversation.begin_anew()
        self._console.info("A new conversation.")
        if left is not None:
            self._console.info(f"`mochi-server chat {left}` continues the one before.")

    async def _follow(self, _: str) -> Event | None:
        if not await self._conversation.is_busy():
            self._console.info("No other program is getting an answer in this session.")
            return None
        return await self._conversation.follow()

    async def _retry(self, _: str) -> Event | None:
        if await self._conversation.editable() is None:
            self._console.info("There are no messages yet.")
            return None
        return await self._conversation.retry()

    async def _edit(self, _: str) -> Event | None:
        text = await self._conversation.editable()
        if text is None:
            self._console.info("There are no messages yet.")
            return None
        edited = await self._read(text)
        if not edited.strip():
            self._console.info("Nothing changed.")
            return None
        return await self._conversation.edit(edited)

    async def _attach(self, name: str) -> None:
        if name:
            try:
                await self._conversation.attach(Path(_unquoted(name)))
            except OSError as error:
                self._console.error(f"{name}: {error.strerror}.")
                return
        waiting = self._conversation.attachments
        names = ", ".join(attachment.name for attachment in waiting)
        self._console.info(f"With your next message: {names or 'nothing'}.")

    async def _queue(self, typed: str) -> None:
        """List what waits, after a change such as ``up 2``, ``edit 1 TEXT`` or ``resume``."""
        if (session_id := self._conversation.session_id) is None:
            self._console.info("There are no messages yet.")
            return
        action, number, text = [*typed.split(maxsplit=2), "", "", ""][:3]
        index = int(number) - 1 if number.isdecimal() else -1
        changes: Mapping[str, Mapping[str, Any]] = {
            "edit": {"content": text},
            "now": {"when_busy": "interrupt"},
            "steer": {"when_busy": "steer"},
            "up": {"position": index},
        }
        waiting = (await self._inbox.listing(session_id)).messages
        self._conversation.goes_on |= action in ("now", "resume")
        if action == "resume":
            await self._inbox.resume(session_id)
        elif action and not (number and action in (*changes, "drop")):
            self._console.error(f"/queue {typed}: /help says how to change what waits.")
        elif action == "edit" and not text:
            self._console.error(f"Say what it becomes: /queue edit {number} TEXT")
        elif action and not 0 <= index < len(waiting):
            self._console.error(f"There is no message {shown_text(number)}.")
        elif action == "drop":
            await self._inbox.delete(session_id, waiting[index].message_id)
        elif action:
            message_id = waiting[index].message_id
            await self._inbox.edit(session_id, message_id, **changes[action])
        if not await self.list_waiting():
            self._console.info("No message waits.")

    async def list_waiting(self) -> bool:
        """List the messages that wait; return whether any do."""
        session_id = self._conversation.session_id
        inbox = EMPTY_INBOX if session_id is None else await self._inbox.listing(session_id)
        for number, message in enumerate(inbox.messages, 1):
            names = "".join(f" [{each.name}]" for each in message.attachments)
            text = shown_text(f"{message.content}{names}")[:LISTED_CHARACTERS]
            self._console.info(f"{number}. {text}{_WHEN.get(message.when_busy, '')}")
        if inbox.paused and inbox.error:
            self._console.info(shown_text(f"{inbox.error.get('message')}"))
        if inbox.paused:
            self._console.info("They are paused; /queue resume has them answered.")
        return bool(inbox.messages)

    async def _model(self, name: str) -> None:
        if name:
            await self._conversation.use_model(name)
            self._console.info(f"{name} answers from now on.")
            return
        listing = await self._models.listing()
        for model in listing.models:
            mark = "*" if model.name == self._conversation.model else " "
            self._console.info(f"{mark} {model.name}")
        for missing in listing.unavailable:
            self._console.info(f"  {missing.provider}: {missing.message}")
        if all(model.name != self._conversation.model for model in listing.models):
            self._console.info(f"* {self._conversation.model}")

    async def _think(self, how: str) -> None:
        if how:
            if how not in _THINK:
                self._console.error(f"Say how to think: {', '.join(_THINK)}.")
                return
            self._conversation.think = _THINK[how]
        think = self._conversation.think
        now = next((word for word, value in _THINK.items() if value is think), "as the model likes")
        self._console.info(f"Thinking: {now}.")


async def words_after(models: ModelCatalogue, command: str) -> Iterable[str]:
    """Return the words that may follow a command."""
    if command == "/model":
        return [model.name for model in (await models.available()).models]
    return _THINK if command == "/think" else ()


def _unquoted(name: str) -> str:
    """Return a path as it is: terminals quote what is dropped on them."""
    try:
        words = shlex.split(name)
    except ValueError:  # a quotation mark that is part of the name
        return name
    return words[0] if len(words) == 1 else name


def is_command(typed: str) -> bool:
    """Return whether a line is a command: a slash and a name, which paths are not."""
    name = typed.split(maxsplit=1)[0]
    return typed.startswith("/") and "/" not in name[1:] and "\n" not in typed.strip()
