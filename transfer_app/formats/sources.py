"""Names the programs whose exports are read. Pure; imports no reader."""

from typing import Literal, get_args

Source = Literal["auto", "chatgpt", "claude", "open_webui", "librechat", "chatbot_ui", "mochi"]
SOURCES: tuple[Source, ...] = get_args(Source)
