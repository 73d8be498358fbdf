"""Defines constants of the public interface; importing this module imports nothing else."""

SUMMARY_UNSUPPORTED_MODELS: tuple[str, ...] = ("gpt-oss:20b", "gpt-oss:120b")
"""Models that write no summaries, because they can't answer with structured output."""

DEFAULT_PORT = 8000
TEST_MODE_PORT = 5099
