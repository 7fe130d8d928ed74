"""TLS towards clients: certificates, versions, tickets, and what clients have to show."""

from dataclasses import KW_ONLY, dataclass
from os import PathLike
from typing import Final, Literal

from . import checks

CLIENTS = ("off", "optional", "required")
VERSIONS = ("1.2", "1.3")
UNKNOWN_NAMES = ("default", "refuse")


# What browsers ask for before they take a host into their lists (hstspreload.org).
_PRELOADED: Final = 365 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class HSTS:
    """What responses over TLS say of https (RFC 6797): a browser that has read it asks for this host by https alone.

    It cannot be taken back before `max_age` is over.
    """

    max_age: int = 30 * 24 * 3600
    """Seconds for which it holds. 0 ends what was said before. A month: an https that fails shuts browsers out."""
    subdomains: bool = False
    """Whether it holds for all hosts below this one."""
    preload: bool = False
    """Whether the host may be put into the lists of browsers; with `subdomains`, and a year or more of `max_age`."""

    def __post_init__(self) -> None:
        checks.count(self, "max_age", 0)
        checks.flag(self, "subdomains")
        checks.flag(self, "preload")
        if self.preload and not (self.subdomains and self.max_age >= _PRELOADED):
            raise checks.bad(
                self, "preload", f"it goes with subdomains=True and max_age of {_PRELOADED} or more"
            )

    def field(self) -> str:
        """The value of Strict-Transport-Security."""
        parts = [f"max-age={self.max_age}"]
        parts += ["includeSubDomains"] * self.subdomains + ["preload"] * self.preload
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class TLS:
    """The TLS of a server whose sockets the engine owns: `Edge.tls`.

    Files are PEM. The engine looks at them every 10 seconds, and at SIGHUP; a bad file changes nothing and is logged.
    There is no early data (RFC 8446, section 8).
    """

    cert: str | PathLike[str] | None = None
    """The certificate, and after it the intermediate certificates. It is served to clients that name no other."""
    key: str | PathLike[str] | None = None
    """Its private key, not encrypted. None: it is in the file of the certificate."""
    _: KW_ONLY
    directory: str | PathLike[str] | None = None
    """A directory of more certificates: `NAME.pem` or `NAME.crt` with `NAME.key`, or `NAME/fullchain.pem` with
    `NAME/privkey.pem` as certbot has them, each for the names that stand in it, and `NAME.ocsp` to staple. Without
    `cert` the first by name is the default."""
    unknown_names: Literal["default", "refuse"] = "default"
    """For a client that asks for a name without a certificate: the default one, or an alert (unrecognized_name)."""
    min_version: Literal["1.2", "1.3"] = "1.2"
    """The lowest version of TLS. A tenth of the players in use know no 1.3."""
    clients: Literal["off", "optional", "required"] = "off"
    """Whether clients show a certificate of `client_ca`. A handler finds it in
    `request.transport.get_extra_info("peercert")`."""
    client_ca: str | PathLike[str] | None = None
    """The authorities that sign the certificates of clients."""
    crl: str | PathLike[str] | None = None
    """Lists of certificates of clients that are revoked (RFC 5280), one for each authority."""
    ticket_keys: str | PathLike[str] | None = None
    """Keys of session tickets that several nodes share: a line of 48 or 80 bytes in base64 for each, the first encrypts.
    Only its owner may read the file. None: random keys that never leave the process."""
    ticket_period: float = 8 * 3600.0
    """Seconds for which a random key encrypts tickets. A ticket is accepted for three times as long."""
    handshake_timeout: float = 10.0
    """Seconds for a handshake, from accept on. It takes two round trips; a client that drips it attacks."""
    handshakes: int = 1024
    """Handshakes in progress at a time. Above that the longest one is cut: an honest one is over in a second."""
    hsts: HSTS | None = None
    """What responses say of https, whatever they come from; one that has a field Strict-Transport-Security keeps it.
    None: nothing."""
    http_redirect: str | None = None
    """Where requests in plain HTTP are listened for, and answered with a redirect to https: address and port,
    `[address]:port`, or a port alone for all interfaces. Files of `Edge.acme_dir` are served there. None: nowhere."""
    redirect_port: int | None = None
    """The port of https that clients are sent to, where another program passes it on. None: the one of the
    server."""

    def __post_init__(self) -> None:
        for name in ("cert", "key", "directory", "client_ca", "crl", "ticket_keys"):
            if getattr(self, name) is not None:
                checks.path(self, name)
        if self.cert is None and self.directory is None:
            raise checks.bad(
                self, "cert", "TLS takes a certificate: name its file, or a directory of several"
            )
        if self.key is not None and self.cert is None:
            raise checks.bad(self, "key", "it is for `cert`, which is not given")
        checks.word(self, "unknown_names", UNKNOWN_NAMES)
        checks.word(self, "min_version", VERSIONS)
        checks.word(self, "clients", CLIENTS)
        if (self.clients == "off") != (self.client_ca is None):
            raise checks.bad(self, "client_ca", "it goes with clients='optional' or 'required'")
        if self.crl is not None and self.clients == "off":
            raise checks.bad(self, "crl", "it goes with clients='optional' or 'required'")
        checks.seconds(self, "ticket_period")
        checks.seconds(self, "handshake_timeout")
        checks.count(self, "handshakes", 1)
        if self.hsts is not None and not isinstance(self.hsts, HSTS):
            raise checks.bad(self, "hsts", "must be a penstock.config.HSTS, or None")
        self.redirects_at()
        if self.redirect_port is not None:
            checks.count(self, "redirect_port", 1, 65535)
            if self.http_redirect is None:
                raise checks.bad(self, "redirect_port", "it goes with http_redirect")

    def redirects_at(self) -> tuple[str, int] | None:
        """Address and port of `http_redirect`; an empty address is that of all interfaces."""
        if self.http_redirect is None:
            return None
        place = checks.place(self, "http_redirect")
        if isinstance(place, str):
            raise checks.bad(
                self, "http_redirect", "must be an address and a port: browsers open no Unix socket"
            )
        return place if checks.parse_address(self.http_redirect)[0] else ("", place[1])
