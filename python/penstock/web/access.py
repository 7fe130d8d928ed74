"""The access log of `penstock serve`: one line per request, which also says how a relay failed.

aiohttp calls it when a response has ended, or when the middleware `settle_failures` says that it never will.
"""

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from .failures import FAILURE
from .gateway import TENANT

__all__ = ["AccessLogger"]


class AccessLogger(AbstractAccessLogger):
    """Logs `client "METHOD target HTTP/x.y" status bytes seconds`, then the tenant and the failure if any.

    Bytes are those handed to the client's connection, head and framing included. A failure is its code and
    name; its text, which may name internal addresses, is in the log of `penstock.web`.
    """

    @property
    def enabled(self) -> bool:
        """Whether lines are wanted at all: aiohttp takes no times if they are not."""
        return self.logger.isEnabledFor(20)

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        """Log one request."""
        version = request.version
        # What aiohttp could not decode, and quotes, must not break the line.
        target = request.raw_path.encode("ascii", "backslashreplace").decode().replace('"', "%22")
        tenant = request.get(TENANT)
        failure = request.get(FAILURE)
        self.logger.info(
            '%s "%s %s HTTP/%d.%d" %d %d %.6f%s%s',
            request.remote or "-",
            request.method,
            target,
            version.major,
            version.minor,
            response.status,
            request.writer.output_size,
            time,
            "" if tenant is None else f" tenant={tenant!r}",
            "" if failure is None else f" failed=0x{failure.error.code:03X}/{failure.error.name}",
        )
