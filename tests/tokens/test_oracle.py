"""The engine says of tokens what PyJWT, over OpenSSL, says."""

import json
from base64 import urlsafe_b64encode
from functools import cache

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock import _native
from penstock.tokens import Jwt

from .issuer import ALGORITHMS, Signer, rules

NOW = 1_764_000_000
END = 253_402_300_799
"""The last second of the year 9999."""

SIGNERS = {algorithm: Signer.make(algorithm) for algorithm in ALGORITHMS}

TIMES = st.one_of(
    st.integers(NOW - 3, NOW + 3), st.floats(NOW - 3, NOW + 3), st.integers(), st.text(max_size=2)
)

CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "exp": TIMES,
        "nbf": TIMES,
        "iat": TIMES,
        "iss": st.sampled_from(["a", "b", "A", "", 7]),
        "aud": st.one_of(st.sampled_from(["x", "y", ""]), st.lists(st.sampled_from(["x", "y", "ü\n"]))),
        "sub": st.text(max_size=3),
        "ümlaut": st.recursive(st.none() | st.booleans() | st.text(max_size=2), st.lists, max_leaves=4),
    },
)


def judged(handle: _native.Jwt, token: bytes) -> str:
    try:
        handle.verify(token, "/", NOW)
    except penstock.PenstockError as error:
        return error.name
    return "OK"


@cache
def handle_of(algorithm: str, issuer: str | None = None, audience: str | None = None) -> _native.Jwt:
    options = {
        "issuers": () if issuer is None else issuer,
        "audiences": () if audience is None else audience,
        "leeway": 0,
        "required": (),
    }
    return rules(SIGNERS[algorithm], **options)._handle


def encoded(data: bytes) -> bytes:
    return urlsafe_b64encode(data).rstrip(b"=")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_the_oracle_signs_is_accepted_by_its_key_alone(algorithm: str) -> None:
    token = SIGNERS[algorithm].token({"exp": NOW + 1}).encode()
    for other in ALGORITHMS:
        assert (judged(handle_of(other), token) == "OK") == (other == algorithm), other


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_as_json_is_the_key_as_pem(algorithm: str) -> None:
    signer = SIGNERS[algorithm]
    if isinstance(signer.private, bytes):
        jwk = {"kty": "oct", "alg": algorithm, "k": encoded(signer.private).decode()}
    else:
        jwk = signer.jwk(use="sig")
    Jwt(keys=(jwk,))._handle.verify(signer.token().encode(), "/", None)


@given(
    algorithm=st.sampled_from(["HS256", "ES256", "EdDSA"]),
    claims=CLAIMS,
    issuer=st.sampled_from([None, "a"]),
    audience=st.sampled_from([None, "x"]),
)
def test_claims_are_judged_as_the_oracle_judges_them(
    algorithm: str, claims: dict[str, object], issuer: str | None, audience: str | None
) -> None:
    signer = SIGNERS[algorithm]
    payload = json.dumps(claims).encode()
    token = jwt.PyJWS().encode(payload, signer.private, algorithm=algorithm).encode()
    said = judged(handle_of(algorithm, issuer, audience), token)
    assert said == expected(claims, issuer, audience), claims


def expected(claims: dict[str, object], issuer: str | None, audience: str | None) -> str:
    """RFC 7519, section 4.1, at `NOW`: read off the text of the standard, because the oracle reads the clock."""
    times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    if not all(isinstance(time, int | float) and 0 <= time <= END for time in times.values()):
        return "TOKEN_MALFORMED"
    if "exp" in times and times["exp"] <= NOW:  # type: ignore[operator]
        return "TOKEN_EXPIRED"
    if any(name in times and times[name] > NOW for name in ("nbf", "iat")):  # type: ignore[operator]
        return "TOKEN_NOT_YET_VALID"
    if issuer is not None and claims.get("iss") != issuer:
        return "TOKEN_WRONG_ISSUER"
    if "aud" not in claims:
        return "OK" if audience is None else "TOKEN_WRONG_AUDIENCE"
    named = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    return "OK" if audience in named else "TOKEN_WRONG_AUDIENCE"


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    text=st.text(max_size=20),
    at=st.integers(0, 10_000),
    bit=st.integers(0, 7),
)
def test_what_is_changed_is_refused(algorithm: str, text: str, at: int, bit: int) -> None:
    token = bytearray(SIGNERS[algorithm].token({"text": text, "exp": NOW + 1}).encode())
    assert judged(handle_of(algorithm), bytes(token)) == "OK"
    token[at % len(token)] ^= 1 << bit
    assert judged(handle_of(algorithm), bytes(token)) != "OK"
