"""Chooses the context windows of turns and summaries, by what Ollama has loaded."""

import asyncio
from dataclasses import dataclass

from chat.context.window import (
    FIRST_WINDOW,
    OLLAMAS_WINDOW,
    WindowChoice,
    choose_window,
    follow_loaded,
    model_changed,
)
from chat.turn.job import LoadedLookUp
from models_app.catalogue import ModelCatalogue
from models_app.language_model import ModelInfo
from models_app.window_sizes import LoadedWindow
from sessions_app.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindows:
    """Chooses context windows.

    Attributes:
        models: Tell which window a model is loaded with.
        enabled: Whether windows may grow by themselves at all.
        first_window: The window of a session's first request; None leaves it to Ollama.
    """

    models: ModelCatalogue
    enabled: bool = True
    first_window: int | None = FIRST_WINDOW

    def choose(
        self,
        session: Session,
        info: ModelInfo | None,
        tokens: int,
        loaded: LoadedWindow | None = None,
    ) -> WindowChoice:
        """Choose the window of a session's next request, which has ``tokens`` tokens."""
        max_context = info.context_length if info else None
        choice = choose_window(
            session.window,
            enabled=self.enabled and (info is None or info.takes_window),
            model_changed=model_changed(session),
            max_context=max_context,
            usage_tokens=tokens,
            first_window=self.first_window,
        )
        return follow_loaded(choice, loaded, max_context=max_context, usage_tokens=tokens)

    def look_up_loaded(self, session: Session, model: str) -> LoadedLookUp | None:
        """Begin to look up the window that a model is loaded with, where that matters."""
        config = session.window
        by_hand = config.manual_override and config.current_window is not None
        if by_hand or not (self.enabled and config.dynamic_enabled):
            return None
        return asyncio.create_task(self.models.loaded_window(model), name=f"window of {model}")

    async def of_summary(self, session: Session, model: str) -> int | None:
        """Return the window of a request for a summary, whose input is cut to fit it."""
        config, is_own = session.window, model == session.metadata.model
        window = config.current_window if is_own else self.first_window
        if is_own and (window is None or config.manual_override):
            return window
        default = OLLAMAS_WINDOW if window is None else None
        choice = WindowChoice(window=window, reason="no_adjustment", default=default)
        loaded = await self.models.loaded_window(model)
        return follow_loaded(choice, loaded, max_context=None, usage_tokens=0).window
