"""Stores profiles: named model configurations, each a JSON file, used as ``profile:<name>``.

A file in a trusted folder may name any server (docs/decisions/0035). A profile that comes through
the API, lies in another folder, or is laid over the shared ones by an owner may name only addresses
and keys that the configuration (or, for the API, the profile's own file) names together.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from models_app.errors import ModelNotFound, ProfileExists, ProfileNotFound
from models_app.profile_parameters import Filled, ProfileParameters
from models_app.vendors.compatible import CompatibleServer
from models_app.vendors.vendor import Api, Vendor
from sessions_app.decoding import convert_to
from sessions_app.errors import ValidationFailed
from sessions_app.store.atomic import StrPath, UnreadableFileError
from sessions_app.store.file_records import records_in
from sessions_app.store.laid_over import LaidOverRecords
from sessions_app.store.records import DOCUMENT_LIMIT, Records

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]{0,199}$"
CUSTOM = "custom"
OLLAMA = "ollama"

_NAME = re.compile(NAME_PATTERN)
_VARIABLE = re.compile(VARIABLE_PATTERN)
_SUFFIX = ".json"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named model configuration.

    Attributes:
        name: Its name, which is the file's.
        provider: ``ollama``, a vendor's name, or ``custom`` with a ``base_url``.
        model: The model's name there.
        base_url: The provider's URL, if not the configured one.
        api_key_env: The environment variable with the key, if not the usual one.
        api: The API of OpenAI to ask by, if not the configured one.
        system_prompt: The system prompt for sessions without one of their own.
        parameters: The model's parameters.
    """

    name: str
    provider: Filled
    model: Filled
    base_url: str | None = None
    api_key_env: str | None = None
    api: Api | None = None
    system_prompt: str | None = None
    parameters: ProfileParameters = ProfileParameters()


class UnreadableProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can't be read as a profile, and why."""

    file: str
    reason: str


class ProfileListing(msgspec.Struct, frozen=True, kw_only=True):
    """All profiles by name, and the files that can't be read as one."""

    profiles: Sequence[Profile]
    unreadable: Sequence[UnreadableProfile] = ()


class ProfileService:
    """Lists, reads and writes the profiles of one directory.

    Every call blocks for milliseconds: call it from a worker thread. Symbolic links are never
    followed.

    Args:
        directory: The directory of the files, created with the first one, or other records.
        vendors: The configured providers.
        shared: The records of all owners, over which these of one are laid; None if they are all.
    """

    def __init__(
        self,
        directory: StrPath | Records,
        vendors: Sequence[Vendor] = (),
        *,
        shared: Records | None = None,
    ) -> None:
        own = records_in(directory, limit=DOCUMENT_LIMIT)
        self._records = own if shared is None else LaidOverRecords(own, shared)
        self._laid_over = None if shared is None else own
        self._vendors = {vendor.name: vendor for vendor in vendors}

    def laid_over(self, own: Records) -> "ProfileService":
        """Return an owner's profiles, laid over these."""
        return ProfileService(own, [*self._vendors.values()], shared=self._records)

    def list(self) -> ProfileListing:
        """Return every profile by name; a missing directory is an empty one."""
        profiles: list[Profile] = []
        unreadable: list[UnreadableProfile] = []
        for file, data in self._records.read_all(_is_file).items():
            try:
                profiles.append(_profile(file.removesuffix(_SUFFIX), data))
            except ProfileNotFound as error:
                unreadable.append(UnreadableProfile(file=file, reason=error.details["reason"]))
        return ProfileListing(profiles=profiles, unreadable=unreadable)

    def get(self, name: str) -> Profile:
        """Return a profile.

        Raises:
            ValidationFailed: The name is not allowed.
            ProfileNotFound: It does not exist, or its file is invalid.
        """
        validate_name(name)
        try:
            data = self._records.read(f"{name}{_SUFFIX}")
        except UnreadableFileError as error:
            raise ProfileNotFound(name, error.reason) from error
        if data is None:
            raise ProfileNotFound(name)
        return _profile(name, data)

    def check(self, profile: Profile, *, replaces: bool = False) -> None:
        """Refuse a profile that must not be stored, as a new one or in place of the present one.

        Raises:
            ValidationFailed: Something in it is not allowed; ``field`` names it.
            ProfileNotFound: It does not exist, or its file is invalid.
        """
        validate_name(profile.name)
        self._check(profile, self.get(profile.name) if replaces else None)

    def create(self, profile: Profile) -> Profile:
        """Create a profile. Of several writers of one name exactly one succeeds.

        Raises:
            ValidationFailed: Something in it is not allowed; ``field`` names it.
            ProfileExists: The name is taken.
            StorageFull: The disk is full.
        """
        self.check(profile)
        if not self._records.put(f"{profile.name}{_SUFFIX}", _encode(profile), exists=False):
            raise ProfileExists(profile.name)
        return profile

    def update(self, profile: Profile) -> Profile:
        """Replace a profile as a whole.

        Raises:
            ValidationFailed: Something in it is not allowed; ``field`` names it.
            ProfileNotFound: It does not exist, or its file is invalid.
            StorageFull: The disk is full; the old one is intact.
        """
        self.check(profile, replaces=True)
        self._records.put(f"{profile.name}{_SUFFIX}", _encode(profile))
        return profile

    def delete(self, name: str) -> None:
        """Remove a profile. Sessions that name it can't be answered until they name another.

        Raises:
            ValidationFailed: The name is not allowed.
            ProfileNotFound: It does not exist, or is not a regular file.
        """
        validate_name(name)
        try:
            is_deleted = self._records.delete(f"{name}{_SUFFIX}")
        except UnreadableFileError as error:
            raise ProfileNotFound(name) from error
        if not is_deleted:
            raise ProfileNotFound(name)

    def vendor_of(self, profile: Profile) -> Vendor | None:
        """Return the vendor of a profile's model; None is Ollama.

        Raises:
            ModelNotFound: Its provider is not configured, or has no address.
        """
        if profile.provider == OLLAMA:
            return None
        url = profile.base_url and profile.base_url.rstrip("/")
        keys: tuple[str, ...] = (profile.api_key_env,) if profile.api_key_env else ()
        if profile.provider == CUSTOM and url is not None:
            return CompatibleServer(
                name=CUSTOM, base_url=url, key_variables=keys, api=profile.api or "auto"
            )
        known = self._vendors.get(profile.provider)
        if known is None:
            raise ModelNotFound(
                "A profile with the provider 'custom' needs a `base_url`."
                if profile.provider == CUSTOM
                else f"The provider '{profile.provider}' of the profile '{profile.name}' is not "
                "configured.",
                provider=profile.provider,
                model=f"profile:{profile.name}",
            )
        if url in (None, known.base_url):
            url, keys = known.base_url, keys or known.key_variables
        api = profile.api or known.api
        return msgspec.structs.replace(known, base_url=url, key_variables=keys, api=api)

    def is_laid_over(self, name: str) -> bool:
        """Return whether a profile is one owner's, in addition to those that all share."""
        return self._laid_over is not None and self._laid_over.read(f"{name}{_SUFFIX}") is not None

    def is_configured(self, profile: Profile) -> bool:
        """Return whether the configuration names its address, and its key for that address.

        Raises:
            ModelNotFound: Its provider is not configured, or has no address.
        """
        return self._own_of(self.vendor_of(profile)) is None

    def _check(self, profile: Profile, written: Profile | None) -> None:
        """Refuse a profile that the API must not store; ``written`` is the present one."""
        if not profile.model.strip():
            raise ValidationFailed("A profile needs a model.", field="model")
        _check_address(profile)
        try:
            vendor = self.vendor_of(profile)
        except ModelNotFound as error:
            allowed = sorted([OLLAMA, CUSTOM, *self._vendors])
            raise ValidationFailed(error.message, field="provider", allowed=allowed) from error
        if profile.api is not None and not (vendor and vendor.has_apis):
            raise ValidationFailed(
                f"The provider '{profile.provider}' has one API: leave out `api`.", field="api"
            )
        fault = self._own_of(vendor)
        if fault is None or (written is not None and _target(written) == _target(profile)):
            return
        if fault == "base_url":
            raise ValidationFailed(
                "A profile's base URL must be configured (MOCHI_PROVIDERS__<NAME>__BASE_URL) or be "
                "written into its file by hand.",
                field=fault,
            )
        raise ValidationFailed(
            "A profile's key must be the one that is configured for its address, or be written "
            "into its file by hand.",
            field=fault,
        )

    def _own_of(self, vendor: Vendor | None) -> str | None:
        """Return the field that the configuration does not name; None if it names both."""
        if vendor is None or vendor in self._vendors.values():
            return None
        there = [each for each in self._vendors.values() if each.base_url == vendor.base_url]
        if not there:
            return "base_url"
        keys = {variable for each in there for variable in each.key_variables}
        return None if keys.issuperset(vendor.key_variables) else "api_key_env"


def _profile(name: str, data: bytes | UnreadableFileError) -> Profile:
    if isinstance(data, UnreadableFileError):
        raise ProfileNotFound(name, data.reason) from data
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict):
            raise ProfileNotFound(name, "not a JSON object")
        profile = convert_to({**value, "name": name}, Profile)
        _check_address(profile)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeError) as error:
        raise ProfileNotFound(name, str(error)) from error
    except RecursionError as error:
        raise ProfileNotFound(name, "nested too deeply") from error
    except ValidationFailed as error:
        raise ProfileNotFound(name, error.message) from error
    return profile


def _is_file(name: str) -> bool:
    return name.endswith(_SUFFIX) and _NAME.fullmatch(name.removesuffix(_SUFFIX)) is not None


def validate_name(name: str) -> None:
    """Check a profile's name.

    Raises:
        ValidationFailed: With ``field`` ``"name"``.
    """
    if _NAME.fullmatch(name) is None:
        raise ValidationFailed(
            "A profile's name is 1 to 100 ASCII letters, digits, '_', '.' and '-', and starts "
            "with a letter or digit.",
            field="name",
        )


def profile_from(name: str, value: Mapping[str, Any]) -> Profile:
    """Convert a request's body to a profile.

    Raises:
        ValidationFailed: It is invalid; ``field`` is the path.
    """
    parameters = {
        # To JSON, 4000 and 4000.0 are the same number.
        key: int(item) if isinstance(item, float) and item.is_integer() else item
        for key, item in (value.get("parameters") or {}).items()
    }
    try:
        return convert_to({**value, "name": name, "parameters": parameters}, Profile)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$")
        raise ValidationFailed(words, field=place.strip("`.") or "profile") from error


def _check_address(profile: Profile) -> None:
    if profile.base_url is not None:
        if profile.provider == OLLAMA:
            raise ValidationFailed("Ollama is at MOCHI_OLLAMA_HOST.", field="base_url")
        _check_url(profile.base_url)
    if profile.api_key_env is not None and _VARIABLE.fullmatch(profile.api_key_env) is None:
        raise ValidationFailed(
            "`api_key_env` is the name of an environment variable, not a key.",
            field="api_key_env",
        )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets, ports and characters that no address has
        is_address = False
    if not is_address or not url.isprintable() or " " in url:
        raise ValidationFailed(
            "A base URL is an address that starts with http:// or https://.", field="base_url"
        )
    if parts.username is not None or parts.password is not None:  # profiles are shown to clients
        raise ValidationFailed(
            "A base URL holds no name and no password: `api_key_env` names the key's variable.",
            field="base_url",
        )


def _target(profile: Profile) -> tuple[str | None, ...]:
    return profile.provider, profile.base_url, profile.api_key_env


def _encode(profile: Profile) -> bytes:
    value = msgspec.to_builtins(profile)
    del value["name"]
    value["parameters"] = {
        key: item for key, item in value["parameters"].items() if item is not None
    }
    kept = {key: item for key, item in value.items() if item is not None}
    return msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n"
