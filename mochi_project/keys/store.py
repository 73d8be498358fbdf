"""Stores keys in one record, ``keys.json``, which several processes may change. Blocks."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mochi_project.configuration.app_settings import AppSettings
from mochi_project.keys.key import Key, KeyFile, hash_of, new_token, utc_now
from sessions_app.decoding import NO_JSON, decode_as
from sessions_app.errors import MochiError, StorageUnavailable
from sessions_app.store.atomic import UnreadableFileError
from sessions_app.store.records import Records

NAME = "keys.json"
TRIES = 20

Keys = Mapping[str, Key]


class KeyNotFound(MochiError):
    """No key has this id."""

    code = "KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"There is no key {key_id!r}; `mochi-server keys list` shows them.")


class KeysInvalid(MochiError):
    """``keys.json`` can't be used."""

    code = "KEYS_INVALID"

    def __init__(self, reason: str) -> None:
        super().__init__(f"keys.json can't be used. Fix it, or remove it: {reason}", reason=reason)


def keys_directory(settings: AppSettings) -> Path:
    """Return the folder of the keys, if they are in a file.

    Those in a data folder that is not trusted may be planted, as its other secrets.
    """
    is_trusted = settings.resolved_private_dir == settings.resolved_state_dir
    return settings.resolved_data_dir if is_trusted else settings.resolved_private_dir


class KeyStore:
    """Reads and changes the keys of a server.

    Args:
        records: Where the record is.
    """

    def __init__(self, records: Records) -> None:
        self._records = records

    def data(self) -> bytes | None:
        """Return the record as it is; None if there is none.

        Raises:
            KeysInvalid: It can't be read.
            StorageError: Its store can't be reached.
        """
        try:
            return self._records.read(NAME)
        except UnreadableFileError as error:
            raise KeysInvalid(f"{error.reason}.") from error

    def keys(self) -> Keys:
        """Return the keys by their ids. Raises as ``data`` and ``keys_of``."""
        return keys_of(self.data())

    def add(self, key: Key) -> Key:
        """Keep a new key, and return it."""
        return self._change(lambda _: key)

    def revoke(self, key_id: str, *, keep_turns: bool = False) -> Key:
        """Revoke a key, and return it; a second time changes nothing.

        Raises:
            KeyNotFound: There is none.
        """

        def revoked(keys: Keys) -> Key:
            key = keys.get(key_id)
            if key is None:
                raise KeyNotFound(key_id)
            if key.revoked_at is not None:
                return key
            return msgspec.structs.replace(key, revoked_at=utc_now(), keeps_turns=keep_turns)

        return self._change(revoked)

    def rotate(self, key_id: str) -> tuple[Key, str]:
        """Give a key another token, and return both; what was begun with the old one goes on.

        Raises:
            KeyNotFound: There is none, or it was revoked.
        """
        token = new_token(key_id)

        def rotated(keys: Keys) -> Key:
            key = keys.get(key_id)
            if key is None or key.revoked_at is not None:
                raise KeyNotFound(key_id)
            return msgspec.structs.replace(key, hash=hash_of(token.encode()))

        return self._change(rotated), token

    def _change(self, change: Callable[[Keys], Key]) -> Key:
        for _ in range(TRIES):
            data = self.data()
            keys = keys_of(data)
            key = change(keys)
            new = KeyFile(keys=tuple({**keys, key.id: key}.values()))
            written = msgspec.json.format(msgspec.json.encode(new))
            if data is None:
                is_stored = self._records.put(NAME, written, exists=False)
            else:
                is_stored = self._records.swap(NAME, data, written)
            if is_stored:
                return key
        raise StorageUnavailable("The keys are being changed all the time. Try again.")


def keys_of(data: bytes | None) -> Keys:
    """Return the keys of a record by their ids; none if there is no record.

    Raises:
        KeysInvalid: It is no such record.
    """
    if data is None:
        return {}
    try:
        listed = decode_as(data, KeyFile).keys
    except NO_JSON as error:
        raise KeysInvalid(f"{error}.") from error
    keys = {key.id: key for key in listed}
    if len(keys) < len(listed):
        raise KeysInvalid("two keys have the same id.")
    return keys
