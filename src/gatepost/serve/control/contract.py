"""Operations: what an operator may do, one function each, whether asked over the control socket or by the command line
while the daemon is down.

An operation declares the shape of its arguments; what does not fit is refused before it runs. Every write is audited
in its own transaction.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gatepost.core import log
from gatepost.core.clock import Clock, iso
from gatepost.core.errors import Invalid
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import asdict
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.store import audit
from gatepost.store.port import Db, Store

if TYPE_CHECKING:
    from gatepost.flow.sessions.panic_result import PanicResult
    from gatepost.flow.sessions.trial import TrialOutcome, TrialRequest

_MOMENTS = ("_at", "_until")  # how the names of times end
SOON_S = 0.4  # what must not wait for its record waits so long at most
OPERATOR = "operator"  # whoever may open the control socket, or the home itself

_log = log.get("control")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDeps:
    """What operations work with."""

    home: Home
    store: Store
    clock: Clock
    config: Config
    bells: EventBus
    dispatch: object | None = None  # None: the daemon is down
    stop_session: Callable[[str, str], Awaitable[bool]] | None = None  # (session, by whom); None: nothing is awake
    obey: Callable[[], Awaitable[int]] | None = None  # the switches have changed: act on them; how many were ended
    halt: Callable[[Callable[[], Awaitable[bool]]], Awaitable["PanicResult"]] | None = (
        None  # end everything, then write it down
    )
    try_out: "Callable[[TrialRequest], Awaitable[TrialOutcome]] | None" = (
        None  # one turn of an agent, to see whether it answers
    )
    move_models: Callable[[Config], None] | None = (
        None  # the settings that say where models are, or their prices, have changed
    )
    extra: dict[str, Any] = field(default_factory=dict)


class OperationArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of an operation; a subclass names them."""


class NoArgs(OperationArgs, frozen=True):
    """No arguments."""


A = TypeVar("A", bound=OperationArgs)
Operation = Callable[[OperationDeps, dict[str, Any]], Awaitable[Any]]

OPERATIONS: Registry[Operation] = Registry("operation")


def operation(
    name: str, shape: type[A], registry: Registry[Operation] = OPERATIONS
) -> Callable[[Callable[[OperationDeps, A], Awaitable[Any]]], Callable[[OperationDeps, A], Awaitable[Any]]]:
    """Register a function as `POST /v1/ops/<name>`. It answers with something that JSON can say."""

    def register(fn: Callable[[OperationDeps, A], Awaitable[Any]]) -> Callable[[OperationDeps, A], Awaitable[Any]]:
        async def run(office: OperationDeps, args: dict[str, Any]) -> Any:
            try:
                given = msgspec.convert(args, shape)
            except msgspec.ValidationError as error:
                raise Invalid(name, str(error)) from None
            return await fn(office, given)

        registry.add(name, run, origin=fn.__module__)
        return fn

    return register


def to_json(entity: Any) -> dict[str, Any]:
    """A row as JSON says it: its moments as RFC 3339."""
    return {
        name: iso(value or None) if name == "at" or name.endswith(_MOMENTS) else value
        for name, value in asdict(entity).items()
    }


T = TypeVar("T")


async def run_audited(office: OperationDeps, action: str, details: dict[str, Any], fn: Callable[[Db], T]) -> T:
    """Run a write with its audit record in one transaction: neither is there without the other."""
    now = office.clock.now()

    def both(db: Db) -> T:
        answer = fn(db)
        audit.append(db, audit.AuditRecord(now, OPERATOR, action, "done", details))
        return answer

    return await office.store.write(both)


_unwritten: set[asyncio.Task[None]] = set()


async def record_audit_soon(office: OperationDeps, action: str, details: dict[str, Any]) -> None:
    """The record of something that was done already and must not wait: a store that does not answer writes it later."""
    writing = asyncio.ensure_future(run_audited(office, action, details, lambda db: None))
    _unwritten.add(writing)
    writing.add_done_callback(_unwritten.discard)
    done, _ = await asyncio.wait((writing,), timeout=SOON_S)
    if done:
        writing.result()
    else:
        writing.add_done_callback(_log_failure)


def _log_failure(writing: asyncio.Task[None]) -> None:
    if not writing.cancelled() and (error := writing.exception()) is not None:
        _log.error("what was done could not be written down", error=str(error))
