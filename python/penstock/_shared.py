"""What the processes of one application have in common: objects whose state is the parent's, and no worker's.

A worker process (`penstock.workers`) declares origins, decisions, gateways and hubs like any process; the parent makes
the same ones, once for all workers. Methods that are marked with `shared` are then done there, so that the same code
means the same with workers and without.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from . import _native
    from .engine import Engine

__all__ = ["Parent", "Shared", "join", "parent", "shared"]

S = TypeVar("S", bound="Shared")
P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "_penstock_shared"


class Parent(Protocol):
    """The process in front of a worker, as the worker sees it."""

    @property
    def has_cache(self) -> bool:
        """Whether its engine has a cache."""

    @property
    def lines(self) -> "_native.Lines":
        """What reaches it for no request."""

    def keep(self, shared: "Shared") -> None:
        """Take note of what was made that is to outlive the workers, used by a route or not."""

    def number(self, shared: "Shared") -> int:
        """What `shared` is called there; it is declared first if it has not been."""

    def call(self, shared: "Shared", method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Have a method done there, and wait for it; from any thread."""

    def ask(
        self, shared: "Shared", method: str, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Awaitable[Any]:
        """The same of a coroutine function."""


_parent: Parent | None = None


def join(to: Parent | None) -> None:
    """Have objects that are made from now on be those of `to`; None: this process's own."""
    global _parent  # noqa: PLW0603 (a process has one parent)
    _parent = to


def parent() -> Parent | None:
    """The process in front of this one; None where this process serves alone."""
    return _parent


class Shared:
    """The base of what is declared in every worker and is there once."""

    _KIND: ClassVar[str]
    """What workers and parent call the class."""
    _parent: Parent | None
    """Who has the state; None: the object itself."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """The process that made it is the one that it belongs to, whatever `join` says later."""
        made = super().__new__(cls)
        made._parent = _parent
        return made

    def _declaration(self) -> dict[str, Any]:
        """What the constructor is to be given in the parent, besides its engine."""
        raise NotImplementedError

    @classmethod
    def _declared(cls, engine: "Engine", declaration: dict[str, Any]) -> Self:  # noqa: ARG003 (of some of them)
        """Make the parent's, with the parent's engine."""
        return cls(**declaration)

    async def _dismissed(self) -> None:
        """Let go of the parent's, which no worker and no route has any more."""


def shared(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have `method` of a `Shared` done where its state is.

    It may be called from any thread, and what it takes and returns may go over a link (`workers.messages`).
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
    """The methods of a class that workers may call, as they are where the state is."""
    found = {}
    for name in dir(cls):
        member = getattr(cls, name)
        method = getattr(member.fget if isinstance(member, property) else member, _MARK, None)
        if method is not None:
            found[name] = method
    return found
