"""penstock inside aiohttp: relay requests to an origin from any application.

`Gateway.relay` is a handler; `FAILURE` and `TENANT` are where it leaves on a request what an access log wants
to know, and `settle_failures` is the middleware for it.
"""

from .failures import FAILURE, Failure, settle_failures
from .gateway import TENANT, Gateway
from .native import NativeRoute

__all__ = ["FAILURE", "TENANT", "Failure", "Gateway", "NativeRoute", "settle_failures"]
