"""``DynamicContextWindowService``: the context window as a library (seed 000 section 15). Pure."""

from chat.context.window import Decision, decide, record_decision
from models_app.window_sizes import safe_limit
from sessions_app.session import Session, WindowConfig, with_metadata


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
    ) -> Decision:
        """Choose the window of the next request.

        The reason is ``initial_setup``, ``usage_threshold``, ``model_change``, ``no_adjustment`` or
        ``manual_override``.

        Args:
            config: The session's settings.
            max_context: The model's longest context in tokens; None when it is unknown.
            usage_tokens: Tokens that the next request will use.
            model_changed: Whether another model gave the last answer.
        """
        return decide(
            dynamic_enabled=self._enabled and config.dynamic_enabled,
            manual_override=config.manual_override,
            current_window=config.current_window,
            model_changed=model_changed,
            max_context=max_context,
            usage_tokens=usage_tokens,
        )

    def record(self, session: Session, decision: Decision, *, now: str) -> Session:
        """Return the session with the window, and with the change among the last ten."""
        config = record_decision(session.window, decision, model=session.metadata.model, now=now)
        return with_metadata(session, now=now, context_window_config=config)


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
