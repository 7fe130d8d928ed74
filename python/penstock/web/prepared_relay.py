"""A `RelaySpec` in the forms that an engine takes, made once for all requests of a kind."""

from typing import Final

from penstock import _native
from penstock.engine import Engine
from penstock.framing import Events, native_framing
from penstock.serving.relay_spec import NO_EDITS, Handles, RelaySpec

__all__ = ["PreparedRelay"]


class PreparedRelay:
    """A relay, ready to be carried out by `engine`.

    Args:
        spec: the relay.
        engine: what fetches.
        framing: how event streams are cut.
        handles: what `engine` keeps of the relay.
    """

    __slots__ = (
        "_forwardings",
        "_native",
        "cut",
        "edits",
        "engine",
        "framing",
        "handles",
        "spec",
    )

    def __init__(self, spec: RelaySpec, engine: Engine, framing: Events, handles: Handles) -> None:
        self.spec: Final = spec
        self.engine: Final = engine
        self.framing: Final = framing
        self.cut: Final = native_framing(framing)
        self.handles: Final = handles
        self.edits: Final = None if spec.response == NO_EDITS else spec.response
        self._forwardings: dict[bool, _native.Forwarding] = {}
        self._native: _native.Relay | None = None

    @property
    def native(self) -> _native.Relay:
        """What the engine answers by alone; made at the first call for it."""
        if self._native is None:
            self._native = _native.Relay(self.spec, self.handles, self.engine.native)
        return self._native

    def forwarding(self, *, fills: bool) -> _native.Forwarding:
        """What each side is told of the other. `fills`: the cache may store the response for other clients."""
        known = self._forwardings.get(fills)
        if known is None:
            spec = self.spec
            redirects = (self.handles.origin, spec.replacement, spec.prefix)
            known = _native.Forwarding(spec.forwarding, spec.caching if fills else None, redirects)
            self._forwardings[fills] = known
        return known
