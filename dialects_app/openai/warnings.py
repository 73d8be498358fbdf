"""Makes the header that warns: which parts of a request were ignored, and what an answer lacks."""

from collections.abc import Sequence

from chat.start.turn_request import ToolChoice
from models_app.catalogue import ModelCatalogue

WARNING_HEADER = "x-mochi-warning"
MOST_CHARACTERS = 1000


def warning_headers(sentences: Sequence[str]) -> dict[str, str]:
    """Return the header with these sentences, or none if there are none.

    A header holds one line of ASCII, whoever wrote the sentences: some are a provider's.
    """
    if not sentences:
        return {}
    line = " ".join("; ".join(sentences).split())
    shown = line.encode("ascii", "replace").decode()
    printable = "".join(each if each.isprintable() else "?" for each in shown)
    return {WARNING_HEADER: printable[:MOST_CHARACTERS]}


def notes_on_choice(choice: ToolChoice, model: str, models: ModelCatalogue) -> Sequence[str]:
    """Return a note where a call was demanded that the model's provider can't force.

    Args:
        choice: Which tools the model has to call.
        model: The model, which the turn has looked up.
        models: What is known of it.
    """
    if choice in ("auto", "none"):
        return ()
    language_model, name = models.resolve(model)
    info = language_model.recall(name)
    if info is not None and info.forces_tools:
        return ()
    return ("tool_choice: the model is told to call a tool, and may not",)
