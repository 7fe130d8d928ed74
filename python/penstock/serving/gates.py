"""The gates before routes that share what is remembered of requests, as the engine has them."""

import logging
import os
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, runtime_checkable

from penstock import _native
from penstock.config import Access
from penstock.engine import Engine

from .revocations import tell_others
from .upgrade_messages import Decided, Revoke

__all__ = ["Gates", "Verifying", "revoke_here", "take_decided", "write_decided"]

_log: Final = logging.getLogger("penstock.serve")

# Bytes of a file of decisions (arbitrary): 100,000 decisions with short names of tenants take 9 MB.
_MOST: Final = 64 << 20

_lock: Final = threading.Lock()
_all: Final = weakref.WeakSet["Gates"]()


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
        with _lock:
            _all.add(self)

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

    def revoke(self, key: Sequence[bytes | None] | None, tenant: str | None, *, cut: bool) -> tuple[int, int]:
        """Revoke what was decided, and tell the other process of an upgrade that is under way.

        Args:
            key: about the requests that have this for each of the parts; None: about all.
            tenant: about that tenant, without a key; None: about all.
            cut: whether responses that run by it end.

        Returns:
            How many decisions were forgotten here, and responses cut.
        """
        done = self._revoke(key, tenant, cut)
        values = (
            None if key is None else tuple(None if each is None else each.decode("latin-1") for each in key)
        )
        tell_others(Revoke(tuple(self._gates), values, tenant, cut))
        return done

    def _revoke(self, key: Sequence[bytes | None] | None, tenant: str | None, cut: bool) -> tuple[int, int]:
        if key is None:
            return self.native.revoke(tenant, cut)
        done = [gate.revoke(key, cut) for gate in list(self._gates.values())]
        return sum(count for count, _ in done), sum(count for _, count in done)

    def take(self, revocation: Revoke) -> None:
        """Revoke what the other process of an upgrade has revoked, if it is about a route of these."""
        key = revocation.key
        if self._gates.keys().isdisjoint(revocation.routes) or (
            key is not None and len(key) != len(self._parts)
        ):
            return
        values = None if key is None else [None if each is None else each.encode("latin-1") for each in key]
        self._revoke(values, revocation.tenant, revocation.cut)

    def write(self, descriptor: int, *, growth: bool) -> Decided:
        """Write what a hook has decided and what tenants have had, or with `growth` what they have had since, to a file.

        What was verified is not written: the next process verifies it anew, with the keys that it has.
        """
        content = "growth" if growth else "all" if self._verifier is None else "totals"
        decisions, tenants = self.native.write_records(descriptor, content, _MOST)
        return Decided(tuple(self._gates), self._keys, decisions, tenants)

    def take_decided(self, decided: Decided, descriptor: int) -> None:
        """Take what the process before has written, if it is about a route of these.

        A decision counts where the same parts of a request decide. It is not taken if one of its kind was revoked here.
        """
        if not self._gates.keys().isdisjoint(decided.routes):
            decides_alike = self._verifier is None and decided.parts == self._keys
            self.native.take_records(descriptor, decides_alike)

    @property
    def _keys(self) -> tuple[str, ...]:
        return tuple(f"{kind}:{name}" for kind, name in self._parts)


def write_decided(*, growth: bool) -> Iterator[tuple[Decided, int]]:
    """What this process has for the one that takes its place, each with the descriptor of a file that is closed then.

    Args:
        growth: what tenants have had since the last call, and no decisions.
    """
    for gates in _known():
        try:
            descriptor = os.memfd_create("penstock-decisions", os.MFD_CLOEXEC)
        except OSError as error:
            _no_memory(error)
            return
        try:
            decided = gates.write(descriptor, growth=growth)
            if decided.decisions or decided.tenants:
                yield decided, descriptor
        except OSError as error:
            _no_memory(error)
        finally:
            os.close(descriptor)


def _no_memory(error: OSError) -> None:
    _log.warning(
        "upgrade: decisions and totals of tenants stay here, for there is no file for them: %s", error
    )


def take_decided(decided: Decided, descriptor: int) -> None:
    """Take what the process before this one has decided. From any thread."""
    for gates in _known():
        try:
            gates.take_decided(decided, descriptor)
        except OSError as error:
            _log.warning("decisions of the process before this one cannot be read: %s", error)


def _known() -> list[Gates]:
    with _lock:
        return list(_all)


def revoke_here(revocation: Revoke, said_by: socket.socket) -> None:
    """Revoke what the process at the other end of `said_by` has revoked, and tell the ones that it does not know.

    From any thread.
    """
    for gates in _known():
        gates.take(revocation)
    tell_others(revocation, said_by)
