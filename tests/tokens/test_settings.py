"""What may be configured, and what is never shown."""

import pytest

import penstock
from penstock.tokens import Jwks, Jwt, Key, SignedUrl

from .issuer import SECRET, Signer


@pytest.mark.parametrize(
    "make",
    [
        lambda: SignedUrl(b"short"),
        lambda: SignedUrl([]),
        lambda: SignedUrl({"a key": SECRET}),
        lambda: SignedUrl({"": SECRET}),
        lambda: SignedUrl([SECRET, 7]),  # type: ignore[list-item]
        lambda: SignedUrl(SECRET, places=()),
        lambda: SignedUrl(SECRET, places=("bearer",)),
        lambda: SignedUrl(SECRET, places="path"),  # type: ignore[arg-type]
        lambda: SignedUrl(SECRET, name="a=b"),
        lambda: SignedUrl(SECRET, name=""),
        lambda: Key("none", SECRET),  # type: ignore[arg-type]
        lambda: Key("HS256", 7),  # type: ignore[arg-type]
        lambda: Jwt(),
        lambda: Jwt(keys=(Key("HS256", b"short"),)),
        lambda: Jwt(keys=(Key("HS512", SECRET),)),
        lambda: Jwt(keys=(Key("RS256", SECRET),)),
        lambda: Jwt(keys=(Key("ES384", Signer.make("ES256").pem),)),
        lambda: Jwt(keys=({"kty": "oct", "k": "AAAA", "alg": "HS256"},)),
        lambda: Jwt(keys=({"kty": "oct", "k": "AAAA"},)),
        lambda: Jwt(keys=("a key",)),  # type: ignore[arg-type]
        lambda: Jwt(keys=(Key("HS256", SECRET),), jwks="https://issuer.example/jwks.json"),
        lambda: Jwt(keys=(Key("HS256", SECRET),), leeway=-1),
        lambda: Jwt(keys=(Key("HS256", SECRET),), paths="/vod/{"),
        lambda: Jwt(keys=(Key("HS256", SECRET),), paths=""),
        lambda: Jwt(keys=(Key("HS256", SECRET),), tenant=""),
        lambda: Jwt(keys=(Key("HS256", SECRET),), issuers=7),  # type: ignore[arg-type]
        lambda: Jwt(jwks="ftp://issuer.example/jwks.json"),
        lambda: Jwt(jwks="/jwks.json"),
        lambda: Jwks("http://issuer.example/jwks.json"),
        lambda: Jwks("https://issuer.example/jwks.json", algorithms=("HS256",)),
        lambda: Jwks("https://issuer.example/jwks.json", algorithms=()),
        lambda: Jwks("https://issuer.example/jwks.json", usual=10),
        lambda: Jwks("https://issuer.example/jwks.json", keep=60),
    ],
)
def test_what_cannot_be_is_said_at_once(make: object) -> None:
    with pytest.raises((penstock.ConfigurationError, TypeError)):
        make()  # type: ignore[operator]


def test_keys_in_the_clear_are_of_this_machine_or_allowed() -> None:
    for url in ("http://127.0.0.1:8/j", "http://[::1]:8/j", "http://localhost/j"):
        assert Jwks(url).url == url
    assert Jwks("http://issuer.example/j", insecure=True).insecure


def test_no_secret_is_shown() -> None:
    text = "a secret of two and thirty bytes"
    shown = [
        repr(SignedUrl(text)),
        repr(SignedUrl({"a": text})),
        repr(Key("HS256", text)),
        repr(Jwt(keys=(Key("HS256", text),))),
        repr(Jwt(keys=({"kty": "oct", "alg": "HS256", "k": "YSBzZWNyZXQgb2YgdHdvIGFuZCB0aGlydHkgYnl0ZXM"},))),
    ]
    for made in (lambda: SignedUrl([text, 7]), lambda: Jwt(keys=(text,))):  # type: ignore[list-item, arg-type]
        with pytest.raises(penstock.ConfigurationError) as caught:
            made()
        shown.append(str(caught.value))
    for one in shown:
        assert "two and thirty" not in one
        assert "YSBz" not in one


def test_settings_that_are_equal_are_one() -> None:
    assert SignedUrl(SECRET) == SignedUrl([SECRET])
    assert len({Jwt(keys=(Key("HS256", SECRET),)), Jwt(keys=(Key("HS256", SECRET),))}) == 1
