"""Chooses the model that an agent runs with."""

from contextlib import suppress
from dataclasses import dataclass

from agents_app.agent import AgentDefinition
from models_app.catalogue import ModelCatalogue
from models_app.default_model import DefaultModel
from models_app.errors import ModelNotFound
from models_app.language_model import ModelInfo
from sessions_app.session import agent_named


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """Chooses models for agents.

    Attributes:
        models: All models.
        default: The model of an agent that answers itself and names none.
    """

    models: ModelCatalogue
    default: DefaultModel

    async def choose(
        self, agent: AgentDefinition, calling_model: str
    ) -> tuple[str, ModelInfo | None]:
        """Return the agent's own model if it exists, else the one of the session that calls it.

        An agent can't be the model of an agent: if the session's model is an agent, the server's
        default model is used (``models_app.default_model``).

        Args:
            agent: The agent.
            calling_model: The model of the session that calls it.

        Raises:
            ModelNotFound: There is no such model, or none at all.
        """
        wanted = _no_agent(agent.model)
        otherwise = _no_agent(calling_model) or _no_agent(self.default.configured)
        if wanted is not None and otherwise is not None:
            with suppress(ModelNotFound):
                return wanted, await self.models.look_up(wanted)
        named = otherwise or wanted
        if named is None:
            named, _ = await self.default.first()
        return named, await self.models.look_up(named)


def _no_agent(model: str | None) -> str | None:
    return model if model and agent_named(model) is None else None
