"""Certificates that an authority of the test signs, as files, and clients that trust it."""

import socket
import ssl
from pathlib import Path

import trustme

__all__ = ["connect", "trust", "written"]


def written(authority: trustme.CA, directory: Path, *names: str) -> tuple[Path, Path]:
    """A certificate for `names` and its key, as files."""
    leaf = authority.issue_cert(*names)
    cert, key = directory / f"{names[0]}.pem", directory / f"{names[0]}.key"
    cert.write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    key.write_bytes(leaf.private_key_pem.bytes())
    return cert, key


def trust(authority: trustme.CA) -> ssl.SSLContext:
    """What a client has that trusts `authority`."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def connect(
    context: ssl.SSLContext, port: int, name: str, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    """A connection on which the handshake is complete. It blocks."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    try:
        return context.wrap_socket(raw, server_hostname=name, session=session)
    except BaseException:
        raw.close()
        raise
