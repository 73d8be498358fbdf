"""Estimates how many tokens a request will cost. Pure.

Four characters a token, and a few tokens around each message; corrected by what the provider
counted of earlier requests, which shows the model's own measure for the texts of this session.
"""

from collections.abc import Sequence

import msgspec

from sessions_app.messages import AssistantMessage, Message, ToolMessage, ToolSpec

CHARACTERS_PER_TOKEN = 4.0
TOKENS_AROUND_MESSAGE = 4
"""Tokens that chat templates put around a message: its role, its beginning and end."""

SMALLEST_SAMPLE = 50
"""Estimated tokens below which a count says little about the rate."""

MEASURED_ANSWERS = 32
SHARE_OF_EXTREMES = 4.0


def characters_of(message: Message) -> int:
    """Return how many characters of a message are sent: its text and its calls, no reasoning."""
    count = len(message.content)
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            count += len(call.name) + len(msgspec.json.encode(call.arguments, enc_hook=dict))
    elif isinstance(message, ToolMessage):
        count += len(message.tool_name)
    return count


def estimate_message(message: Message, *, chars_per_token: float = CHARACTERS_PER_TOKEN) -> int:
    """Estimate the tokens of one message as it is sent."""
    return int(characters_of(message) / chars_per_token) + TOKENS_AROUND_MESSAGE


def estimate_messages(
    messages: Sequence[Message], *, chars_per_token: float = CHARACTERS_PER_TOKEN
) -> int:
    """Estimate the tokens of some messages as they are sent."""
    characters = sum(map(characters_of, messages))
    return int(characters / chars_per_token) + TOKENS_AROUND_MESSAGE * len(messages)


def estimate_tools(tools: Sequence[ToolSpec]) -> int:
    """Estimate the tokens of the schemas of tools."""
    characters = sum(
        len(tool.name)
        + len(tool.description)
        + len(msgspec.json.encode(tool.parameters, enc_hook=dict))
        for tool in tools
    )
    return int(characters / CHARACTERS_PER_TOKEN)


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's counts against the estimates of the same texts, for one model.

    Attributes:
        counted: Tokens that the provider counted.
        estimated: Tokens that were estimated.
        answers: From how many answers that comes.
    """

    counted: int = 0
    estimated: int = 0
    answers: int = 0

    @property
    def factor(self) -> float:
        """The factor from estimates to counts; 1.0 as long as too little was counted."""
        if self.estimated < SMALLEST_SAMPLE or self.counted <= 0:
            return 1.0
        ratio = self.counted / self.estimated
        return min(max(ratio, 1 / SHARE_OF_EXTREMES), SHARE_OF_EXTREMES)

    def correct(self, estimated: int) -> int:
        """Return an estimate in the model's measure."""
        return round(estimated * self.factor)


NOT_CALIBRATED = Calibration()


def calibrate(messages: Sequence[Message], model: str) -> Calibration:
    """Learn a model's measure from the counts in a session's history.

    What the request of one answer had more than that of the answer before is what was said from
    the one to the other; so tools and system prompt, which both had, do not matter. Where that
    makes no sense (another model, history left out or cut off between the two), it is not counted.

    Args:
        messages: The whole history, oldest first.
        model: The model's name, as answers bear it.
    """
    counted = estimated = answers = 0
    later: AssistantMessage | None = None
    later_at = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if not isinstance(message, AssistantMessage) or not message.prompt_eval_count:
            continue
        if message.model == model and later is not None and later.prompt_eval_count is not None:
            more = later.prompt_eval_count - message.prompt_eval_count
            between = sum(map(estimate_message, messages[index:later_at]))
            if between / SHARE_OF_EXTREMES <= more <= between * SHARE_OF_EXTREMES:
                counted, estimated, answers = counted + more, estimated + between, answers + 1
        later, later_at = (message if message.model == model else None), index
        if answers >= MEASURED_ANSWERS:
            break
    return Calibration(counted=counted, estimated=estimated, answers=answers)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a request that was not sent yet.

    Attributes:
        tokens: All of them.
        counted: Those of them that the provider has counted already; 0 where it counted none.
        estimated: The others.
    """

    tokens: int
    counted: int
    estimated: int


def estimate_request(
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    model: str,
    calibration: Calibration = NOT_CALIBRATED,
    since: str = "",
) -> Estimate:
    """Estimate a request: what the provider counted last, and what came after.

    Args:
        messages: What will be sent.
        tools: The tools that will be offered.
        model: The model's name, as answers bear it: another model counts otherwise.
        calibration: The model's measure.
        since: When the beginning of ``messages`` became what it is (UTC, ISO 8601); what was
            counted before is no count of it.
    """
    for index in range(len(messages) - 1, -1, -1):
        answer = messages[index]
        if not isinstance(answer, AssistantMessage) or not answer.prompt_eval_count:
            continue
        if answer.model != model or answer.timestamp <= since:
            break
        counted = answer.prompt_eval_count + _sent_again(answer, calibration)
        rest = calibration.correct(estimate_messages(messages[index + 1 :]))
        return Estimate(tokens=counted + rest, counted=counted, estimated=rest)
    rest = calibration.correct(estimate_messages(messages) + estimate_tools(tools))
    return Estimate(tokens=rest, counted=0, estimated=rest)


def _sent_again(answer: AssistantMessage, calibration: Calibration) -> int:
    """Return the tokens of an answer in the next request, which does not hold its reasoning."""
    if answer.eval_count is not None and not answer.thinking:
        return answer.eval_count
    estimated = calibration.correct(estimate_message(answer))
    return estimated if answer.eval_count is None else min(answer.eval_count, estimated)
