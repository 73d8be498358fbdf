"""The context window: how many tokens Ollama is asked to hold. Pure.

It grows in the steps of ``models_app.window_sizes``; within a model it never shrinks by itself.
"""

from typing import Literal

import msgspec

from models_app.window_sizes import fit, safe_limit
from sessions_app.messages import AssistantMessage
from sessions_app.session import Session, WindowConfig
from sessions_app.settings import adjust_window

FIRST_WINDOW = 8192
BUFFER = 1.5

Reason = Literal[
    "initial_setup", "usage_threshold", "model_change", "no_adjustment", "manual_override"
]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The window for the next request, in tokens; None sends no ``num_ctx`` at all."""

    window: int | None
    reason: Reason


def decide(
    *,
    dynamic_enabled: bool,
    manual_override: bool,
    current_window: int | None,
    model_changed: bool,
    max_context: int | None,
    usage_tokens: int,
) -> Decision:
    """Choose the window of the next request.

    Args:
        dynamic_enabled: Whether the window may grow by itself.
        manual_override: Whether ``current_window`` was set by hand.
        current_window: What was sent last time, or None before the first request.
        model_changed: Whether the session's model is another than at the last decision.
        max_context: The model's maximum in tokens, or None when it is unknown.
        usage_tokens: Tokens that the next request will use.
    """
    if manual_override and current_window is not None:
        # It may have been set for a model that can hold more.
        window = min(current_window, max_context or current_window)
        return Decision(window=window, reason="manual_override")
    if not dynamic_enabled:
        return Decision(window=None, reason="no_adjustment")
    limit = safe_limit(max_context) if max_context else FIRST_WINDOW
    needed = fit(max(int(usage_tokens * BUFFER), min(limit, FIRST_WINDOW)), limit)
    if current_window is None:
        return Decision(window=needed, reason="initial_setup")
    if model_changed:
        return Decision(window=needed, reason="model_change")
    if needed > current_window:
        return Decision(window=needed, reason="usage_threshold")
    return Decision(window=current_window, reason="no_adjustment")


def grow(decision: Decision, *, max_context: int | None, usage_tokens: int) -> Decision:
    """Return a decision of the same turn again, now that it uses more.

    A window that was set by hand, or is none of ours, stays.
    """
    if decision.window is None or decision.reason == "manual_override":
        return decision
    chosen = decide(
        dynamic_enabled=True,
        manual_override=False,
        current_window=decision.window,
        model_changed=False,
        max_context=max_context,
        usage_tokens=usage_tokens,
    )
    return decision if chosen.window == decision.window else chosen


def model_changed(session: Session) -> bool:
    """Whether another model than the session's gave the last answer."""
    for message in reversed(session.messages):
        if isinstance(message, AssistantMessage):
            return message.model != session.metadata.model
    return False


def record_decision(
    config: WindowConfig, decision: Decision, *, model: str, now: str
) -> WindowConfig:
    """Return the session's window settings after a decision."""
    if decision.window is None or decision.window == config.current_window:
        return config
    return adjust_window(config, decision.window, reason=decision.reason, model=model, now=now)
