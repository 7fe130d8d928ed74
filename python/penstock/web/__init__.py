"""penstock inside aiohttp: serve any application on the engine's sockets, relay requests to an origin.

`Site` and `run_app` stand beside aiohttp's own, for any application.

`Gateway.relay` is a handler; `FAILURE` and `TENANT` are where it leaves on a request what an access log wants
to know, and `settle_failures` is the middleware for it.
"""

from penstock._field_docs import document
from penstock.config import TLS
from penstock.serving.relay_spec import HeaderEdits, RelaySpec
from penstock.stats import DecisionStats, TenantStats

from .access import TENANT
from .decisions import Allow, Decisions, Deny, NativeRequest, Revoked
from .failures import FAILURE, Failure, settle_failures
from .gateway import Gateway
from .handover import RelayEnd
from .inspection import Inspected
from .native import NativeRoute
from .runner import run_app
from .site import Site
from .topics import TopicsRoute

__all__ = [
    "FAILURE",
    "TENANT",
    "TLS",
    "Allow",
    "DecisionStats",
    "Decisions",
    "Deny",
    "Failure",
    "Gateway",
    "HeaderEdits",
    "Inspected",
    "NativeRequest",
    "NativeRoute",
    "RelayEnd",
    "RelaySpec",
    "Revoked",
    "Site",
    "TenantStats",
    "TopicsRoute",
    "run_app",
    "settle_failures",
]

document(globals()[name] for name in __all__)
