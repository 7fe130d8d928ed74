"""What a request asks the origin for: the target as the client wrote it.

Nothing here is decoded or encoded again: the percent-encoding that the client chose reaches the origin. What
the application has decided on must be what the origin resolves, so a path with dot segments, which the origin
would resolve to another one, is refused.
"""

import re
from typing import Final

from aiohttp import web
from yarl import URL

from penstock._native import has_dot_segments, is_target
from penstock.exceptions import make_error

__all__ = ["has_dot_segments", "raw_target", "replaced_target", "target_url"]

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?]*", re.ASCII)


def raw_target(request: web.BaseRequest, base: str, prefix: str) -> str:
    """The target to ask the origin for: the client's without `prefix`, behind `base`.

    Raises:
        RequestError: the client's target cannot be sent on.
    """
    target = request.raw_path
    if not target.startswith("/"):
        target = _origin_form(request.method, target)
        if target == "*":
            return target
    _refuse_ambiguous(target)
    if prefix:
        rest = target.removeprefix(prefix)
        if rest is target or rest[:1] not in {"", "/", "?"}:
            raise make_error("BAD_REQUEST", f"the path does not begin with {prefix!r}, the gateway's prefix")
        target = rest if rest.startswith("/") else "/" + rest
    return base + target


def replaced_target(request: web.BaseRequest, base: str, path: str) -> str:
    """The target to ask the origin for when the application has said `path`.

    Raises:
        RequestError: `path` does not begin with a slash.
    """
    if not path.startswith("/"):
        raise make_error("BAD_REQUEST", f"path is {path!r}; it must begin with '/'")
    if "?" in path:
        return base + path
    _, mark, query = request.raw_path.partition("?")
    return base + path + mark + query


def _origin_form(method: str, target: str) -> str:
    """The origin-form of another form of request target (RFC 9112 section 3.2)."""
    if target == "*" and method == "OPTIONS":
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise make_error("BAD_REQUEST", f"the target of {method} is neither a path nor a URL")
    rest = target[absolute.end() :]
    return rest if rest.startswith("/") else "/" + rest


def _refuse_ambiguous(target: str) -> None:
    if not is_target(target):
        raise make_error("BAD_REQUEST", "the target has a fragment, or another character that no target has")
    if has_dot_segments(target):
        raise make_error("BAD_REQUEST", "the path has dot segments")


def target_url(target: str) -> URL:
    """A target in origin-form. Of `//admin/x` yarl alone would read a host and the path `/x`, which is not asked for."""
    path, _, query = target.partition("?")
    return URL.build(path=path, query_string=query, encoded=True)
