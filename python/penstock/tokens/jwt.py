"""JSON Web Tokens (RFC 7519): who has one that one of the keys has signed may, as far as it says."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from penstock import _native
from penstock.config.checks import bad, count, flag, put, seconds, texts
from penstock.engine import Engine
from penstock.exceptions import make_error

from .jwks import ALGORITHMS, Algorithm, Jwks, keep_fetched
from .places import Place, check_places

__all__ = ["Jwt", "Key"]

_KINDS: Final = {"oct", "RSA", "EC", "OKP"}


@dataclass(frozen=True, slots=True)
class Key:
    """A key that tokens are verified with, and the one algorithm that it is for."""

    algorithm: Algorithm
    """What a token must be signed by; what the token itself says makes no difference (RFC 8725 §3.1)."""
    key: bytes | str = field(repr=False)
    """For `HS256` a secret of 32 bytes or more (`HS384`: 48, `HS512`: 64), text as UTF-8; for the others a public key in
    PEM, `BEGIN PUBLIC KEY`, as `openssl pkey -pubout` writes it."""
    _: KW_ONLY
    id: str | None = None
    """The `kid` of tokens that it has signed. A token that names a key is verified with that alone, and one that names
    none with up to four of its algorithm. None: it is for all tokens of its algorithm."""

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise bad(self, "algorithm", f"must be one of {', '.join(ALGORITHMS)}")
        if not isinstance(self.key, bytes | str):
            # Not the key itself: errors end in logs.
            raise make_error("BAD_CONFIGURATION", "Key.key must be bytes or a text")
        if self.id is not None and not isinstance(self.id, str):
            raise bad(self, "id", "must be a text or None")


class _KeyText(NamedTuple):
    """A key as the engine reads it."""

    kind: Literal["secret", "pem", "jwk"]
    id: str | None
    algorithm: str
    key: bytes


def _text_of(key: Key) -> _KeyText:
    text = key.key.encode() if isinstance(key.key, str) else key.key
    return _KeyText("secret" if key.algorithm.startswith("HS") else "pem", key.id, key.algorithm, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jwt:
    """Admits clients with a valid JSON Web Token. Give either `keys` or `jwks`.

    A token is refused that is signed by another algorithm than that of its key (`none` among them), has expired or is
    not valid yet, has members twice, or extensions that it says must be understood (`crit`). Keys and addresses of keys
    that a token brings along (`jwk`, `jku`, `x5c`, `x5u`) are not looked at.
    """

    keys: tuple[Key | Mapping[str, Any], ...] = field(default=(), repr=False)
    """The keys; a mapping is a JSON Web Key (RFC 7517) with its `alg`. After construction `Key` and JSON text."""
    jwks: Jwks | str | None = None
    """Where the keys are published: short for `Jwks(url)`."""
    issuers: tuple[str, ...] | str = ()
    """The accepted issuers (`iss`). Empty: any issuer with a key."""
    audiences: tuple[str, ...] | str = ()
    """Whom it must be for: one of these must be in its `aud`. Empty: it must not have one (RFC 7519 §4.1.3)."""
    type: str | None = None
    """What it must say that it is (`typ`), such as `at+jwt` (RFC 9068), so that no token that was made for something
    else is taken for one. None: anything."""
    leeway: float = 60.0
    """Seconds by which the clock of the issuer may be wrong, for `exp`, `nbf` and `iat`; as in Envoy."""
    required: tuple[str, ...] = ("exp",)
    """Claims that it must have. One without `exp` is good for ever."""
    tenant: str | None = None
    """The claim that says on whose account requests are, such as `sub`: a text or a number, which must be there. None:
    no tenant's."""
    paths: str | None = None
    """Which paths it is for. The name of a claim that has a pattern such as `/vod/7/*`, or an array of up to 64; or a
    pattern with claims in braces, such as `/vod/{sub}/*`. A pattern that ends in `*` stands for all that begin so, any
    other for itself. None: all of the route's."""
    name: str = "token"
    """What a token is called in a path, a query or a cookie: `token=...`."""
    places: tuple[Place, ...] = ("bearer",)
    """Where tokens are looked for, in the order path, query, bearer, cookie; the first that is there counts."""
    forward: bool = False
    """Whether the origin is sent the field with the token as well. What is fetched with an `Authorization` may mostly
    not be stored by a shared cache (RFC 9111 §3.5). A token in a path or a query is never sent on."""
    max_bytes: int = 8192
    """Bytes of the longest token. A request head of 64 KiB has room for some."""
    _handle: _native.Jwt = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.jwks, str):
            put(self, "jwks", Jwks(self.jwks))
        if self.jwks is not None and not isinstance(self.jwks, Jwks):
            raise bad(self, "jwks", "must be a Jwks, a URL, or None")
        keys = _key_texts(self)
        if bool(keys) == (self.jwks is not None):
            raise make_error("BAD_CONFIGURATION", "Jwt: either keys or jwks must be given")
        for name in ("issuers", "audiences"):
            value = getattr(self, name)
            put(self, name, (value,) if isinstance(value, str) else value)
        for name in ("issuers", "audiences", "required"):
            texts(self, name)
        for name in ("type", "tenant", "paths"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise bad(self, name, "must be a text that is not empty, or None")
        seconds(self, "leeway", zero=True)
        check_places(self, get_args(Place))
        flag(self, "forward")
        count(self, "max_bytes", 64, 1 << 16)
        places = (self.name, list(self.places), self.forward)
        put(self, "_handle", _native.Jwt(keys, self, places, self.max_bytes))

    def _verifier(self) -> _native.Verifier:
        return self._handle.verifier()

    def _attend(self, engine: Engine) -> None:
        """Have keys fetched by `engine` from now on, on the running loop."""
        if isinstance(self.jwks, Jwks):
            keep_fetched(self._handle, self.jwks, engine)


def _key_texts(settings: Jwt) -> list[_KeyText]:
    keys = settings.keys
    if isinstance(keys, Key | Mapping):
        keys = (keys,)
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise make_error("BAD_CONFIGURATION", "Jwt.keys must be Key, or JSON Web Keys as mappings")
    made: list[Key | str] = []
    texts: list[_KeyText] = []
    for key in keys:
        if isinstance(key, Key):
            made.append(key)
            texts.append(_text_of(key))
            continue
        # A text is what stands here after construction.
        members = _members(key)
        if isinstance(members, Mapping) and members.get("kty") in _KINDS:
            algorithm = str(members.get("alg"))
            if algorithm not in ALGORITHMS:
                raise make_error(
                    "BAD_CONFIGURATION", "Jwt.keys: a JSON Web Key must have an alg that is known"
                )
            text = json.dumps(dict(members))
            made.append(text)
            texts.append(_KeyText("jwk", None, algorithm, text.encode()))
        else:
            raise make_error("BAD_CONFIGURATION", "Jwt.keys must be Key, or JSON Web Keys as mappings")
    put(settings, "keys", tuple(made))
    return texts


def _members(key: object) -> object:
    if not isinstance(key, str):
        return key
    try:
        return json.loads(key)
    except ValueError:
        return None
