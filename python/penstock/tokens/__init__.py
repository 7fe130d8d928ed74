"""Tokens that the engine verifies by itself: signed URLs and JSON Web Tokens.

Give one of these as `authorise=` to `penstock.web.Gateway.native` or `penstock.Hub.native`::

    urls = penstock.tokens.SignedUrl(keys={"2026-11": secret})
    app.add_routes([gateway.native("/vod/", authorise=urls)])
    url = urls.sign("https://media.example/vod/7/main.m3u8", prefix="/vod/", lifetime=3600)

Python is asked for no request, and is needed for nothing but to fetch keys from time to time.
"""

from penstock._field_docs import document

from .jwks import Jwks
from .jwt import Jwt, Key
from .signed import SignedUrl

__all__ = ["Jwks", "Jwt", "Key", "SignedUrl"]

document(globals()[name] for name in __all__)
