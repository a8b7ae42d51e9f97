"""Operations: what an operator may do, one function each, whether asked over the control socket or by the command line
while the daemon is down.

An operation declares the shape of its arguments; what does not fit is refused before it runs. Every write is audited
in its own transaction. A caller other than the operator needs an ACL row for the operation's right.
"""

import asyncio
import inspect
import math
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, field

from gatepost.core import log
from gatepost.core.clock import HOUR, Clock, iso
from gatepost.core.errors import Invalid, Refused, SetupError, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.json_limits import LARGEST_NUMBER
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.repeat_counter import RepeatCounter
from gatepost.core.settings import Config
from gatepost.flow.gateways.folder_check import FolderElsewhere
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.control.answers import from_json, to_json
from gatepost.serve.control.declaration import OperationArgs, OperationInfo, get_answer_type, get_help, summarize
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit

if TYPE_CHECKING:
    from gatepost.flow.reports import PanicResult, TrialOutcome
    from gatepost.flow.sessions.trial import TrialRequest

SHORT_LIST = 100  # rows of an answer that are made JSON on the event loop
LONGEST_SHOWN = 200  # characters of a scope that is refused
FIRST_REFUSED = 20  # refusals of one caller and operation in an hour that are written down one by one
SOON_S = 0.4  # what must not wait for its record waits so long at most

_log = log.get("control")
_unwritten: set[asyncio.Task[None]] = set()
T = TypeVar("T")
A = TypeVar("A", bound=OperationArgs[Any])
R = TypeVar("R")


class OperationDeps(Struct, frozen=True, kw_only=True):
    """Parts that operations work with."""

    home: Home
    store: Store
    clock: Clock
    config: Config
    events: EventBus
    caller: str = OPERATOR  # or a person, like telegram:user/9
    via: str = ""  # the API token by which a program came …
    scopes: tuple[str, ...] | None = None  # … and what it is good for; None: it came by none
    login: str = ""  # the browser in which the caller is signed in
    seen_by: str = ""  # an owner who looks at what the caller sees: nothing is changed or recorded in the caller's name
    args: OperationArgs[Any] | None = None  # of the operation that runs
    stop_session: Callable[[str, str], Awaitable[bool]] | None = None  # (session, by whom); None: nothing is awake
    renew_session: Callable[[str], None] | None = None  # it was changed: it starts anew, after its turn
    apply_switches: Callable[[], Awaitable[int]] | None = (
        None  # the switches have changed: act on them; how many were ended
    )
    # end everything, then write it down
    halt: Callable[[Callable[[], Awaitable[bool]]], Awaitable["PanicResult"]] | None = None
    # one turn of an agent, to see whether it answers
    try_out: "Callable[[TrialRequest], Awaitable[TrialOutcome]] | None" = None
    move_models: Callable[[Config], None] | None = None  # the settings of models or their prices have changed
    # (deps, gateway, operation, arguments): have another gateway run it, which has the folder; None: nobody is asked
    pass_on: "Callable[[OperationDeps, str, str, dict[str, Any]], Awaitable[Any]] | None" = None
    extra: dict[str, Any] = field(default_factory=dict)
    # (caller, operation): what nobody had the right to; one for all calls
    refusals: RepeatCounter[tuple[str, str]] = field(default_factory=lambda: RepeatCounter[tuple[str, str]](HOUR))

    @property
    def caller_name(self) -> str:
        """How the caller is named to people."""
        return "the operator" if self.caller == OPERATOR else self.caller

    async def write(self, fn: Callable[[Db], T], *, action: str = "", **details: Any) -> T:
        """Run a write with the operation's audit record in one transaction: neither is there without the other. The
        record has the operation's arguments; `details` replaces or adds some, `action` names another act."""
        assert self.args is not None, "a write belongs to an operation"
        if self.seen_by:
            raise Refused(self.seen_by, self.args.info.name, self.caller, "you only see the page as somebody else does")
        given = details if action else {**summarize(self.args), **details}
        if self.via:
            given = {**given, "via": self.via}
        record = audit.AuditRecord(self.clock.now(), self.caller, action or self.args.info.name, "done", given)

        def both(db: Db) -> T:
            answer = fn(db)
            audit.append(db, record)
            return answer

        answer = await self.store.write(both)
        self.events.operation()
        return answer

    async def record_soon(self, **details: Any) -> None:
        """The record of something that was done already and must not wait: a store that does not answer writes it
        later."""
        writing = asyncio.ensure_future(self.write(lambda db: None, **details))
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


class Operation(Struct, frozen=True):
    """A registered operation: `run` for one that acts, `read` for one that only reads the store."""

    info: OperationInfo
    args: type[OperationArgs[Any]]
    result: Any  # the type of what it answers
    run: Callable[[OperationDeps, Any], Awaitable[Any]]
    read: Callable[[Db, Any, int], Any] | None = None

    @property
    def summary(self) -> str:
        """The first paragraph of its help, on one line."""
        return " ".join(get_help(self.args).partition("\n\n")[0].split())

    def parse(self, given: dict[str, Any]) -> OperationArgs[Any]:
        for name, value in given.items():
            if not _is_writable(value):
                raise Invalid(name, "is not text: it holds bytes that are no UTF-8, or half a character")
            if not _has_plain_numbers(value):
                raise Invalid(name, "a number in it is larger than anything here, or is none")
        try:
            args: OperationArgs[Any] = msgspec.convert(given, self.args)
        except msgspec.ValidationError as error:
            raise _make_invalid(self.info.name, str(error)) from None
        return args

    async def __call__(self, deps: OperationDeps, given: dict[str, Any]) -> Any:
        """Answer as JSON does, if the caller has the right."""
        return await make_json(await self.answer(deps, self.parse(given)))

    async def answer(self, deps: OperationDeps, args: OperationArgs[Any]) -> Any:
        """Return what it answers, if the caller has the right."""
        deps = replace(deps, args=args)
        if deps.caller != OPERATOR and not self.info.answers_all and not self.info.judges:
            await self._check_right(deps, args)
        try:
            return await self.run(deps, args)
        except FolderElsewhere as error:
            if deps.pass_on is None or self.info.of_machine:
                raise
            passed = await deps.pass_on(deps, error.gateway, self.info.name, msgspec.to_builtins(args))
            return await self._read_passed(error.gateway, passed)

    async def _read_passed(self, gateway: str, passed: Any) -> Any:
        """Return the record that another gateway's answer stands for. A long one is read beside the event loop."""
        try:
            if _is_long(passed):
                return await asyncio.to_thread(from_json, self.result, passed)
            return from_json(self.result, passed)
        except msgspec.ValidationError as error:
            why = f"it was asked, and answers {self.info.name} as another version does ({error})"
            raise Unavailable(f"gateway {gateway}", why, uncertain=True, lasting=True) from None

    async def _check_right(self, deps: OperationDeps, args: OperationArgs[Any]) -> None:
        """Judged by the rows of the access list, as a tool call is. No row that allows it is a refusal."""
        from gatepost.serve.control.rights import ROOT_FOLDER, has_right  # a command that reads starts without it

        action, scope = f"op:{self.info.right}", args.get_scope() or ROOT_FOLDER
        if not await deps.store.read(has_right, deps.caller, action, scope, args):
            shown = scope[:LONGEST_SHOWN]  # nobody without the right writes much
            records = [] if deps.seen_by else self._list_refusals(deps, {"right": action, "scope": shown})
            if records:
                await deps.store.write(audit.append, *records)
            raise Refused(deps.caller, self.info.name, shown, f"it needs {action} there (`gatepost grant allow`)")

    def _list_refusals(self, deps: OperationDeps, details: dict[str, str]) -> list[audit.AuditRecord]:
        """The first few of an hour are written down. How many more there were is, when the hour is over."""
        now = deps.clock.now()
        counted = deps.refusals.add((deps.caller, self.info.name), now, FIRST_REFUSED)
        over = deps.refusals.pop_closed(now)
        records = [
            audit.AuditRecord(
                now, *each.key, "refused", {"repeated": each.count, "since": iso(each.since), "until": iso(each.until)}
            )
            for each in over
        ]
        new = audit.AuditRecord(now, deps.caller, self.info.name, "refused", details)
        return records if counted else [*records, new]


async def make_json(answer: Any) -> Any:
    """Return an answer as JSON has it. A long one is made beside the event loop: it must not hold up everybody else."""
    return await asyncio.to_thread(to_json, answer) if _is_long(answer) else to_json(answer)


def _is_long(answer: Any) -> bool:
    """Return True for a long list, and for a record or an object of JSON that holds one."""
    parts = [answer]
    if isinstance(answer, Struct):
        parts = [getattr(answer, name) for name in answer.__struct_fields__]
    elif isinstance(answer, dict):
        parts = list(answer.values())
    return any(isinstance(each, list | tuple) and len(each) > SHORT_LIST for each in parts)


_TOO_LONG = re.compile(r"Expected `(?:str|array|object)` of length <= (\d+) - at `\$\.(.+)`")


def _make_invalid(operation: str, why: str) -> Invalid:
    """Return the error of arguments that do not fit their declaration, in words for people."""
    if found := _TOO_LONG.fullmatch(why):
        return Invalid(found[2], f"is longer than {int(found[1]):,}, which is the most")
    return Invalid(operation, why)


def _is_writable(value: Any) -> bool:
    """Return True if it can be written as UTF-8: what a terminal or JSON gives may hold surrogates."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def _has_plain_numbers(value: Any) -> bool:
    """Return True if rows and timers can hold each number: none over 64 bits, and neither `nan` nor `inf`, which a form
    may have and JSON has not. A timer that is no number would break the order of all others."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif (isinstance(each, float) and not math.isfinite(each)) or (
            isinstance(each, int) and not -LARGEST_NUMBER <= each < LARGEST_NUMBER
        ):
            return False
    return True


OPERATIONS: Registry[Operation] = Registry("operation", "gatepost.serve.control.operations")


async def find_operation(operations: Registry[Operation], name: str) -> Operation:
    """Return an operation. They are imported when somebody first asks for one, beside what the event loop does."""
    if not operations.is_complete:
        await asyncio.to_thread(operations.complete)
    return operations[name]


def operation(
    fn: Callable[[OperationDeps, A], Awaitable[R]], registry: Registry[Operation] = OPERATIONS
) -> Callable[[OperationDeps, A], Awaitable[R]]:
    """Register a function as `POST /v1/ops/<name>`. Its annotations name the declaration and the type of the answer."""
    args, result = _read_annotations(fn, reads=False)
    registry.add(args.info.name, Operation(args.info, args, result, fn), origin=fn.__module__)
    return fn


def read_operation(
    fn: Callable[[Db, A, int], R], registry: Registry[Operation] = OPERATIONS
) -> Callable[[Db, A, int], R]:
    """The same for a pure function of the store, the arguments and the time."""
    args, result = _read_annotations(fn, reads=True)

    async def run(deps: OperationDeps, given: A) -> R:
        return await deps.store.read(fn, given, deps.clock.now())

    registry.add(args.info.name, Operation(args.info, args, result, run, fn), origin=fn.__module__)
    return fn


def _read_annotations(fn: Callable[..., Any], *, reads: bool) -> tuple[type[Any], Any]:
    signature = inspect.signature(fn, eval_str=True)
    args = list(signature.parameters.values())[1].annotation
    if "info" not in vars(args) or args.info.reads is not reads:
        raise SetupError(f"{fn.__module__}.{fn.__name__}: {args.__name__} declares no such operation")
    declared, result = get_answer_type(args), signature.return_annotation
    if declared not in (Any, result):
        raise SetupError(f"{fn.__module__}.{fn.__name__}: {args.__name__} declares that it answers {declared}")
    return args, result


async def run_within(deps: OperationDeps, fn: Callable[[OperationDeps, A], Awaitable[R]], args: A) -> R:
    """Run an operation as a part of another one. It has its own audit record."""
    return await fn(replace(deps, args=args), args)
