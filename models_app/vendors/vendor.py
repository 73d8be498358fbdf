"""Defines ``Vendor``, a provider other than Ollama, and how a provider's API is used.

Each provider is a subclass in a module of its own, which ``registry`` lists (docs/decisions/0050).
Imported with the configuration, so SDKs and HTTP clients are imported inside of functions only.
"""

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

import msgspec

from models_app.errors import Unauthorized
from models_app.vendors.settings import common_settings, effective_think, options_named
from sessions_app.messages import Message

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

    from models_app.language_model import ModelRequest
    from models_app.vendors.event_streams import Translator

KeyLookup = Callable[[str], str | None]
"""From the name of an environment variable to its value."""

ModelFactory = Callable[[str, bool], "Model"]
"""From a model's bare name, and whether to ask it by Responses, to pydantic-ai's model."""

Api = Literal["auto", "responses", "chat"]
"""OpenAI's API to ask models by: Responses, Chat Completions, or whichever a model needs."""

ALL_BUT_THINKING = ("completion", "tools", "vision")
ALL_CAPABILITIES = ("completion", "tools", "thinking", "vision")
"""Also assumed of a model whose capabilities the provider does not state."""


# Anthropic accepts no other characters in a call's id, OpenAI no more of them.
_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
# Mistral's models accept nine letters or digits, wherever they run.
_MISTRALS = re.compile(r"(?:mis|minis|codes|devs|magis|pix|vox|mix)tral", re.IGNORECASE)
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


class ModelFacts(msgspec.Struct, frozen=True):
    """The facts that a provider's list states about a model.

    Attributes:
        capabilities: ``completion``, ``tools``, ``thinking``, ``vision``; empty for a model that
            can't chat.
        context_length: The longest context, as the provider wrote it: not validated yet.
    """

    capabilities: Sequence[str] = ALL_CAPABILITIES
    context_length: Any = None


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A provider other than Ollama: its address, its key, and its API.

    The defaults below are those of OpenAI's API, which most providers copy.

    Attributes:
        name: The prefix of its models' names, before the colon.
        base_url: The API's URL, without a slash at its end.
        key_variables: Environment variables that may hold the key, the first that is set counts;
            none for a server that needs no key.
        list_path: The path of the list of models.
        model_path: The path of one model, with a placeholder for its name; None where the API has
            none, or none that can be relied on: the list is searched instead.
        thinks_before_required_calls: Whether a model may think before a call that it has to make.
        list_is_complete: Whether a model that the list does not name does not exist. Servers with
            an incomplete list load models on demand, and may have no list at all.
        lists_times: Whether the list says when a model came to be. Servers of one's own say the
            time of the request.
        fills_empty_text: Whether calls are sent with an empty text where they have none: some
            servers refuse ``null``.
        fits_answers_beside_tools: Whether a model that is sent a schema for its answer can still
            call tools.
        samplers: The options that it takes beside the common ones.
        has_apis: Whether it has OpenAI's APIs, so that ``api`` chooses one.
        api: The API to ask its models by.
    """

    list_path: ClassVar[str] = "/models"
    model_path: ClassVar[str | None] = "/models/{}"
    list_is_complete: ClassVar[bool] = True
    thinks_before_required_calls: ClassVar[bool] = True
    lists_times: ClassVar[bool] = True
    fills_empty_text: ClassVar[bool] = False
    fits_answers_beside_tools: ClassVar[bool] = True
    samplers: ClassVar[tuple[str, ...]] = ()
    has_apis: ClassVar[bool] = False

    name: str
    base_url: str
    key_variables: tuple[str, ...] = ()
    api: Api = "auto"

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of a request for the list of models."""
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def facts(self, item: Mapping[str, Any]) -> ModelFacts:
        """Return the facts that an entry of the list states. The entry is not validated."""
        return ModelFacts()

    def listed_name(self, model: str) -> str:
        """Return the name under which the list has a model."""
        return model

    def continues_answers(self, model: str) -> bool:
        """Return whether a model goes on with an answer that a request ends with.

        Models that think begin another one.
        """
        return False

    def uses_responses(self, model: str) -> bool:
        """Return whether to ask a model by OpenAI's Responses."""
        return self.has_apis and self.api == "responses"

    def settings(self, request: "ModelRequest") -> dict[str, Any]:
        """Return pydantic-ai's model settings for a request."""
        may_think = self.thinks_before_required_calls or not request.requires_call
        may_think = may_think and self.may_think(request.messages, request.model)
        think = effective_think(request) if may_think else False
        return {
            **common_settings(request.options),
            **self.sampling_settings(request.options),
            **({} if think is None else self.thinking_settings(think, request.options)),
            **({"tool_choice": "required"} if request.requires_call else {}),
        }

    def sampling_settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sampling settings of this provider in addition to the common ones."""
        return options_named(self.samplers, options)

    def thinking_settings(self, think: bool | str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that turn thinking on, with its effort, or off."""
        return {"thinking": think}

    def cache_settings(self, kept_for: str, request: "ModelRequest") -> dict[str, Any]:
        """Return the settings that cache what the next request of a conversation begins with.

        Args:
            kept_for: ``5m`` or ``1h``.
            request: The request, of a conversation.
        """
        return {}

    def may_think(self, messages: Sequence[Message], model: str) -> bool:
        """Return whether the provider accepts a request for thinking after this history."""
        return True

    def translator(self) -> "Translator":
        """Return what rewrites the events of one answer before the SDK reads them."""
        from models_app.vendors.chat_chunks import ChatChunks  # noqa: PLC0415 - cheap start

        return ChatChunks()

    def is_mistral(self, model: str) -> bool:
        """Return whether a model is Mistral's, wherever it runs: those have rules of their own."""
        return _MISTRALS.search(f"{self.base_url} {model}") is not None

    def call_id(self, call_id: str, model: str) -> str:
        """Return the id to send for a call: the id itself, or a digest that the model accepts."""
        mistrals = self.is_mistral(model)
        if (_NINE if mistrals else _SAFE_ID).fullmatch(call_id):
            return call_id
        digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
        return digest[:9] if mistrals else f"call_{digest[:24]}"

    def open_models(self, key: str, http_client: "httpx2.AsyncClient") -> ModelFactory:
        """Import the provider's SDK and return a factory of its models. Slow: call in a thread.

        Args:
            key: The API key; a placeholder for a server that needs none.
            http_client: The connections to use; their owner closes them.
        """
        raise NotImplementedError

    @property
    def is_local(self) -> bool:
        """Return whether it runs on this machine, so that proxies are bypassed."""
        host = urlsplit(self.base_url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")

    def key(self, look_up: KeyLookup = os.environ.get) -> str | None:
        """Return the key; None if none is set."""
        for variable in self.key_variables:
            if value := (look_up(variable) or "").strip():
                return value
        return None

    def is_configured(self, look_up: KeyLookup = os.environ.get) -> bool:
        """Return whether it can be used: its key is set, or it needs none."""
        return not self.key_variables or self.key(look_up) is not None

    def require_key(self, look_up: KeyLookup = os.environ.get) -> str | None:
        """Return the key; None if none is needed.

        Raises:
            Unauthorized: No key is set, or it has characters that no header can hold; the message
                names the variable.
        """
        key, names = self.key(look_up), " or ".join(self.key_variables)
        if key is None and self.key_variables:
            problem = f"There is no API key for '{self.name}': set {names} in the environment of "
            problem += "the server, or in its .env, and start it again."
        elif key is not None and not (key.isascii() and key.isprintable()):
            # Refused here, without quoting it: an HTTP client's error would quote the header.
            problem = f"The API key for '{self.name}' in {names} holds characters that no key has, "
            problem += "such as a line break: set it again and restart the server."
        else:
            return key
        raise Unauthorized(problem, provider=self.name, variables=list(self.key_variables))
