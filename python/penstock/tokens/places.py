"""Where requests have their tokens, as `SignedUrl` and `Jwt` are told it."""

import re
from typing import Any, Final, Literal

from penstock.config.checks import bad, put, sequence

__all__ = ["Place", "check_places"]

Place = Literal["path", "query", "bearer", "cookie"]
"""`path`: `token=...` as the first segment behind the route's prefix. `query`: a parameter `token`. `bearer`:
`Authorization: Bearer ...` (RFC 6750 §2.1). `cookie`: a cookie `token`."""

# What needs no encoding in a path, a query or a cookie.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def check_places(settings: Any, known: tuple[str, ...]) -> None:
    """Check the fields `name` and `places` of `settings`.

    Raises:
        ConfigurationError: one of them cannot be.
    """
    if not isinstance(settings.name, str) or not _NAME.fullmatch(settings.name):
        raise bad(settings, "name", "must be letters, digits, - and _")
    rule = f"must be some of {', '.join(known)}, such as ({known[0]!r},)"
    places = sequence(settings, "places", rule)
    if not places or not all(place in known for place in places):
        raise bad(settings, "places", rule)
    put(settings, "places", places)
