"""What programs may give ``create_app``: the settings, by name and by type."""

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import SecretStr

from chat.settings import NoticeEvent
from mochi_project.configuration.loading import MochiSettings
from mochi_project.configuration.setting_arguments import ProviderArguments, SettingArguments
from models_app.settings import ProviderConfig

PARAMETERS = {"ollama_host", "data_dir"}
NAMES = sorted(MochiSettings.model_fields.keys() - PARAMETERS)
ACCEPTED: dict[Any, set[Any]] = {
    Path: {str, Path},
    SecretStr: {str, SecretStr},
    list[str]: {Sequence[str]},
    list[NoticeEvent]: {Sequence[NoticeEvent]},
    dict[str, ProviderConfig]: {Mapping[str, ProviderArguments]},
}


def alternatives(annotation: Any) -> set[Any]:
    """Return the types of a union, and of a type that is none itself, but for None."""
    if get_origin(annotation) in {Union, types.UnionType}:
        return set().union(*(alternatives(each) for each in get_args(annotation)))
    if get_origin(annotation) is not Literal and hasattr(annotation, "__metadata__"):
        return alternatives(annotation.__origin__)
    return set() if annotation is type(None) else {annotation}


def test_every_setting_is_an_argument_and_nothing_else_is() -> None:
    assert sorted(SettingArguments.__annotations__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_has_the_type_of_its_setting(name: str) -> None:
    given = alternatives(get_type_hints(SettingArguments)[name])
    wanted: set[Any] = set()
    for each in alternatives(MochiSettings.model_fields[name].annotation):
        wanted |= ACCEPTED.get(each, {each})

    assert given == wanted


def test_a_providers_arguments_are_those_of_its_configuration() -> None:
    assert get_type_hints(ProviderArguments) == get_type_hints(ProviderConfig)
