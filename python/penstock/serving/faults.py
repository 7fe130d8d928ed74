"""Why a response or a site has failed, in the log."""

import logging
from typing import Final

from penstock._limited_log import LimitedLog
from penstock.exceptions import PenstockError

__all__ = ["log_failed_relay", "log_fault"]

_log: Final = logging.getLogger("penstock.web")
_limited: Final = LimitedLog(_log)


def log_fault(request: str | None, error: PenstockError, is_relay: bool) -> None:
    """Log `error`: of the relay of a request, of another response to it, or, without a request, of a site."""
    if request is None:
        _log.error("%s (%s)", error.detail, error.name)
    elif is_relay:
        log_failed_relay(logging.WARNING, request, error)
    else:
        message = "%s: the response was cut off: %s (%s)"
        _limited.log(logging.ERROR, ("fault", error.name), message, request, error.detail, error.name)


def log_failed_relay(level: int, request: str, error: PenstockError) -> None:
    """Log why the relay of `request`, its method and target, has failed; of one origin and one code not each."""
    _limited.log(level, ("relay", error.origin, error.code, level), "%s: %s", request, str(error))
