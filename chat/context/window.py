"""Chooses the context window: how many tokens Ollama is asked to hold. Pure.

It grows in the steps of ``models_app.window_sizes``. A model that is loaded keeps its window where
that holds the request, as Ollama reloads it for any other (docs/decisions/0139).
"""

from typing import Literal

import msgspec

from models_app.window_sizes import LoadedWindow, fit, safe_limit
from sessions_app.messages import AssistantMessage
from sessions_app.session import Session, WindowConfig, with_metadata
from sessions_app.session_settings import adjust_window

FIRST_WINDOW = 8192
BUFFER = 1.5

OLLAMAS_WINDOW = 4096
"""Ollama's default window on machines with less than 23 GiB of video memory."""

Reason = Literal[
    "initial_setup", "usage_threshold", "model_change", "no_adjustment", "manual_override", "loaded"
]


class WindowChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The window of the next request in tokens, None to send no ``num_ctx``, and the reason.

    Attributes:
        window: The tokens.
        reason: The reason.
        default: Without a window, what Ollama gives the model: a request that needs more gets one.
            None if none must be sent, whatever is needed.
    """

    window: int | None
    reason: Reason
    default: int | None = None


def choose_window(
    config: WindowConfig,
    *,
    enabled: bool = True,
    model_changed: bool,
    max_context: int | None,
    usage_tokens: int,
    first_window: int | None = FIRST_WINDOW,
) -> WindowChoice:
    """Choose the window of the next request, as far as it does not depend on what is loaded.

    Args:
        config: The session's settings, with what was sent last time.
        enabled: Whether windows may grow by themselves at all.
        model_changed: Whether the session's model is another than at the last choice.
        max_context: The model's maximum in tokens, or None when it is unknown.
        usage_tokens: Tokens that the next request will use.
        first_window: The window of a session's first request; None leaves it to Ollama.
    """
    current_window = config.current_window
    if config.manual_override and current_window is not None:
        # It may have been set for a model that can hold more.
        window = min(current_window, max_context or current_window)
        return WindowChoice(window=window, reason="manual_override")
    if not (enabled and config.dynamic_enabled):
        return WindowChoice(window=None, reason="no_adjustment")
    if current_window is not None and not model_changed:
        choice = WindowChoice(window=current_window, reason="no_adjustment")
        return grow(choice, max_context=max_context, usage_tokens=usage_tokens)
    reason: Reason = "initial_setup" if current_window is None else "model_change"
    if first_window is None:
        choice = WindowChoice(window=None, reason=reason, default=OLLAMAS_WINDOW)
    else:
        limit = safe_limit(max_context) if max_context else first_window
        choice = WindowChoice(window=min(first_window, limit), reason=reason)
    grown = grow(choice, max_context=max_context, usage_tokens=usage_tokens)
    return msgspec.structs.replace(grown, reason=reason)


def follow_loaded(
    choice: WindowChoice,
    loaded: LoadedWindow | None,
    *,
    max_context: int | None,
    usage_tokens: int,
) -> WindowChoice:
    """Choose again, now that it is known with which window the model is loaded.

    A window that holds the request stays as it is, also if it is larger than the safe limit.

    Args:
        choice: The choice without this knowledge.
        loaded: The loaded window; None if nothing is known of it.
        max_context: The model's maximum in tokens, or None when it is unknown.
        usage_tokens: Tokens that the next request will use.
    """
    is_left_alone = choice.window is None and choice.default is None
    if loaded is None or is_left_alone or choice.reason == "manual_override":
        return choice
    if max_context and (loaded.window or 0) > max_context:
        return choice  # it counts parallel requests together: sent back, it would be multiplied
    if loaded.window is not None and loaded.window != choice.window:
        choice = WindowChoice(window=loaded.window, reason="loaded")
    elif loaded.default is not None and choice.default is not None:
        choice = msgspec.structs.replace(choice, default=loaded.default)
    return grow(choice, max_context=max_context, usage_tokens=usage_tokens)


def grow(choice: WindowChoice, *, max_context: int | None, usage_tokens: int) -> WindowChoice:
    """Choose a larger window if the request needs it: half as much again as it uses.

    A window that was set by hand, or that holds as much, stays, however small it is.
    """
    needed = int(usage_tokens * BUFFER)
    size = choice.default if choice.window is None else choice.window
    if size is None or needed <= size or choice.reason == "manual_override":
        return choice
    limit = safe_limit(max_context) if max_context else FIRST_WINDOW
    window = fit(max(needed, min(limit, FIRST_WINDOW)), limit)
    if choice.window is not None and window <= choice.window:
        return choice
    return WindowChoice(window=window, reason="usage_threshold")


def model_changed(session: Session) -> bool:
    """Return whether another model than the session's gave the last answer."""
    for message in reversed(session.messages):
        if isinstance(message, AssistantMessage):
            return message.model != session.metadata.model
    return False


def record_choice(
    config: WindowConfig, choice: WindowChoice, *, model: str, now: str
) -> WindowConfig:
    """Return the session's window settings, with the choice noted down."""
    if choice.window is None or choice.window == config.current_window:
        return config
    return adjust_window(config, choice.window, reason=choice.reason, model=model, now=now)


def limit_of(
    config: WindowConfig, *, max_context: int | None, context_limit: int | None = None
) -> int | None:
    """Return how many tokens a request and its answer may take together; None when unknown.

    It is never more than the model can hold.

    Args:
        config: The session's window: one set by hand is a limit.
        max_context: The model's longest context in tokens.
        context_limit: The limit of the session's profile, which comes first.
    """
    if context_limit is not None:
        return min(context_limit, max_context or context_limit)
    if config.manual_override and config.current_window is not None:
        return min(config.current_window, max_context or config.current_window)
    return safe_limit(max_context) if max_context else None


class DynamicContextWindowService:
    """Chooses how many tokens a model is asked to hold.

    Args:
        enabled: Whether windows may grow by themselves at all.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled

    def calculate(
        self,
        config: WindowConfig,
        *,
        max_context: int | None,
        usage_tokens: int = 0,
        model_changed: bool = False,
    ) -> WindowChoice:
        """Choose the window of the next request.

        The reason is ``initial_setup``, ``usage_threshold``, ``model_change``, ``no_adjustment`` or
        ``manual_override``.

        Args:
            config: The session's settings.
            max_context: The model's longest context in tokens; None when it is unknown.
            usage_tokens: Tokens that the next request will use.
            model_changed: Whether another model gave the last answer.
        """
        return choose_window(
            config,
            enabled=self._enabled,
            model_changed=model_changed,
            max_context=max_context,
            usage_tokens=usage_tokens,
        )

    def record(self, session: Session, choice: WindowChoice, *, now: str) -> Session:
        """Return the session with the window, and with the change among the last ten."""
        config = record_choice(session.window, choice, model=session.metadata.model, now=now)
        return with_metadata(session, now=now, context_window_config=config)
