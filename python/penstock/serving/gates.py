"""The gates before routes that share what is remembered of requests, as the engine has them."""

import weakref
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from penstock import _native
from penstock.config import Access
from penstock.engine import Engine

__all__ = ["Gates", "Verifying"]


@runtime_checkable
class Verifying(Protocol):
    """What decides in the engine, by what a request brings along."""

    def _verifier(self) -> _native.Verifier: ...

    def _attend(self, engine: Engine, /) -> None:
        """Look after what it verifies with, on the running loop, such as keys that are fetched by `engine`."""


class Gates:
    """What is remembered of decisions about requests, and a gate for each route that shares it.

    Args:
        access: how much is remembered.
        verifier: decides by tokens; None for a hook, which is asked.
        parts: of a request, by which a hook decides.
    """

    def __init__(
        self, access: Access, verifier: _native.Verifier | None, parts: Sequence[tuple[str, str]] = ()
    ) -> None:
        self.native: Final = _native.Decisions(access)
        self._lifetime = access.lifetime
        self._verifier = verifier
        self._parts = parts
        self._gates: dict[str, _native.Gate] = {}
        # Among whose metrics it is. Weak: what is remembered does not keep an engine.
        self._engines = weakref.WeakSet[Engine]()

    def gate(self, engine: Engine, name: str, host: str | None) -> _native.Gate:
        """What stands before the route `name`, which `engine` serves."""
        if engine not in self._engines:
            self.native.add_to(engine.native)
            self._engines.add(engine)
        # Two routes of one name on two hosts are two.
        scope = name if host is None else f"{host} {name}"
        gate = self._gates.get(scope)
        if gate is None:
            gate = _native.Gate(self.native, name, scope, self._parts, self._verifier, self._lifetime)
            self._gates[scope] = gate
        return gate

    def revoke(self, values: Sequence[bytes | None], cut: bool) -> tuple[int, int]:
        """Revoke what was decided about these values of the parts: how many decisions, and responses that were cut."""
        done = [gate.revoke(values, cut) for gate in list(self._gates.values())]
        return sum(count for count, _ in done), sum(count for _, count in done)
