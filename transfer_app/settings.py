"""Declares the settings of imports."""

from pydantic import Field

from mochi_project.configuration.app_settings import AppSettings


class TransferSettings(AppSettings):
    """Holds the bound of imports."""

    max_import_bytes: int = Field(
        128 * 1_048_576, ge=1024, description="Largest file of `POST /import`, in bytes"
    )
