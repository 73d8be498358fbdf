"""Configures structured logs on stderr: text for people, or one JSON object a line.

Every module logs through :mod:`logging`; structlog renders the lines and adds the values bound to
the running turn (``structlog.contextvars.bound_contextvars(session_id=..., turn_id=...)``), and
the owner and the id of the key that it acts for, if these are not the operator's. Text shows a
record's ``extra={"sentence": ...}`` in the place of its message and values. Texts of users and
models are logged at DEBUG only, keys and tokens never.
"""

import io
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO

from mochi_project.configuration.config import ServerSettings
from mochi_project.principal import log_fields
from mochi_project.screen_text import has_colors, printable, steering_escaped

_OF_CALLS = ("models_app.model_calls", "scripted_app.server")
_VERBOSE = ("aiohttp", "asyncio", "httpcore", "httpcore2", "httpx", "httpx2", "ollama_instructor")
"""Below WARNING these log headers, or whole calls with prompts."""


class StructuredFormatter(logging.Formatter):
    """Renders records with structlog, imported with the first record.

    structlog imports ``rich``, which takes a quarter of the start.
    """

    def __init__(self, *, output: Literal["text", "json"]) -> None:
        super().__init__()
        self._as_json = output == "json"
        self._formatter: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its line break."""
        if self._formatter is None:
            self._formatter = _structlog_formatter(as_json=self._as_json)
        return self._formatter.format(record)


def logging_config(settings: ServerSettings) -> dict[str, Any]:
    """Return the ``dictConfig`` of all processes: one handler on stderr, for every logger.

    Loggers that configured themselves before (uvicorn's, django-q2's) lose their own handlers.
    """
    output = settings.log_format
    if output == "auto":
        output = "text" if sys.stderr.isatty() else "json"
    in_detail = "DEBUG" if settings.log_level == "DEBUG" else "WARNING"

    def to_root(level: str) -> dict[str, Any]:
        return {"handlers": [], "propagate": True, "level": level}

    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": {"()": StructuredFormatter, "output": output}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "formatter": "structured",
                "level": settings.log_level,
            }
        },
        "root": {"handlers": ["stderr"], "level": settings.log_level},
        "loggers": {
            "django": to_root("INFO"),
            # Its warnings are client errors (every 404), which the response reports.
            "django.request": to_root("ERROR"),
            "django.server": to_root("INFO"),
            "django-q": to_root(in_detail),
            # mochi-server announces itself; a log line costs more than many a request.
            "uvicorn": to_root(in_detail),
            "uvicorn.error": to_root(in_detail),
            # It formats a line for every response unless the logger is disabled.
            "uvicorn.access": {**to_root(in_detail), "propagate": settings.log_level == "DEBUG"},
            # People read one line for each turn, which has the sums of its calls.
            **({} if output == "json" else dict.fromkeys(_OF_CALLS, to_root(in_detail))),
            **dict.fromkeys(_VERBOSE, to_root("WARNING")),
            # Its errors quote servers and models; tools_app.mcp logs the failure.
            "mcp": to_root("CRITICAL"),
            "stamina": to_root("CRITICAL"),
        },
    }


def _structlog_formatter(*, as_json: bool) -> logging.Formatter:
    import structlog  # noqa: PLC0415 - see StructuredFormatter

    foreign: list[Any] = [
        structlog.contextvars.merge_contextvars,
        lambda _logger, _method, record: {**record, **log_fields()},
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
    ]
    rendering: list[Any]
    if as_json:
        rendering = [
            lambda _logger, _method, record: {k: record[k] for k in record if k != "sentence"},
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            structlog.processors.JSONRenderer(),
        ]
    else:
        rendering = [
            _for_people,
            structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=has_colors(sys.stderr),
                exception_formatter=_write_traceback,
                pad_event_to=0,
                pad_level=False,
            ),
        ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=foreign,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
    )


def _for_people(_logger: Any, _method: str, record: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Show the sentence, if there is one; escape line breaks and terminal control characters.

    Lines may have untrusted text. Those that are indented, as of a tool's traceback, can't pass for
    records of their own.
    """
    if "sentence" in record:
        shown = {key: record[key] for key in ("level", "owner", "session_id") if key in record}
        record = {**shown, "event": record["sentence"]}
    text = re.sub(r"\n(?! {4})", r"\\n", steering_escaped(str(record.get("event", ""))))
    return {**record, "event": text}


def _write_traceback(out: TextIO, found: Any) -> None:
    import structlog  # noqa: PLC0415 - see StructuredFormatter

    text = io.StringIO()
    structlog.dev.plain_traceback(text, found)
    out.write(printable(text.getvalue()))
