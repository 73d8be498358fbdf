"""Extracts the file from a streamed multipart form (RFC 7578)."""

from collections.abc import AsyncGenerator, AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from sessions_app.errors import ValidationFailed

MOST_PARTS = 100
"""The maximum parts of a form, each of which is parsed on the event loop."""
_HEADER_BYTES = 16 * 1024  # of a part: older parsers set no limit


class FormFile:
    """The single file of a form; other fields are ignored.

    Args:
        content_type: The request's content type, with the boundary.
        pieces: The body as it arrives.

    Attributes:
        name: The client's name of the file, available once its bytes begin.

    Raises:
        ValidationFailed: The boundary is missing or too long.
    """

    def __init__(self, content_type: str, pieces: AsyncIterator[bytes]) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise ValidationFailed("The form has no boundary.", field="content-type")
        self.name: str | None = None
        self._pieces = pieces
        self._parts = self._files = self._header_bytes = 0
        self._is_file = False
        self._arrived: list[bytes] = []
        self._header = self._value = b""
        self._disposition = b""
        self._is_whole = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise ValidationFailed(
                "The boundary of the form is too long.", field="content-type"
            ) from error

    async def data(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the file as they arrive.

        Raises:
            ValidationFailed: The body is not a valid form with exactly one file.
        """
        try:
            async for piece in self._pieces:
                self._parser.write(piece)
                arrived, self._arrived = self._arrived, []
                for found in arrived:
                    yield found
            self._parser.finalize()
        except FormParserError as error:
            raise ValidationFailed(f"The body is not a form: {error}", field="body") from error
        if not self._is_whole:  # the parser does not report an incomplete file
            raise ValidationFailed("The form has no end.", field="body")
        if not self._files:
            raise ValidationFailed("The form has no file.", field="body")

    def _end(self) -> None:
        self._is_whole = True

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise ValidationFailed(f"A form has at most {MOST_PARTS} parts.", field="body")
        self._is_file, self._disposition, self._header_bytes = False, b"", 0

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._value += data[start:end]

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > _HEADER_BYTES:
            raise ValidationFailed("The headers of a part are too long.", field="body")

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        filename = parse_options_header(self._disposition)[1].get(b"filename")
        if filename is None:
            return
        self._files += 1
        if self._files > 1:
            raise ValidationFailed("Send one file in a form.", field="body")
        self._is_file = True
        self.name = filename.decode("utf-8", "replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._arrived.append(data[start:end])
