"""Declares the settings of several machines."""

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.configuration.setting_types import Seconds


class ClusterSettings(AppSettings):
    """Holds when another machine counts as dead, and how long turns wait for Redis."""

    lease_seconds: float = Field(
        6, ge=1, le=600, description="After which silence a process on another machine is dead"
    )
    journal_timeout_seconds: Seconds = Field(
        15, description="How long turns bear that `MOCHI_JOURNAL_URL` does not answer"
    )
