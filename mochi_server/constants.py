"""Exports constants for users of the library."""

from mochi_project.configuration.constants import SUMMARY_UNSUPPORTED_MODELS

__all__ = ["SUMMARY_UNSUPPORTED_MODELS"]
