"""Constants that are part of the public interface; importing this module imports nothing."""

SUMMARY_UNSUPPORTED_MODELS: tuple[str, ...] = ("gpt-oss:20b", "gpt-oss:120b")
"""Models that can't answer with structured output, so that they never write a summary."""

DEFAULT_PORT = 8000
TEST_MODE_PORT = 5099
