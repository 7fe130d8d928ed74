"""Small whole responses, which are sent in one step.

aiohttp prepares and sends a response in eight coroutines, of which each may wait, compress, or frame chunks. A response
whose body is a few bytes needs none of that: a small request takes 147,000 instructions without them, and 177,000 with
them. It is left as aiohttp leaves it: `tests/lane/test_plain_responses.py` compares the two.
"""

from typing import Any, Final

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE
from aiohttp.http_writer import StreamWriter, _serialize_headers
from multidict import CIMultiDict

from .plain_writer import PlainWriter
from .relay_response import has_signals

__all__ = ["send_plain"]

_MOST: Final = 16 * 1024
"""Bytes of the largest body that is copied after its head (arbitrary); a transport never pauses its protocol for it."""
# The others have no body, or none of their own length (RFC 9110, section 8.6).
_NO_CONTENT: Final = frozenset((204, 205, 304))
_TOLD: Final = (hdrs.CONTENT_LENGTH, hdrs.TRANSFER_ENCODING)


def send_plain(request: web.BaseRequest, response: web.StreamResponse) -> bool:
    """Send `response` to `request` if it is small and whole. False: aiohttp must, and nothing has been done."""
    writer: Any = request._payload_writer
    plain: Any = response
    if type(plain) is not web.Response or not _is_plain(request, plain, writer):
        return False
    headers: CIMultiDict[str] = plain._headers
    body: Any = plain._body or b""
    size = len(body)
    headers[hdrs.CONTENT_LENGTH] = str(size)
    if size:
        headers.setdefault(hdrs.CONTENT_TYPE, "application/octet-stream")
    if hdrs.DATE not in headers:
        headers[hdrs.DATE] = rfc822_formatted_time()
    headers.setdefault(hdrs.SERVER, SERVER_SOFTWARE)
    if plain._keep_alive is None:
        plain._keep_alive = request.keep_alive
    if not plain._keep_alive and hdrs.CONNECTION not in headers:
        headers[hdrs.CONNECTION] = "close"
    head = _serialize_headers(f"HTTP/1.1 {plain._status} {plain._reason}", headers)
    writer.transport.write(head + body)
    writer.length = size
    writer.buffer_size = writer.output_size = plain._body_length = len(head) + size
    writer._headers_written = writer._eof = plain._eof_sent = True
    return True


def _is_plain(request: web.BaseRequest, response: Any, writer: Any) -> bool:
    body, headers, transport = response._body, response._headers, writer.transport
    return (
        not (transport is None or transport.is_closing())
        and (body is None or (type(body) is bytes and len(body) <= _MOST))
        and response._status >= 200  # noqa: PLR2004 (a final response)
        and response._status not in _NO_CONTENT
        and not (response._eof_sent or response._payload_writer or response._cookies)
        and not (response._chunked or response._compression or response._compressed_body)
        and request._version == HttpVersion11
        and request._method != hdrs.METH_HEAD
        and type(request) is web.Request
        and type(writer) in {PlainWriter, StreamWriter}
        and not (writer._on_headers_sent or writer._on_chunk_sent or writer.on_body_write)
        and not writer.output_size
        and not any(name in headers for name in _TOLD)
        and not has_signals(request)
    )
