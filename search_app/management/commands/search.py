"""``mochi-server search``: find words in all that was said."""

import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

import msgspec
from django.core.management import CommandError
from pydantic import ValidationError
from rich.text import Text

from mochi_project.app import current_services
from mochi_project.console.reports import ReportCommand
from mochi_project.screen_text import printable
from search_app.entries import FoundRole
from search_app.index import IndexUnavailable
from search_app.query import Query
from search_app.schemas import SearchParams, results_to_json
from search_app.search_request import Found, Results, SearchRequest
from search_app.service import FEW, SessionSearch
from search_app.snippets import snippet
from sessions_app.errors import StorageError

_MOST_RESULTS = 100


class Command(ReportCommand):
    """Search in messages, titles and summaries."""

    help = (
        "Find words in messages, names of attachments, titles and summaries: all of the words, "
        '"in a row", -without, begin*. Sessions that were changed last come first.'
    )
    of_owner = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the words, and which messages are searched."""
        parser.add_argument(
            "words",
            nargs="+",
            help="what to look for; quote it, as in 'asyncio \"event loop\" -java'",
        )
        parser.add_argument(
            "--role", choices=get_args(FoundRole), help="only these; system prompts only so"
        )
        parser.add_argument(
            "--model", help="only answers of this model, and the rest of sessions that have it"
        )
        parser.add_argument("--from", metavar="TIME", help="only messages from then on")
        parser.add_argument("--to", metavar="TIME", help="only messages before then; a date counts")
        parser.add_argument(
            "--limit", type=int, default=20, help=f"how many at most (20; up to {_MOST_RESULTS})"
        )
        self.add_json_flag(parser)

    def handle(self, *args: Any, words: Sequence[str], **options: Any) -> None:  # noqa: ARG002
        """Search, and print what is found."""
        request = _request(words, options)
        search = current_services().get(SessionSearch)
        begun = time.perf_counter()
        try:
            self._fill(search)
            results = _results(search, request)
        finally:
            search.updater.close()
        if options["json"]:
            seconds = time.perf_counter() - begun
            self.print_json(results_to_json(results, request.query, seconds))
            return
        for found in results.found:
            self.print_rich(_text(found, request.query))
        if results.next_cursor is not None:
            self.stdout.write(f"{len(results.found)} of about {results.total_estimate} results")
        elif not results.found:
            self.stderr.write("Nothing was found.")

    def _fill(self, search: SessionSearch) -> None:
        """Bring the index up to date first, where that can be done."""
        _, pending = search.state()
        if pending > FEW:
            self.stderr.write(f"Indexing {pending:,} sessions ...")
        with suppress(IndexUnavailable, OSError, StorageError):  # sessions are read instead
            search.updater.fill()


def _request(words: Sequence[str], options: Mapping[str, Any]) -> SearchRequest:
    names = ("role", "model", "from", "to", "limit")
    given = {name: options[name] for name in names if options[name] is not None}
    try:
        return SearchParams.model_validate({"q": " ".join(words), **given}).request()
    except ValidationError as error:
        [name] = error.errors()[0]["loc"][-1:]
        raise CommandError(f"{name}: {error.errors()[0]['msg']}.") from error


def _results(search: SessionSearch, request: SearchRequest) -> Results:
    """Return the results up to the limit, also where pages end early."""
    pages = list(_pages(search, request))
    found = [one for page in pages for one in page.found]
    return msgspec.structs.replace(
        pages[-1], found=found, total_estimate=max(pages[0].total_estimate, len(found))
    )


def _pages(search: SessionSearch, request: SearchRequest) -> Iterator[Results]:
    left = request.limit
    cursor = None
    while True:
        page = search.search(msgspec.structs.replace(request, limit=left, cursor=cursor))
        yield page
        left -= len(page.found)
        cursor = page.next_cursor
        if cursor is None or left <= 0:
            return


def _text(result: Found, query: Query) -> Text:
    metadata, entry = result.metadata, result.entry
    title = " ".join(printable(metadata.title or metadata.preview or "").split())
    when = printable(entry.timestamp[:16].replace("T", " "))
    head = f"{metadata.session_id}  {when}  {entry.role}"
    pieces = [
        (printable(piece.text), "bold" if piece.match else "")
        for piece in snippet(entry.text, query)
    ]
    return Text.assemble((f"{head}  {title}\n", "dim"), "  ", *pieces)
