"""Converts a model's streamed text and reasoning to AG-UI events. Pure."""

from chat.stream.encoding import without_leading_space
from dialects_app.ag_ui.frames import TAIL, Frames, delta_head


class TextEvents:
    """Makes the events of the texts and the reasoning of a turn's answers.

    A text stays open while the model reasons in between; reasoning ends when text begins.

    Args:
        frames: Receives the events.

    Attributes:
        message_id: The current answer.
    """

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self.message_id = ""
        self._known: set[str] = set()
        self._thoughts = 0
        self._text_head = ""
        self._thought = ""
        self._thought_head = ""

    def begin_answer(self, message_id: str) -> None:
        """Begin the next answer; close what is open of the previous one."""
        self.end()
        self.message_id = message_id
        self._thoughts = 0

    def say(self, literal: str) -> None:
        """Send the next piece of text, a JSON string. The hot path."""
        if self._thought_head or not self._text_head:
            begin = self._begin(literal)
            if begin is None:
                return
            literal = begin
        self._frames.add_encoded(f"{self._text_head}{literal}{TAIL}")

    def think(self, literal: str) -> None:
        """Send the next piece of reasoning, a JSON string. The hot path."""
        if not self._thought_head:
            self._begin_thought()
        self._frames.add_encoded(f"{self._thought_head}{literal}{TAIL}")

    def note(self, message_id: str) -> None:
        """Note that the client has a message because it has one of its calls."""
        self._known.add(message_id)

    def require(self, message_id: str) -> None:
        """Send an answer even if it has no text, because its id is in the session."""
        if message_id not in self._known:
            self.begin_answer(message_id)
            self._begin_text()

    def say_for_user(self, message_id: str, text: str) -> None:
        """Send a message of a user, who spoke while the run went on."""
        self.end()
        self._frames.add("TEXT_MESSAGE_START", messageId=message_id, role="user")
        if text:
            self._frames.add("TEXT_MESSAGE_CONTENT", messageId=message_id, delta=text)
        self._frames.add("TEXT_MESSAGE_END", messageId=message_id)

    def end(self) -> None:
        """Close what is open."""
        self._end_thought()
        if self._text_head:
            self._frames.add("TEXT_MESSAGE_END", messageId=self.message_id)
            self._text_head = ""

    def _begin(self, literal: str) -> str | None:
        """Start a text, or continue it after reasoning; return the piece, or None if it is skipped.

        Text that is only white space is skipped, since the session does not save it.
        """
        if not self._text_head:
            begin = without_leading_space(literal)
            if begin is None:
                return None
            literal = begin
        self._end_thought()
        self._begin_text()
        return literal

    def _begin_text(self) -> None:
        if self._text_head:
            return
        self._known.add(self.message_id)
        self._frames.add("TEXT_MESSAGE_START", messageId=self.message_id, role="assistant")
        self._text_head = delta_head("TEXT_MESSAGE_CONTENT", self.message_id)

    def _begin_thought(self) -> None:
        self._thoughts += 1
        self._thought = reasoning_id(self.message_id, self._thoughts)
        self._frames.add("REASONING_START", messageId=self._thought)
        self._frames.add("REASONING_MESSAGE_START", messageId=self._thought, role="reasoning")
        self._thought_head = delta_head("REASONING_MESSAGE_CONTENT", self._thought)

    def _end_thought(self) -> None:
        if self._thought_head:
            self._frames.add("REASONING_MESSAGE_END", messageId=self._thought)
            self._frames.add("REASONING_END", messageId=self._thought)
            self._thought_head = ""


def reasoning_id(message_id: str, count: int = 1) -> str:
    """Return the id of an answer's reasoning; ``count`` numbers its parts."""
    return f"reasoning-{message_id}" if count == 1 else f"reasoning-{message_id}-{count}"
