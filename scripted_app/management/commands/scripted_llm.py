"""``mochi-server scripted_llm``: run the scripted model server by itself."""

import asyncio
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from mochi_project.console.command import MochiCommand
from mochi_project.process.graceful_stop import STOP_SIGNALS


class Command(MochiCommand):
    """Serve the scripted models until CTRL-C."""

    help = (
        "Serve the scripted models of test mode by themselves, over the HTTP "
        "routes of Ollama and of all vendors, until CTRL-C."
    )
    data_dir = "unused"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the address and the pace."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=0, help="port; 0 picks a free one")
        parser.add_argument(
            "--words-per-second", type=float, default=50.0, help="pace; 0 is unpaced"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Serve, and print the URL."""
        if options["words_per_second"] < 0:
            raise CommandError("--words-per-second must be 0 (unpaced) or more")
        try:
            asyncio.run(self._serve(options))
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"can't listen on {options['host']} port {options['port']}: {error}"
            ) from error

    async def _serve(self, options: dict[str, Any]) -> None:
        from scripted_app.server import (  # noqa: PLC0415 - aiohttp is slow to import
            ScriptedModelServer,
        )

        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, stopped.set)
        server = ScriptedModelServer(
            options["host"], options["port"], words_per_second=options["words_per_second"]
        )
        await server.start()
        try:
            self.stdout.write(f"scripted models on {server.url} (OpenAI: {server.url}/v1)")
            self.stdout.flush()
            await stopped.wait()
        finally:
            await server.stop()
