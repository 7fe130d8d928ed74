"""The fields of a message that a handler passes on."""

from collections.abc import Iterable, Mapping

from . import _arguments, _native
from .stream import NO_HEAD, Response

__all__ = ["end_to_end"]


def end_to_end(message: Response | Mapping[str, str] | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The fields that a handler passes on between a client and an origin, in their order.

    They are all but the fields of one connection and what Connection names (RFC 9110, section 7.6.1), credentials for
    proxies and their challenges, Host and Expect of a request, and what an application behind CGI would take for a field
    of the framing, such as `Transfer_Encoding`. `Gateway.relay` passes on the same fields of a response.

    Args:
        message: a response of `Engine.get` and its kind, or the fields of a request, as `request.headers` of aiohttp.

    Returns:
        Pairs of name and value, as `headers=` of `Engine.request` and of `aiohttp.web.StreamResponse` take them. Of a
        response, Content-Length is there once, and a value whose bytes are not UTF-8 is read as ISO 8859-1.

    Raises:
        AttributeError: the response has no head yet: await it, or enter it with `async with`.
        RequestError: `message` is neither a response nor fields (BAD_REQUEST).
    """
    fields = _native.end_to_end(message)
    if fields is not None:
        return fields
    if isinstance(message, Response):
        raise AttributeError(NO_HEAD)  # noqa: TRY004 (as its `status` does)
    pairs = list(_arguments.pairs("message", message, code="BAD_REQUEST"))
    fields = _native.end_to_end(pairs)
    assert fields is not None, "pairs of texts are as usual"  # noqa: S101
    return fields
