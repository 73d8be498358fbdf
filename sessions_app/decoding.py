"""Decodes JSON and converts values to declared types, from any thread.

msgspec analyses a type when it is first decoded, which is not thread-safe: two threads that decode
a struct for the first time concurrently crash the process (``StructInfo_Convert`` in msgspec 0.22,
docs/decisions/0105). Here types are analysed under a lock; decoding itself needs none.
"""

import threading
from typing import Any, TypeVar, overload

import msgspec

NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of parsing invalid JSON."""

T = TypeVar("T")

_working_out = threading.Lock()
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


@overload
def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder_of(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a thread-safe JSON decoder for a type."""
    found = _decoders.get(kind)
    if found is None:
        with _working_out:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return found


@overload
def decode_as(data: bytes | str, kind: type[T]) -> T: ...
@overload
def decode_as(data: bytes | str, kind: Any) -> Any: ...
def decode_as(data: bytes | str, kind: Any) -> Any:
    """Decode JSON as a type.

    Raises:
        msgspec.DecodeError: The data are not valid JSON.
        msgspec.ValidationError: The value has another type.
    """
    return decoder_of(kind).decode(data)


@overload
def convert_to(value: Any, kind: type[T]) -> T: ...
@overload
def convert_to(value: Any, kind: Any) -> Any: ...
def convert_to(value: Any, kind: Any) -> Any:
    """Convert parsed JSON to a type.

    Raises:
        msgspec.ValidationError: The value has another type.
    """
    decoder_of(kind)
    return msgspec.convert(value, kind)
