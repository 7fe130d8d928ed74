"""An origin that echoes what it received, and requests that try to shape what another client gets."""

import socket
from typing import Any

from penstock.testing import RecordedRequest

from .client import RawClient, answer
from .origins import FRESH

EVIL = "evil.test"
NAMES = (
    *("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix"),
    *(
        "X-Forwarded-Scheme",
        "X-Forwarded-Server",
        "X-Forwarded-User",
        "X-Forwarded-Client-Cert",
        "X-Forwarded",
    ),
    *("X_Forwarded_Host", "X.Forwarded.Host", "X-Forwarded-Any_Thing", "Forwarded", "X-Real-IP", "Via"),
    *("X-Host", "X_Host", "X-Original-URL", "X-Original-Host", "X-Rewrite-URL", "X-HTTP-Method-Override"),
    *("X-HTTP-Method", "X-Method-Override", "X-HTTP-Host-Override", "X-HTTP-DestinationURL", "X-Proxy-Host"),
    *("True-Client-IP", "Client-IP", "X-Client-IP", "X-Remote-User", "X-URL-Scheme", "X-Envoy-Original-Path"),
    *(
        "Proxy",
        "Base-Url",
        "Request-Uri",
        "X-Override-URL",
        "Transfer_Encoding",
        "Content_Length",
        "Front-End-Https",
    ),
)


def echoed(*fields: str) -> Any:
    """Says all that was received, in a body that may be stored."""

    def says(number: int, request: RecordedRequest) -> bytes:
        lines = [f"{request.method} {request.target}"]
        lines += [f"{name}: {value}" for name, value in request.fields]
        body = "\n".join(lines).encode()
        head = answer(FRESH, *fields, f"Content-Length: {len(body)}")
        return head if request.method == "HEAD" else head + body

    return says


async def ask(port: int, raw: str, source: str = "127.0.0.1") -> str:
    """The body that is answered to these bytes, for a client at `source`."""
    connection = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
    connection.setblocking(False)
    reader_writer = await RawClient.adopt(connection)
    try:
        await reader_writer.send(raw.encode("latin-1"))
        head = await reader_writer.head()
        assert head.status == 200, head
        return (await reader_writer.body(head)).decode()
    finally:
        reader_writer.abort()


def get(path: str, *fields: str, host: str = "honest.test", version: str = "1.1") -> str:
    return "\r\n".join((f"GET {path} HTTP/{version}", f"Host: {host}", *fields, "Connection: close", "", ""))
