"""The URLs that `SignedUrl` makes, without an engine."""

import hmac

import pytest

import penstock
from penstock.tokens import SignedUrl

from .issuer import SECRET

URLS = SignedUrl(SECRET)


def test_a_token_is_the_one_line_of_the_guide() -> None:
    signed = "exp=1764000000~acl=/vod/7/*"
    assert URLS.token("/vod/7/*", expires=1764000000) == (
        f"{signed}~hmac={hmac.new(SECRET, signed.encode(), 'sha256').hexdigest()}"
    )


def test_a_token_says_all_that_it_is_given() -> None:
    urls = SignedUrl({"new": SECRET, "old": SECRET * 2})
    token = urls.token("/a", "/b/*", expires=2e9, begins=1e9, address="203.0.113.0/24", tenant="acme")
    fields, _, _ = token.rpartition("~hmac=")
    assert fields == "exp=2000000000~st=1000000000~ip=203.0.113.0/24~acl=/a!/b/*~id=acme~kid=new"


def test_a_url_has_its_token_in_the_query_or_after_the_prefix() -> None:
    query = URLS.sign("https://media.example:8443/vod/7/a%20b.m4s?x=1#t", expires=1764000000)
    assert query.startswith(
        "https://media.example:8443/vod/7/a%20b.m4s?x=1&token=exp=1764000000~acl=/vod/7/a%2520b.m4s~hmac="
    )
    path = URLS.sign("/vod/7/main.m3u8?x=1", prefix="/vod/", expires=1764000000)
    assert path.startswith("/vod/token=exp=1764000000~acl=%2Fvod%2F7%2F*~hmac=")
    assert path.endswith("/7/main.m3u8?x=1")


@pytest.mark.parametrize(
    "make",
    [
        lambda: URLS.token(lifetime=1),
        lambda: URLS.token("vod", lifetime=1),
        lambda: URLS.token("/*/a", lifetime=1),
        lambda: URLS.token("/a~b", lifetime=1),
        lambda: URLS.token("/a!b", lifetime=1),
        lambda: URLS.token("/a?b", lifetime=1),
        lambda: URLS.token("/ä", lifetime=1),
        lambda: URLS.token("/a b", lifetime=1),
        lambda: URLS.token("/a"),
        lambda: URLS.token("/a", lifetime=1, expires=1),
        lambda: URLS.token("/a", lifetime=1, address="here"),
        lambda: URLS.token("/a", lifetime=1, address="203.0.113.7/24"),
        lambda: URLS.token("/a", lifetime=1, tenant="a~b"),
        lambda: URLS.token("/a", lifetime=1, tenant=""),
        lambda: URLS.sign("/live/a", prefix="/vod/", lifetime=1),
        lambda: URLS.sign("/vod/a", prefix="/vod", lifetime=1),
        lambda: SignedUrl(SECRET, places=("cookie",)).sign("/vod/a", lifetime=1),
    ],
)
def test_a_url_that_could_not_be_verified_is_not_signed(make: object) -> None:
    with pytest.raises(penstock.ConfigurationError):
        make()  # type: ignore[operator]
