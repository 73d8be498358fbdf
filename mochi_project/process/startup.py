"""Prepares the data directory and the token, and announces the server."""

import logging
import os
import sys
from pathlib import Path

from mochi_project.configuration.config import THE_SAME_EVERYWHERE, ServerSettings
from mochi_project.configuration.secrets import (
    API_TOKEN_FILE,
    SECRET_KEY_FILE,
    check_secret,
    ensure_secret,
)
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.process.file_systems import check_file_systems
from mochi_project.screen_text import printable
from mochi_project.trust.decision import remember
from mochi_project.trust.own_files import UnsafeFileError
from mochi_project.trust.records import TrustRecords, TrustRecordsError, make_state_home
from models_app.ollama.host import parse_host
from models_app.settings import ModelsSettings
from sessions_app.errors import StorageError
from sessions_app.settings import SessionsSettings
from sessions_app.store.atomic import make_private_directory

logger = logging.getLogger(__name__)

WILDCARD_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def trust_new_data_dir(settings: ServerSettings) -> None:
    """Record a named data directory as trusted if it is new or empty, as `init` does.

    Of one that has any content, others may add what runs later. Call before ``prepare_data_dir``,
    whose secrets need it (docs/decisions/0156).
    """
    folder = settings.resolved_data_dir
    if "data_dir" not in settings.model_fields_set or settings.trust.folder is not None:
        return
    try:
        if TrustRecords().get(folder) is None and _is_new(folder):
            remember(folder, {}, trusted=True)
    except TrustRecordsError as error:
        logger.warning("%s", error)


def _is_new(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except OSError:  # whoever uses it says why that can't be done
        return False


def prepare_data_dir(settings: ServerSettings) -> list[str]:
    """Create the state directory and the secret key for all processes.

    Secrets of an untrusted folder are stored outside of it, because those in it may be planted.

    Returns:
        Warnings about these directories, one sentence each.

    Raises:
        ConfigurationError: The data directory can't be used.
    """
    directory, private = settings.resolved_state_dir, settings.resolved_private_dir
    try:
        make_private_directory(directory)
        if private != directory:
            make_state_home()
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigurationError(f"MOCHI_DATA_DIR: {directory} is not writable")
        notes = check_file_systems(settings.of(SessionsSettings))
        if settings.secret_key is None:
            ensure_secret(private / SECRET_KEY_FILE)
        check_secret(private / API_TOKEN_FILE)
    except UnsafeFileError as error:
        raise _unsafe(error) from error
    except OSError as error:
        raise ConfigurationError(
            f"MOCHI_DATA_DIR {settings.resolved_data_dir} can't be used: {error.strerror}"
            f" ({error.filename})"
        ) from error
    except StorageError as error:
        raise ConfigurationError(
            f"MOCHI_DATA_DIR {settings.resolved_data_dir} can't be used: {error.message}"
        ) from error
    return notes


def api_token(settings: ServerSettings, *, on_network: bool) -> str | None:
    """Return the bearer token that clients must send; None if they need none.

    A server on the network generates one, unless turned off in the settings. In a cluster it must
    be configured, since each node would generate its own.

    Raises:
        ConfigurationError: The token's file is accessible to other users, or a cluster node has no
            configured token.
        OSError: The token can't be stored in the state directory.
        StorageFull, StorageReadOnly: The state directory can't be written to.
    """
    if settings.api_token:
        return settings.api_token.get_secret_value()
    if not on_network or settings.insecure_no_auth:
        return None
    if settings.journal_url is not None:
        raise ConfigurationError(
            f"MOCHI_API_TOKEN must be set with MOCHI_JOURNAL_URL, {THE_SAME_EVERYWHERE}: this "
            "server listens beyond loopback, and each node would make a token of its own"
        )
    try:
        return ensure_secret(settings.resolved_private_dir / API_TOKEN_FILE)
    except UnsafeFileError as error:
        raise _unsafe(error) from error


def _unsafe(error: UnsafeFileError) -> ConfigurationError:
    return ConfigurationError(
        f"{error}, and a secret is read only from a regular file of the user who runs the server "
        "that nobody else can write: fix that (chown, chmod 600), or remove it, and another "
        "secret is made"
    )


def announce(settings: ServerSettings, url: str) -> None:
    """Print that the server listens: the first line for scripts, the rest for people."""
    shown = url
    for wildcard, local in WILDCARD_HOSTS.items():
        if settings.host.strip("[]") == wildcard:
            shown = url.replace(wildcard, local)
    host = parse_host(settings.of(ModelsSettings).ollama_host).url
    model = "scripted, offline (test mode)" if settings.test_mode else host
    path = settings.resolved_unix_socket
    lines = [
        f"mochi-server listening on {url}",
        f"  try     curl --unix-socket {path} http://localhost/api/v1/health"
        if path
        else f"  docs    {shown}/api/v1/docs",
        f"  models  {model}",
        f"  data    {settings.resolved_data_dir}",
    ]
    on_network = not settings.is_loopback
    if settings.api_token is None and (token := api_token(settings, on_network=on_network)):
        path = settings.resolved_private_dir / API_TOKEN_FILE
        lines.append(f"  token   {token}  (kept in {path})")
    lines.append("  stop    CTRL-C")
    try:
        print(printable("\n".join(lines)), flush=True)  # noqa: T201 - the interface of a command
    except BrokenPipeError:  # a script read only the first line
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def access_warning(settings: ServerSettings) -> str | None:
    """Return a warning about clients that need no token although others can reach the server."""
    if not settings.api_token and settings.is_loopback:
        return None
    if not settings.api_token and settings.insecure_no_auth:
        return (
            f"everyone who can reach {settings.host} can use this server and its tools: "
            "--insecure-no-auth turned the token off"
        )
    if not settings.trusted_proxies or "proxies_authenticate" in settings.model_fields_set:
        return None
    return (
        f"MOCHI_TRUSTED_PROXIES: what {', '.join(settings.trusted_proxies)} passes on needs no "
        "token; set MOCHI_PROXIES_AUTHENTICATE=true if it lets in only whom you trust, else false"
    )
