"""Opens pydantic-ai's models of a vendor and asks them. Imported lazily."""

import warnings
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import httpx2
from msgspec import structs
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import UnsupportedSettingWarning
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from models_app.inserted_files import InsertedFiles
from models_app.language_model import ANY_OBJECT, Delta, ModelRequest, SchemaLeftOut, Warned
from models_app.vendors.deltas import DeltaReader
from models_app.vendors.exceptions import typed_errors
from models_app.vendors.history import model_messages, request_parameters
from models_app.vendors.http_client import inserted_files, opened_responses
from models_app.vendors.refusals import CACHE, ENDPOINT, REASONING, SCHEMA, SUMMARY, Attempt
from models_app.vendors.settings import prompt_cache
from models_app.vendors.signatures import has_state, without_state
from models_app.vendors.vendor import ModelFactory, Vendor
from sessions_app.messages import ToolMessage

NO_KEY = "no-key"
"""Sent to servers that need none: the SDKs insist on a key."""

_NO_SCHEMA = (
    "'{}' takes no JSON schema for answers of {}. It was asked for JSON in words, and its answer "
    "may not fit the schema."
)
_NO_STOP = (
    "`stop` was left out: the Responses API of '{}' has none, so an answer may go on after it."
)
_NOT_BY_RESPONSES = (
    "stop_sequences", "seed", "presence_penalty", "frequency_penalty", "top_k", "extra_body",
)  # fmt: skip
_REASONING_TOKENS = 25_000
"""OpenAI's advice on what to reserve for reasoning, which counts into the limit of an answer."""
_SAMPLING = ("temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty")


def open_models(vendor: Vendor, key: str | None, http_client: httpx2.AsyncClient) -> ModelFactory:
    """Import the vendor's SDK and return a factory of its models. Takes seconds: call in a thread.

    Args:
        vendor: The vendor whose models to open.
        key: Its key; None for a server that needs none.
        http_client: The connections to use; their owner closes them.
    """
    # A setting that a model does not have is left out; a warning for each request would be noise.
    warnings.filterwarnings("ignore", category=UnsupportedSettingWarning)
    # Google's SDK warns of each reason for an answer's end that is newer than it.
    warnings.filterwarnings("ignore", message=".* is not a valid FinishReason")
    # So does pydantic-ai of events and items of OpenAI's that are newer than it.
    warnings.filterwarnings("ignore", message="Handling of this .* type is not yet implemented")
    # Thinking of before a compaction is left out of a repeated request by pydantic-ai, or by us.
    warnings.filterwarnings("ignore", message=".* rejected a replayed thinking block")
    return vendor.open_models(key or NO_KEY, http_client)


async def answer(
    vendor: Vendor,
    request: ModelRequest,
    make_model: ModelFactory,
    key: str | None,
    attempt: Attempt,
) -> AsyncGenerator[Sequence[Delta], None]:
    """Send a request, without what the attempt leaves out, and yield batches of deltas.

    Raises:
        ModelError: A subclass, before the first batch or between batches.
    """
    by_responses = _uses_responses(vendor, request.model, attempt)
    reader = DeltaReader(vendor.name, request.model, by_responses=by_responses)
    files = InsertedFiles(request.files)
    if has_state(request.messages) and not attempt.sends(REASONING):
        request = structs.replace(request, messages=without_state(request.messages))
    messages = model_messages(
        request.messages, vendor, request.model, files.stand_ins, by_responses=by_responses
    )
    opened: list[httpx2.Response] = []
    with typed_errors(vendor, request.model, key):
        try:
            model = make_model(request.model, by_responses)
            options = vendor.settings(request) | _cached(vendor, request, attempt)
            notices = _warnings(vendor, request, options, attempt, by_responses=by_responses)
            settings = _fit(options, model, attempt, by_responses=by_responses)
            parameters = _parameters(vendor, request, model, attempt, notices)
            opened_responses.set(opened)
            inserted_files.set(files if request.files else None)
            async with model_request_stream(
                model,
                messages,
                model_settings=settings,
                model_request_parameters=parameters,
                instrument=False,
            ) as stream:
                opened_responses.set(None)
                inserted_files.set(None)
                async for event in stream:
                    if (delta := reader.read(event)) is not None:
                        yield [*notices, delta]
                        notices = []
                _note_lost_thinking(message := stream.get(), attempt)
                last = [*notices, *reader.finish(message)]
        finally:
            inserted_files.set(None)
            for response in opened:
                await response.aclose()
    yield last


def _note_lost_thinking(message: ModelResponse, attempt: Attempt) -> None:
    """Note if pydantic-ai has repeated the request by itself, so that Anthropic drops thinking."""
    changes = (message.provider_details or {}).get("input_transformations", ())
    if any(change["type"] == "thinking_dropped" for change in changes):
        attempt.lost(REASONING)


def _parameters(
    vendor: Vendor, request: ModelRequest, model: Model, attempt: Attempt, notices: list[Delta]
) -> ModelRequestParameters:
    """Return the parameters of a request; add to the notices if they lack its schema."""
    takes_schema = _takes_schema(vendor, request, model)
    schema = request.answer_schema if takes_schema and attempt.sends(SCHEMA) else None
    if request.tools and schema is not request.answer_schema:
        notices.append(SchemaLeftOut())
    elif takes_schema and schema is None:
        notices.append(Warned(_NO_SCHEMA.format(vendor.name, request.model)))
    return request_parameters(request.tools, schema)


def _cached(vendor: Vendor, request: ModelRequest, attempt: Attempt) -> dict[str, Any]:
    """Return the settings that keep the beginning of a request in the vendor's cache."""
    kept_for = prompt_cache(request)
    settings = vendor.cache_settings(kept_for, request) if kept_for else {}
    return settings if settings and attempt.sends(CACHE) else {}


def _takes_schema(vendor: Vendor, request: ModelRequest, model: Model) -> bool:
    """Return whether a request has a schema that this model takes.

    That of any object is not: vendors close it.
    """
    profile = model.profile
    takes_both = vendor.fits_answers_beside_tools and profile.get(
        "google_supports_tool_combination", True
    )
    fits = profile.get("supports_json_schema_output", False) and (takes_both or not request.tools)
    return bool(fits) and request.answer_schema not in (None, ANY_OBJECT)


def _uses_responses(vendor: Vendor, model: str, attempt: Attempt) -> bool:
    """Return whether a request goes to OpenAI's Responses; a configured choice is final."""
    if not vendor.uses_responses(model):
        return False
    return vendor.api == "responses" or attempt.sends(ENDPOINT)


def _warnings(
    vendor: Vendor,
    request: ModelRequest,
    settings: dict[str, Any],
    attempt: Attempt,
    *,
    by_responses: bool,
) -> list[Delta]:
    """Return what to say about the answer to a request that loses some of its parts."""
    texts = attempt.warnings(vendor.name, request.model)
    goes_on = bool(request.messages) and isinstance(request.messages[-1], ToolMessage)
    if by_responses and "stop_sequences" in settings and not goes_on:  # once in a turn
        texts.append(_NO_STOP.format(vendor.name))
    return [Warned(text) for text in texts]


def _fit(
    settings: dict[str, Any], model: Model, attempt: Attempt, *, by_responses: bool
) -> ModelSettings:
    """Return the settings without those that this model would refuse or warn about."""
    profile = cast("dict[str, Any]", model.profile)
    if "anthropic_supports_adaptive_thinking" in profile:
        _fit_anthropic(settings, profile)
    if not profile.get("openai_supports_reasoning"):
        _drop(settings, "openai_text_verbosity")  # older models may answer 400
    if by_responses:
        _fit_responses(settings, profile, attempt)
    if _reasons(settings, profile):
        _drop(settings, *_SAMPLING)
    return cast("ModelSettings", settings)


def _fit_responses(settings: dict[str, Any], profile: dict[str, Any], attempt: Attempt) -> None:
    _drop(settings, *_NOT_BY_RESPONSES)
    settings |= {"openai_store": False, "openai_prompt_cache_diagnostics": False}
    thinking = settings.get("thinking")
    always = profile.get("thinking_always_enabled") and not profile.get("openai_reasoning_efforts")
    if thinking is False and always:
        del settings["thinking"]  # what is its least effort is not known
    if _reasons(settings, profile):
        if "max_tokens" in settings:
            settings["max_tokens"] += _REASONING_TOKENS
        if thinking is not False and attempt.sends(SUMMARY):
            settings["openai_reasoning_summary"] = "auto"


def _reasons(settings: dict[str, Any], profile: dict[str, Any]) -> bool:
    """Return whether a model of OpenAI's reasons with these settings; some always do."""
    if not profile.get("openai_supports_reasoning"):
        return False
    if settings.get("openai_reasoning_effort"):
        return True
    thinking = settings.get("thinking")
    if thinking is None:
        return bool(profile.get("thinking_enabled_by_default", False))
    return thinking is not False or not profile.get("openai_supports_reasoning_effort_none", False)


def _fit_anthropic(settings: dict[str, Any], profile: dict[str, Any]) -> None:
    from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP  # noqa: PLC0415 - lazy

    if profile.get("anthropic_disallows_budget_thinking"):
        _drop(settings, "anthropic_thinking")
    if profile.get("anthropic_disallows_sampling_settings"):
        _drop(settings, "temperature", "top_p", "top_k")
    if thinking := settings.get("thinking"):
        _drop(settings, "temperature", "top_p", "top_k")  # refused while thinking is on
        explicit = settings.get("anthropic_thinking")
        adaptive = profile.get("anthropic_supports_adaptive_thinking") and explicit is None
        if "max_tokens" in settings and not adaptive:
            # Anthropic counts thinking into it, and people mean the answer.
            budget = explicit and explicit["budget_tokens"]
            settings["max_tokens"] += budget or ANTHROPIC_THINKING_BUDGET_MAP[thinking]


def _drop(settings: dict[str, Any], *names: str) -> None:
    for name in names:
        settings.pop(name, None)
