"""Names the tools of clients as models do: each is a function with one name. Pure.

A client's tool may have a namespace beside its name, and ``custom`` tools take free text. Models
are offered functions; a call is converted back by the form of its tool (docs/decisions/0168).
"""

import hashlib
from collections.abc import Mapping

import msgspec

from dialects_app.shared.shown_calls import arguments_text
from sessions_app.decoding import convert_to
from sessions_app.messages import ToolCall

LONGEST_NAME = 64
TEXT_PARAMETER = "input"
"""The one parameter of the function that stands for a ``custom`` tool."""

_GLOBAL_NAMESPACE = "functions"
"""OpenAI's namespace of tools without one."""
_DIGITS = 8
_FORM = "openai_tool"
"""Of a call in a session's file: its form."""


class ToolForm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client's tool as its protocol names it.

    Attributes:
        name: Its name.
        namespace: Its namespace, if any.
        is_custom: Whether it takes free text instead of arguments.
    """

    name: str
    namespace: str | None = None
    is_custom: bool = False


ToolForms = Mapping[str, ToolForm]
"""Forms by the offered name; plain functions have none."""
NO_FORMS: ToolForms = {}


def offered_name(name: str, namespace: str | None = None) -> str:
    """Return the name under which a model is offered a tool; it has at most 64 characters."""
    if namespace is None or namespace == _GLOBAL_NAMESPACE:
        return name
    whole = f"{namespace}__{name}"
    if len(whole) <= LONGEST_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()
    return whole[: LONGEST_NAME - _DIGITS] + digest[:_DIGITS]


def form_of(name: str, namespace: str | None, *, is_custom: bool) -> ToolForm | None:
    """Return the form of a tool; None for a function whose offered name is its own."""
    if namespace == _GLOBAL_NAMESPACE:
        namespace = None
    if namespace is None and not is_custom:
        return None
    return ToolForm(name=name, namespace=namespace, is_custom=is_custom)


def sent_call(call: ToolCall, namespace: str | None, *, is_custom: bool) -> ToolCall:
    """Return a call that a client sent, with the name that models know, and its form."""
    form = form_of(call.name, namespace, is_custom=is_custom)
    return msgspec.structs.replace(
        call,
        name=offered_name(call.name, namespace),
        client_side=True,
        extra=call.extra if form is None else {**call.extra, _FORM: msgspec.to_builtins(form)},
    )


def form_in(call: ToolCall) -> ToolForm | None:
    """Return the form of a call that a client sent; the forms of a turn's calls are elsewhere."""
    try:
        return convert_to(call.extra.get(_FORM), ToolForm | None)
    except msgspec.ValidationError:  # somebody has edited the file
        return None


def free_text(call: ToolCall) -> str:
    """Return the text of a call of a custom tool; a model may have written other arguments."""
    text = call.arguments.get(TEXT_PARAMETER)
    return text if isinstance(text, str) else arguments_text(call.arguments)
