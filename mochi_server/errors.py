"""What ``create_app`` raises."""

from mochi_project.config import AlreadyConfiguredError, ConfigurationError

__all__ = ["AlreadyConfiguredError", "ConfigurationError"]
