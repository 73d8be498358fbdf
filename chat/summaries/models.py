"""Decides which models write summaries of sessions, and their titles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from chat.errors import SummaryNotPossible
from chat.summaries.prompt import bare_name
from models_app.catalogue import ModelCatalogue
from models_app.errors import ModelError, ModelNotFound
from sessions_app.session import SessionMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryModels:
    """Chooses the models that write summaries.

    Attributes:
        catalogue: All models.
        unsupported: Models that can't write them (``MOCHI_SUMMARY_UNSUPPORTED_MODELS``).
        configured: The model of ``MOCHI_SUMMARY_MODEL``; None if it is not set.
    """

    catalogue: ModelCatalogue
    unsupported: Collection[str]
    configured: str | None = None

    def choose(self, metadata: SessionMetadata) -> str | None:
        """Return the model that writes the summary; None if none can.

        The one that a client named for it, else the configured one, the session's own, or the one
        that wrote its first summary (docs/decisions/0016).
        """
        return self._first_of(metadata, self.configured)

    def fallback_for(self, model: str, metadata: SessionMetadata) -> str | None:
        """Return the model that writes if this one is configured and does not exist."""
        return self._first_of(metadata, None) if model == self.configured else None

    def _first_of(self, metadata: SessionMetadata, configured: str | None) -> str | None:
        stored = metadata.summary_model
        named = stored if metadata.summary_model_by else None
        for name in (named, configured, metadata.model, stored):
            if name and bare_name(name) not in self.unsupported:
                return name
        return None

    async def check(self, name: str, *, field: str = "model") -> None:
        """Refuse a model that can't write summaries, or that is not there.

        The error names the models that can, where they can be asked for.

        Raises:
            SummaryNotPossible: The model can't write summaries.
            ModelNotFound: No provider has it.
        """
        if bare_name(name) in self.unsupported:
            raise SummaryNotPossible(
                f"Model '{name}' can't write summaries.", field=field, **await self._allowed()
            )
        try:
            await self.catalogue.look_up(name)
        except ModelNotFound as error:
            error.details |= {"field": field, **await self._allowed()}
            raise

    async def _allowed(self) -> Mapping[str, Any]:
        try:
            names = [info.name for info in (await self.catalogue.listing()).models]
        except ModelError:  # who can't be asked allows nothing, and has refused nothing
            return {}
        return {"allowed": [name for name in names if bare_name(name) not in self.unsupported]}
