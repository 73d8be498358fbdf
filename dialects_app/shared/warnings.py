"""Builds the warning header: ignored parts of a request, missing parts of a response."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase

from chat.start.turn_request import ToolChoice
from models_app.catalogue import ModelCatalogue

WARNING_HEADER = "x-mochi-warning"
MOST_CHARACTERS = 1000


def warning_headers(sentences: Sequence[str]) -> dict[str, str]:
    """Return the header with these sentences; no header without any.

    The value is one line of ASCII, as some sentences are from providers.
    """
    if not sentences:
        return {}
    line = " ".join("; ".join(sentences).split())
    shown = line.encode("ascii", "replace").decode()
    printable = "".join(each if each.isprintable() else "?" for each in shown)
    return {WARNING_HEADER: printable[:MOST_CHARACTERS]}


def add_warnings(answer: HttpResponseBase, sentences: Sequence[str]) -> None:
    """Add the header with these sentences to an answer."""
    for name, value in warning_headers(sentences).items():
        answer[name] = value


def notes_on_choice(choice: ToolChoice, model: str, models: ModelCatalogue) -> Sequence[str]:
    """Return a warning if the provider can't force the requested tool call.

    Args:
        choice: The tool choice.
        model: The model, which the turn has looked up.
        models: The catalogue of models.
    """
    if choice in ("auto", "none"):
        return ()
    language_model, name = models.resolve(model)
    info = language_model.recall(name)
    if info is not None and info.forces_tools:
        return ()
    return ("tool_choice: the model is told to call a tool, and may not",)
