"""Objects that the worker processes of one application share: their state is in the parent.

A worker process (`penstock.workers`) declares origins, decisions, gateways and hubs like any other process. The parent
makes the same objects, once for all workers. Methods that are marked with `shared` run there, so that the same code does
the same with workers and without.
"""

from collections.abc import Awaitable, Callable, Hashable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from . import _native

__all__ = ["Parent", "Plans", "Shared", "join", "parent", "shared"]

S = TypeVar("S", bound="Shared")
P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "_penstock_shared"


class Plans(Protocol):
    """Descriptions of what the parent does for an object of a worker."""

    def describe(self, terms: Hashable, /) -> bytes:
        """Describe a relay (`web.RelaySpec`) or subscriptions (`config.Subscriptions`): equal terms give equal bytes."""


class Parent(Protocol):
    """The parent process, as a worker sees it."""

    @property
    def has_cache(self) -> bool:
        """Whether its engine has a cache."""

    @property
    def lines(self) -> "_native.Lines":
        """The connection to the parent for messages that belong to no request."""

    def keep(self, shared: "Shared") -> None:
        """Have the parent keep `shared` when the workers end, whether a route uses it or not."""

    def number(self, shared: "Shared") -> int:
        """The number of `shared` in the parent. The first call declares it there."""

    def plans(self, shared: "Shared") -> Plans:
        """The descriptions of what the parent does for `shared`."""

    def account(self, on_complete: Callable[..., object], asked: Any, status: int) -> bytes | None:
        """Describe how another worker calls `on_complete` for a request (`web.handover.Asked`) if this worker ends.

        None: another worker cannot find the function by its name.
        """

    def call(self, shared: "Shared", method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a method in the parent and wait for its result. From any thread."""

    def ask(
        self, shared: "Shared", method: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Awaitable[Any]:
        """As `call`, for a coroutine function."""


_parent: Parent | None = None


def join(to: Parent | None) -> None:
    """Set the parent of the objects that are made from now on; None: their state is in this process."""
    global _parent  # noqa: PLW0603 (a process has one parent)
    _parent = to


def parent() -> Parent | None:
    """The parent of this worker process; None if this process is no worker."""
    return _parent


class Shared:
    """The base of objects that every worker declares and the parent has once."""

    _KIND: ClassVar[str]
    """The name of the class between workers and parent."""
    _parent: Parent | None
    """The process that has the state; None: this one."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Bind the object to the parent that the process has now; a later `join` does not change that."""
        made = super().__new__(cls)
        made._parent = _parent
        return made

    def _declaration(self) -> dict[str, Any]:
        """The arguments of the constructor in the parent, without the engine."""
        raise NotImplementedError

    def _declared(self) -> None:
        """Begin, in the parent: a worker has declared the object."""

    async def _dismissed(self) -> None:
        """End, in the parent: no worker and no route has the object any more."""


def shared(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Run `method` of a `Shared` in the process that has the state.

    Any thread may call the method. Its arguments and its result must be of types that `workers.messages` can send.
    """
    waits = iscoroutinefunction(method)

    @wraps(method)
    def call(self: S, *arguments: P.args, **named: P.kwargs) -> R:
        home = self._parent
        if home is None:
            return method(self, *arguments, **named)
        do = home.ask if waits else home.call
        result: R = do(self, method.__name__, arguments, named)  # type: ignore[assignment] # (an awaitable is R then)
        return result

    setattr(call, _MARK, method)
    made: Callable[Concatenate[S, P], R] = call  # type: ignore[assignment] # (as `wraps` types it, it has no `self`)
    return made


def methods_of(cls: type[Shared]) -> dict[str, Callable[..., Any]]:
    """The methods of a class that workers may call, as the parent runs them."""
    found = {}
    for name in dir(cls):
        member = getattr(cls, name)
        method = getattr(member.fget if isinstance(member, property) else member, _MARK, None)
        if method is not None:
            found[name] = method
    return found
