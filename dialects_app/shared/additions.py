"""Names what this server adds to OpenAI's protocols."""

SESSION_HEADER = "x-mochi-session-id"
"""The header of an answer that names its session, if that is saved."""

MODELS_WITH_TOOLS = ("profile:", "agent:")
"""The beginnings of the names of models that bring their own tools."""
