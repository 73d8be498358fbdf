"""Keeps the answers of a turn's model, and makes the messages that are saved of them."""

import msgspec

from chat.stream.usage import TurnUsage
from chat.turn.job import TurnJob
from chat.turn.model_answer import ModelAnswer
from chat.turn.usage import usage_of_turn, usages_of
from sessions_app.ids_and_clock import new_message_id, utc_now
from sessions_app.messages import AssistantMessage


class TurnAnswers:
    """The answers of a turn in this process, in order.

    Attributes:
        next_id: The id of the next answer.
        begun: The answer that another process began and the model goes on with, if there is one.
    """

    def __init__(self, job: TurnJob) -> None:
        self._job = job
        self._call_ids = set(job.call_ids)
        self._answers: list[ModelAnswer] = []
        self.begun: ModelAnswer | None = None
        self.next_id = new_message_id()
        if job.resumed is not None and job.resumed.begun is not None:
            begun = job.resumed.begun
            self.next_id = begun.message_id
            self.begun = self.begin(job.resumed.next_index)
            self.begun.take_up(begun.content, begun.thinking or "")

    @property
    def is_empty(self) -> bool:
        """Return whether the model was not asked yet."""
        return not self._answers

    def begin(self, first_call_index: int) -> ModelAnswer:
        """Return a new answer, whose calls are numbered from there."""
        answer = ModelAnswer(self.next_id, first_call_index, self._call_ids)
        self._answers.append(answer)
        self.next_id = new_message_id()
        return answer

    def message(self, answer: ModelAnswer, **how: bool) -> AssistantMessage:
        """Return the message to save; the first one has the texts that it replaces as variants."""
        message = answer.message(
            model=self._job.session.metadata.model,
            timestamp=utc_now(),
            turn_id=self._job.turn_id,
            **how,
        )
        resumed, first = self._job.resumed, next(iter(self._answers), answer)
        if resumed is None or not resumed.discarded or first is not answer:
            return message
        variants = tuple((each,) for each in reversed(resumed.discarded))
        return msgspec.structs.replace(message, variants=variants)

    def usage(self) -> TurnUsage | None:
        """Return the usage of the turn so far; what another process's last call cost is unknown."""
        own = [answer.usage for answer in self._answers]
        if self._job.resumed is None:
            return usage_of_turn(own)
        before = usages_of(self._job.session, self._job.turn_id)
        usage = usage_of_turn([*before, *own])
        return usage and msgspec.structs.replace(usage, cost_usd=None)
