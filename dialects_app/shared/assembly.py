"""Makes what answers requests of the services that its fields name."""

from typing import TypeVar, get_type_hints

import msgspec

from mochi_project.app import service

Answerer = TypeVar("Answerer", bound=msgspec.Struct)


def assembled(kind: type[Answerer]) -> Answerer:
    """Return a struct whose fields are services, each found by its type."""
    return kind(**{name: service(each) for name, each in get_type_hints(kind).items()})
