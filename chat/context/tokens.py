"""Estimates how many tokens a request will cost. Pure.

Four characters a token, and a few tokens around each message; corrected by what the provider
counted of earlier requests, which shows the model's own measure for the texts of this session.
A file of text is text, by its size. Images and PDFs are counted and corrected apart
(``attachment_costs.py``): they would spoil the measure of the texts (docs/decisions/0075).
"""

from collections.abc import Iterator, Sequence

import msgspec

from chat.context.attachment_costs import (
    TAKES_EVERYTHING,
    AttachmentRules,
    tokens_of,
    tokens_of_files,
)
from sessions_app.attachments.media_type import PDF, TEXT
from sessions_app.attachments.references import is_whole_result
from sessions_app.messages import (
    AssistantMessage,
    Attachment,
    Message,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

CHARACTERS_PER_TOKEN = 4.0
TOKENS_AROUND_MESSAGE = 4
"""Tokens that chat templates put around a message: its role, its beginning and end."""

SMALLEST_SAMPLE = 50
"""Estimated tokens below which a count says little about the rate."""

MEASURED_ANSWERS = 32
SHARE_OF_EXTREMES = 4.0
SHARE_OF_EXTREME_FILES = 8.0
"""One model of Ollama's counts 256 tokens an image, another one 6,400."""

CHARACTERS_AROUND_FILE = 20
"""Characters that come with a file of text and its name: a fence, line breaks."""


def characters_of(message: Message) -> int:
    """Return how many characters of a message are sent: its text, texts attached to it, its calls.

    Its reasoning is not sent.
    """
    return len(message.content) + _characters_beside(message)


def _characters_beside(message: Message) -> int:
    count = 0
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            count += len(call.name) + len(msgspec.json.encode(call.arguments, enc_hook=dict))
    elif isinstance(message, ToolMessage):
        count += len(message.tool_name)
    if message.attachments:
        count += sum(
            _characters_of_file(each)
            for each in message.attachments
            if each.media_type == TEXT and not is_whole_result(message, each)
        )
    return count


def _characters_of_file(attachment: Attachment) -> int:
    return attachment.size + len(attachment.name) + CHARACTERS_AROUND_FILE


def estimate_text_file(attachment: Attachment) -> int:
    """Estimate the tokens of a file of text, which are among those of its message."""
    return int(_characters_of_file(attachment) / CHARACTERS_PER_TOKEN)


def estimate_message(message: Message) -> int:
    """Estimate the tokens of one message as it is sent."""
    return int(characters_of(message) / CHARACTERS_PER_TOKEN) + TOKENS_AROUND_MESSAGE


def estimate_messages(messages: Sequence[Message]) -> int:
    """Estimate the tokens of some messages as they are sent."""
    characters = sum([len(message.content) for message in messages])
    characters += sum(
        [
            _characters_beside(message)
            for message in messages
            if message.attachments or not isinstance(message, UserMessage)
        ]
    )
    return int(characters / CHARACTERS_PER_TOKEN) + TOKENS_AROUND_MESSAGE * len(messages)


def estimate_text(text: str) -> int:
    """Return about how many tokens a text has."""
    return int(len(text) / CHARACTERS_PER_TOKEN)


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
        counted_files: Tokens of images that the provider counted, as far as that can be told.
        estimated_files: Tokens that were estimated for them.
    """

    counted: int = 0
    estimated: int = 0
    answers: int = 0
    counted_files: int = 0
    estimated_files: int = 0

    @property
    def factor(self) -> float:
        """The factor from estimates to counts; 1.0 as long as too little was counted."""
        if self.estimated < SMALLEST_SAMPLE:
            return 1.0
        return _ratio(self.counted, self.estimated, SHARE_OF_EXTREMES)

    @property
    def file_factor(self) -> float:
        """The factor for images; 1.0 as long as none was counted."""
        return _ratio(self.counted_files, self.estimated_files, SHARE_OF_EXTREME_FILES)

    def correct(self, estimated: int) -> int:
        """Return an estimate of text in the model's measure."""
        return round(estimated * self.factor)

    def correct_files(self, estimated: int) -> int:
        """Return an estimate of images and PDFs in the model's measure."""
        return round(estimated * self.file_factor)


def _ratio(counted: int, estimated: int, extreme: float) -> float:
    if estimated <= 0 or counted <= 0:
        return 1.0
    return min(max(counted / estimated, 1 / extreme), extreme)


NOT_CALIBRATED = Calibration()


class _Interval(msgspec.Struct, frozen=True):
    """The tokens of all that was said between two answers, counted and estimated."""

    counted: int
    text: int
    files: int


def calibrate(
    messages: Sequence[Message],
    model: str,
    *,
    rules: AttachmentRules = TAKES_EVERYTHING,
    since: str = "",
) -> Calibration:
    """Learn a model's measure from the counts in a session's history.

    What the request of one answer had more than that of the answer before is what was said from
    the one to the other; so tools and system prompt, which both had, do not matter. Where that
    makes no sense (another model, history left out or cut off between the two), it is not counted.
    Where images were among it, what its text does not explain is theirs.

    Args:
        messages: The whole history, oldest first.
        model: The model's name, as answers bear it.
        rules: By whose measure images are estimated.
        since: When images were left out (UTC, ISO 8601): counts before and after do not compare.
    """
    counted = estimated = answers = 0
    with_files: list[_Interval] = []
    for earlier, later, said in _counted_pairs(messages, model):
        text = sum(map(estimate_message, said))
        files = _measurable(said, rules)
        more = (later.prompt_eval_count or 0) - (earlier.prompt_eval_count or 0)
        if files is None or earlier.timestamp <= since < later.timestamp:
            continue
        if files:
            with_files.append(_Interval(more, text, files))
        elif text / SHARE_OF_EXTREMES <= more <= text * SHARE_OF_EXTREMES:
            counted, estimated, answers = counted + more, estimated + text, answers + 1
        if answers + len(with_files) >= MEASURED_ANSWERS:
            break
    calibration = Calibration(counted=counted, estimated=estimated, answers=answers)
    return _with_files(calibration, with_files) if with_files else calibration


def _counted_pairs(
    messages: Sequence[Message], model: str
) -> Iterator[tuple[AssistantMessage, AssistantMessage, Sequence[Message]]]:
    """Yield two counted answers, and what was said from the one to the other; the last come first.

    The answer of another model in between parts them.
    """
    later: AssistantMessage | None = None
    later_at = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if not isinstance(message, AssistantMessage) or not message.prompt_eval_count:
            continue
        if message.model == model and later is not None:
            yield message, later, messages[index:later_at]
        later, later_at = (message if message.model == model else None), index


def _measurable(messages: Sequence[Message], rules: AttachmentRules) -> int | None:
    """Return the estimate of the images that were sent; None where PDFs were among them.

    How many pages a PDF has is a guess, which would spoil the measure of images.
    """
    attached = [message for message in messages if message.attachments]
    if not attached:
        return 0
    files = [each for message in attached for each in message.attachments]
    sent = [each for each in files if rules.takes_file(each)]
    if any(each.media_type == PDF for each in sent):
        return None
    return sum(tokens_of(each, rules.vendor) for each in sent)


def _with_files(calibration: Calibration, intervals: Sequence[_Interval]) -> Calibration:
    """Return the calibration with what the texts do not explain of these intervals."""
    counted = estimated = 0
    for interval in intervals:
        rest = interval.counted - calibration.correct(interval.text)
        most = interval.files * SHARE_OF_EXTREME_FILES
        if interval.files / SHARE_OF_EXTREME_FILES <= rest <= most:
            counted, estimated = counted + rest, estimated + interval.files
    return msgspec.structs.replace(calibration, counted_files=counted, estimated_files=estimated)


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
    vendor: str | None = None,
) -> Estimate:
    """Estimate a request: what the provider counted last, and what came after.

    Args:
        messages: What will be sent.
        tools: The tools that will be offered.
        model: The model's name, as answers bear it: another model counts otherwise.
        calibration: The model's measure.
        since: When the beginning of ``messages`` became what it is (UTC, ISO 8601); what was
            counted before is no count of it.
        vendor: By whose measure images and PDFs are counted; None where there are none.
    """
    for index in range(len(messages) - 1, -1, -1):
        answer = messages[index]
        if not isinstance(answer, AssistantMessage) or not answer.prompt_eval_count:
            continue
        if answer.model != model or answer.timestamp <= since:
            break
        counted = answer.prompt_eval_count + _sent_again(answer, calibration)
        rest = estimate_whole(
            messages[index + 1 :], (), calibration=calibration, vendor=vendor
        ).tokens
        return Estimate(tokens=counted + rest, counted=counted, estimated=rest)
    return estimate_whole(messages, tools, calibration=calibration, vendor=vendor)


def estimate_whole(
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    calibration: Calibration,
    vendor: str | None = None,
) -> Estimate:
    """Estimate a request of which nothing was counted; the arguments are ``estimate_request``'s."""
    tokens = calibration.correct(estimate_messages(messages) + estimate_tools(tools))
    if vendor is not None:
        tokens += calibration.correct_files(tokens_of_files(messages, vendor))
    return Estimate(tokens=tokens, counted=0, estimated=tokens)


def _sent_again(answer: AssistantMessage, calibration: Calibration) -> int:
    """Return the tokens of an answer in the next request, which does not hold its reasoning."""
    if answer.eval_count is not None and not answer.thinking:
        return answer.eval_count
    estimated = calibration.correct(estimate_message(answer))
    return estimated if answer.eval_count is None else min(answer.eval_count, estimated)
