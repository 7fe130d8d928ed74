"""Signed URLs: who has one may, until it expires, fetch what it is for."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from ipaddress import ip_network
from typing import Final, cast
from urllib.parse import quote

from yarl import URL

from penstock import _arguments, _native
from penstock.config.checks import flag
from penstock.engine import Engine
from penstock.exceptions import make_error

from .places import Place, check_places

__all__ = ["SignedUrl"]

_LEAST: Final = 16
# What separates fields, patterns and segments, and what no URL has.
_RESERVED: Final = frozenset("~!?#")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class SignedUrl:
    """Admits clients with a URL that was signed with one of these keys, and signs such URLs.

    A token is `exp=1764000000~acl=/vod/7/*~hmac=...`: fields with `~` between them, and the HMAC-SHA256 of all that
    stands before `~hmac=`, in hexadecimal digits. That is the form of Akamai's token 2.0, for which there are signers
    in most languages. Fields are `exp` (until when, in seconds since 1970), `acl` (patterns of paths with `!` between
    them; one that ends in `*` stands for all that begin so), and where they are wanted `st` (from when on), `ip` (an
    address or a network), `id` (on whose account it is, the tenant), `kid` (which key) and `data` (whatever the
    signer likes). A token with other fields is refused.
    """

    keys: bytes | str | Iterable[bytes | str] | Mapping[str, bytes | str] = field(repr=False)
    """Secrets of 16 bytes or more, text as UTF-8: the first one signs, all of them verify. With names, tokens say which
    one has signed them (`kid`). To rotate, put the new one first, and take the old one out when its tokens have
    expired. After construction it is a tuple of pairs of name and bytes."""
    _: KW_ONLY
    name: str = "token"
    """What a token is called where it stands: `token=...`."""
    places: tuple[Place, ...] = ("path", "query", "cookie")
    """Where tokens are looked for, in the order path, query, cookie; the first that is there counts."""
    forward: bool = False
    """Whether the origin is sent the cookie with the token as well. A token in a path or a query is never sent on, and
    is in no key of the cache."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", _secrets(self.keys))
        check_places(self, ("path", "query", "cookie"))
        flag(self, "forward")

    def token(
        self,
        *paths: str,
        lifetime: float | None = None,
        expires: float | None = None,
        begins: float | None = None,
        address: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Make a token, as it stands in a cookie or in a query.

        Args:
            paths: patterns of paths, percent-encoded as on the wire and with the route's prefix. One that ends in `*`
                stands for all that begin so: `/vod/7/*`.
            lifetime: seconds from now on for which it is good.
            expires: until when it is good, in seconds since 1970, in place of `lifetime`.
            begins: from when on it is good, in seconds since 1970.
            address: the only address that it is good from, or a network such as `203.0.113.0/24`.
            tenant: on whose account requests with it are.

        Raises:
            ConfigurationError: a path does not begin with a slash, or has one of `~ ! ? #` or a `*` that is not its last
                character; the address is invalid; the tenant has a `~` or is not printable ASCII; or not exactly one of
                `lifetime` and `expires` was given.
        """
        for path in paths:
            _arguments.text("one of paths", path, "'/vod/7/*'", optional=False)
        _arguments.number("lifetime", lifetime, "seconds")
        _arguments.number("expires", expires, "seconds since 1970")
        _arguments.number("begins", begins, "seconds since 1970")
        _arguments.text("address", address, "'203.0.113.7'")
        _arguments.text("tenant", tenant)
        for path in paths or ("",):
            body = path.removesuffix("*")
            plain = path.isascii() and path.isprintable() and " " not in path
            if not path.startswith("/") or not plain or "*" in body or _RESERVED & set(body):
                raise make_error(
                    "BAD_CONFIGURATION", f"{path!r} is no pattern of paths; it must be like '/vod/7/*'"
                )
        if (lifetime is None) == (expires is None):
            raise make_error(
                "BAD_CONFIGURATION", "a token has either a lifetime or a time at which it expires"
            )
        end = time.time() + lifetime if expires is None else expires  # type: ignore[operator] # (one of them is given)
        fields = [f"exp={int(end)}"]
        if begins is not None:
            fields.append(f"st={int(begins)}")
        if address is not None:
            fields.append(f"ip={_address(address)}")
        fields.append(f"acl={'!'.join(paths)}")
        if tenant is not None:
            if not tenant or "~" in tenant or not tenant.isascii() or not tenant.isprintable():
                raise make_error(
                    "BAD_CONFIGURATION", f"the tenant is {tenant!r}; it must be ASCII without a ~"
                )
            fields.append(f"id={tenant}")
        import hmac  # noqa: PLC0415 (OpenSSL, which takes 4 MB where nothing is signed)

        name, secret = self._pairs()[0]
        if name is not None:
            fields.append(f"kid={name}")
        signed = "~".join(fields)
        return f"{signed}~hmac={hmac.new(secret, signed.encode(), 'sha256').hexdigest()}"

    def sign(
        self,
        url: str | URL,
        *,
        paths: Iterable[str] | None = None,
        prefix: str | None = None,
        lifetime: float | None = None,
        expires: float | None = None,
        begins: float | None = None,
        address: str | None = None,
        tenant: str | None = None,
    ) -> str:
        """Sign a URL.

        Args:
            url: an address, or a path.
            paths: patterns of paths that the token is for. By default the path of `url` alone, or with `prefix` all that
                lies beside it and below, so that a playlist's address is good for its segments.
            prefix: the route's prefix, such as `/vod/`. With it the token becomes the first segment after the prefix,
                and players keep it when they resolve the addresses in a playlist. Without it the token becomes a
                parameter of the query, which they drop.
            lifetime: as for `token`, and so are the others.
            expires: see there.
            begins: see there.
            address: see there.
            tenant: see there.

        Raises:
            ConfigurationError: as `token`; or the path does not begin with `prefix`, or tokens are not looked for there.
        """
        if not isinstance(url, str | URL):
            raise _arguments.bad("url", url, "a text or a yarl.URL")
        if paths is not None:
            paths = _arguments.sequence("paths", paths, "patterns of paths: write ['/vod/7/*']")
        _arguments.text("prefix", prefix, "'/vod/'")
        target = url if isinstance(url, URL) else URL(url, encoded=url.isascii())
        path = target.raw_path
        if paths is None:
            paths = (path,) if prefix is None else (path[: path.rindex("/") + 1] + "*",)
        token = self.token(
            *paths, lifetime=lifetime, expires=expires, begins=begins, address=address, tenant=tenant
        )
        place = "query" if prefix is None else "path"
        if place not in self.places:
            raise make_error("BAD_CONFIGURATION", f"no token is looked for in a {place}")
        if prefix is None:
            # What has a meaning in a query is encoded: other programs take URLs apart and put them together again.
            parameter = f"{self.name}={quote(token, safe='~=/*!:')}"
            query = f"{target.raw_query_string}&{parameter}" if target.raw_query_string else parameter
            return str(_replaced(target, path, query))
        if not (prefix.startswith("/") and prefix.endswith("/") and path.startswith(prefix)):
            raise make_error("BAD_CONFIGURATION", f"{path!r} is not below the prefix {prefix!r}")
        segment = f"{self.name}={quote(token, safe='~=*!:')}"
        path = f"{prefix}{segment}/{path.removeprefix(prefix)}"
        return str(_replaced(target, path, target.raw_query_string))

    def _pairs(self) -> tuple[tuple[str | None, bytes], ...]:
        return cast("tuple[tuple[str | None, bytes], ...]", self.keys)

    def _attend(self, _: Engine) -> None:
        """There is nothing that an engine would have to look after."""

    def _verifier(self) -> _native.Verifier:
        return _native.signed_url(list(self._pairs()), (self.name, list(self.places), self.forward))


def _replaced(url: URL, path: str, query: str) -> URL:
    return URL.build(
        scheme=url.scheme, authority=url.raw_authority, path=path, query_string=query, encoded=True
    )


def _secrets(keys: object) -> tuple[tuple[str | None, bytes], ...]:
    if isinstance(keys, Mapping):
        pairs = list(keys.items())
    elif isinstance(keys, bytes | str):
        pairs = [(None, keys)]
    elif isinstance(keys, Iterable):
        pairs = [key if isinstance(key, tuple) else (None, key) for key in keys]
    else:
        pairs = []
    made = []
    for name, key in pairs:
        # Not the key itself: errors end in logs.
        secret = key.encode() if isinstance(key, str) else key
        if not isinstance(secret, bytes) or len(secret) < _LEAST:
            raise make_error("BAD_CONFIGURATION", f"SignedUrl.keys: each must have {_LEAST} bytes or more")
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise make_error("BAD_CONFIGURATION", f"SignedUrl.keys: {name!r} is no name of a key")
        made.append((name, secret))
    if not made:
        raise make_error("BAD_CONFIGURATION", "SignedUrl.keys: there must be one at least")
    return tuple(made)


def _address(address: str) -> str:
    try:
        network = ip_network(address)
    except ValueError as error:
        raise make_error("BAD_CONFIGURATION", f"address is {address!r}: {error}") from None
    return str(network.network_address) if "/" not in address else str(network)
