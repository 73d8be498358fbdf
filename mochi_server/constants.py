"""Constants for users of the library."""

from mochi_project.constants import SUMMARY_UNSUPPORTED_MODELS

__all__ = ["SUMMARY_UNSUPPORTED_MODELS"]
