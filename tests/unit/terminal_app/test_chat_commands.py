"""Tab completes what follows a command."""

from models_app.catalogue import ModelCatalogue
from models_app.ollama.language_model import OllamaLanguageModel
from terminal_app.chat_commands import words_after


async def test_tab_completes_no_model_while_ollama_is_down() -> None:
    models = ModelCatalogue(OllamaLanguageModel("http://127.0.0.1:1"))

    assert list(await words_after(models, "/model")) == []

    await models.aclose()
