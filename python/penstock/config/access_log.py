"""The access log: where its lines go, and what they say."""

import os
from dataclasses import dataclass
from string import Formatter
from typing import ClassVar, Final

from penstock import _native

from . import checks

_PRESETS: Final = ("plain", "combined", "json")

# As Apache and nginx call it.
_COMBINED: Final = '{client} - {tenant} [{time_clf}] "{request}" {status} {bytes} "{referer}" "{user_agent}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessLog:
    """The access log of a server: a line for each response, written at its end by the engine.

    What a client has sent can end neither a line nor a text between quotes, and tokens in URLs are not written
    (`Edge.secret_parameters`).
    """

    path: str | os.PathLike[str] = "-"
    """The file; `"-"` for standard error. It is opened anew when it was moved away, and at SIGUSR1."""
    format: str = "plain"
    """`plain` (time, client, request, status, bytes, seconds, and what else is known), `combined` (Apache's and
    nginx's), `json` (an object a line, with all that is known), or a text with names of fields in braces, such as
    `"{client} {status} {seconds}"`. `{{` and `}}` stand for braces. What is not known is `-`."""

    FIELDS: ClassVar[dict[str, str]] = dict(_native.AccessLog.fields())
    """The fields that a line may say, each with what it is."""

    def __post_init__(self) -> None:
        checks.path(self, "path")
        checks.text(self, "format")
        self.parts  # noqa: B018 (it checks)

    @property
    def parts(self) -> list[tuple[str, str | None]] | None:
        """Texts, and the field after each; None for the plain form, and nothing for JSON."""
        if self.format == "plain":
            return None
        if self.format == "json":
            return []
        text = _COMBINED if self.format == "combined" else self.format
        if not text.isprintable():
            raise checks.bad(self, "format", "must be one line of printable text")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise checks.bad(self, "format", f"{error}: write {{{{ and }}}} for braces") from None
        names = [
            name for _, name, spec, conversion in parsed if name is not None and not (spec or conversion)
        ]
        if len(names) != sum(name is not None for _, name, *_ in parsed):
            raise checks.bad(self, "format", "must have nothing but a name within braces")
        if not names:
            raise checks.bad(
                self, "format", f"must be one of {', '.join(_PRESETS)}, or have a field in braces"
            )
        for name in names:
            if name not in self.FIELDS:
                raise checks.bad(self, "format", f"{name!r} is no field; there are {', '.join(self.FIELDS)}")
        return [(literal, name) for literal, name, *_ in parsed]
