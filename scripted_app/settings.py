"""Declares the settings of scripted models."""

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings


class ScriptedSettings(AppSettings):
    """Holds the pace of the scripted model."""

    test_words_per_second: float = Field(
        50, ge=0, description="Pace of the scripted model; 0 is unpaced"
    )
