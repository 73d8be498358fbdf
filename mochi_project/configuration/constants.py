"""Defines constants of the public interface; importing this module imports nothing else."""

SUMMARY_UNSUPPORTED_MODELS: tuple[str, ...] = ("gpt-oss:20b", "gpt-oss:120b")
"""Models that write no summaries, because they can't answer with structured output."""

CORE: tuple[str, ...] = (
    *("sessions_app", "prompts_app", "models_app", "tools_app", "chat", "agents_app"),
)
"""The apps that a server always has, each after those that it uses."""

WINGS: tuple[str, ...] = (
    *("search_app", "transfer_app", "dialects_app", "usage_app"),
    *("cluster_app", "scripted_app", "terminal_app"),
)
"""The apps that may be left out: nothing of the core imports them."""

ENV_PREFIX = "MOCHI_"
DEFAULT_PORT = 8000
TEST_MODE_PORT = 5099
