"""What ``create_app`` raises."""

from mochi_project.configuration.config import AlreadyConfiguredError, ConfigurationError

__all__ = ["AlreadyConfiguredError", "ConfigurationError"]
