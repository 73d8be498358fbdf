"""Exports the errors that ``create_app`` raises."""

from mochi_project.configuration.setting_errors import AlreadyConfiguredError, ConfigurationError

__all__ = ["AlreadyConfiguredError", "ConfigurationError"]
AlreadyConfiguredError.__module__ = ConfigurationError.__module__ = __name__  # for tracebacks
