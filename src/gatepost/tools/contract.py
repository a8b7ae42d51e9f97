"""A tool: a plain async function that says above it who gets it. Its schema, visibility and page come from there.

The function's first parameter is the call (`tools/call.py`); the others are the tool's arguments, described by
`Annotated[…, Meta(…)]`. It decides nothing about permission: the gate has done that before.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from gatepost.access.subjects import Subject, ToolEffects, find_subject, make_effects
from gatepost.access.tiers import Tier, TreeScope
from gatepost.core.errors import SetupError
from gatepost.core.json_limits import LARGEST_NUMBER
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.store.rights.requests import BoundReads
from gatepost.tools.call import ToolCall

BODY = "gatepost:body"
OURS = "gatepost."  # modules whose declarations tests have tried
SCALARS = frozenset(("string", "integer", "number", "boolean", "null"))  # types of JSON schema
# The parameter that names a room has the first of these names in every schema. Calls may use the others, too.
ROOM_PARAMETERS = ("chatJid", "chat_jid", "targetJid", "target_jid", "jid", "room")
Body = Annotated[str, msgspec.Meta(extra={BODY: True})]  # what people wrote: the audit keeps its hash and length only


class ForwardedResult(msgspec.Struct, frozen=True):
    """Content blocks: the answer of another server, passed on as it is, or a text with a picture."""

    content: list[dict[str, Any]]
    structured: dict[str, Any] | None = None
    failed: bool = False

    @property
    def text(self) -> str:
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


class ToolScope(Enum):
    """The kind of thing that the parameter of `scoped_by` names."""

    ROOM = "room"
    GROUP = "group"


class ToolListing:
    """A tool's entry in tools/list, made when it is first asked for: to make those of all tools is a tenth of a start.
    `own`: its schemas are ours; those of another server promise nothing."""

    def __init__(self, make: Callable[[], dict[str, Any]], *, own: bool = True) -> None:
        self._make, self._own = make, own

    @cached_property
    def entry(self) -> dict[str, Any]:
        return self._make()

    @cached_property
    def is_flat(self) -> bool:
        """Return True if the result holds words and numbers alone: encoding it costs no more than measuring it."""
        return self._own and "outputSchema" in self.entry and _is_flat(self.entry["outputSchema"])


class Tool(Struct, frozen=True, kw_only=True, dict=True):
    """A registered tool, with everything that a call needs made beforehand."""

    name: str
    tier: Tier  # the deepest that has it
    group: str
    effects: ToolEffects  # what it does outside its own session
    read_only: bool = False  # it has no effect at all; what another server says of its own tools does not count
    description: str
    run: Callable[..., Awaitable[object]]
    read: Callable[[bytes], dict[str, Any]]  # arguments from JSON; a ValueError says what does not fit
    bodies: frozenset[str]
    structured: bool  # False: the result is a text
    listing: ToolListing
    scoped_by: str | None = None
    scope: ToolScope | None = None
    also_scoped_by: tuple[str, ...] = ()  # further parameters that name rooms
    within: TreeScope = TreeScope.SUBTREE  # how far a scope that is a group may lie
    about: Callable[[Mapping[str, Any]], Iterable[str]] | None = None  # the groups of a call, if no parameter names it
    acts_as: Callable[[Mapping[str, Any]], str] | None = None  # a tool whose rules hold for such a call, too; '': none
    not_root: bool = False  # root has nobody to do it with
    asks_about_hosts: bool = False  # it is of no use to a group in which nobody is asked about them
    held: bool = False
    holds_if: Callable[[ToolCall, Mapping[str, Any]], Awaitable[str]] | None = None  # why a person must agree; '': not
    preview: Callable[[ToolCall, Mapping[str, Any]], Awaitable[str]] | None = None  # what a call would change
    reads: Callable[[ToolCall, Mapping[str, Any]], Awaitable[BoundReads]] | None = None  # besides its arguments
    here: bool = False  # it speaks in the room of its turn, which no parameter names
    quick: bool = False
    core: bool = False  # every turn starts with it; the others are found
    searches: bool = False  # it is of no use where no service that searches the web is set
    reports_cost: bool = False  # the money is gone already, so that a budget that is spent does not refuse it
    former_names: tuple[str, ...] = ()  # of the parameter in `scoped_by`: rules may still use them

    @property
    def listed(self) -> dict[str, Any]:
        return self.listing.entry

    @cached_property
    def is_judged(self) -> bool:
        """Return True if every call is judged, also where no rule is about the tool."""
        acts = self.acts_as is not None  # the rules may be about the tool that it stands for alone
        return self.scope is not None or self.held or self.holds_if is not None or self.spends or acts

    @cached_property
    def spends(self) -> bool:
        """Return True if the tool costs money, so that it is refused when the budget is spent. Effects that nobody
        declared do not count."""
        return Subject.SPEND in self.effects.subjects and not self.effects.presumed and not self.reports_cost


TOOLS: Registry[Tool] = Registry("tool")

Function = TypeVar("Function", bound=Callable[..., Awaitable[object]])


def tool(
    *,
    tier: Tier,
    group: str,
    effects: tuple[Subject, ...] | None = None,
    scoped_by: str | None = None,
    also_scoped_by: tuple[str, ...] = (),
    within: TreeScope = TreeScope.SUBTREE,
    about: Callable[[Mapping[str, Any]], Iterable[str]] | None = None,
    acts_as: Callable[[Mapping[str, Any]], str] | None = None,
    not_root: bool = False,
    asks_about_hosts: bool = False,
    held: bool = False,
    holds_if: Callable[[ToolCall, Mapping[str, Any]], Awaitable[str]] | None = None,
    preview: Callable[[ToolCall, Mapping[str, Any]], Awaitable[str]] | None = None,
    reads: Callable[[ToolCall, Mapping[str, Any]], Awaitable[BoundReads]] | None = None,
    here: bool = False,
    quick: bool = False,
    core: bool = False,
    searches: bool = False,
    reports_cost: bool = False,
    former_names: tuple[str, ...] = (),
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    registry: Registry[Tool] = TOOLS,
) -> Callable[[Function], Function]:
    """Register a function as the tool of its name.

    `effects` are the subjects of what it does outside its own session; rules speak of them. A tool that is not
    `read_only` must declare them; `()`: it changes its own session alone. With `Subject.SPEND` it costs money.
    `about` finds the groups that a call is about where no one parameter names them (it may raise Invalid).
    `acts_as` names the tool whose rules hold for a call as well, because it does later what that does now.
    `also_scoped_by`: further rooms that the call touches, each of which must be within reach; they are in `call.also`.
    Left out, one is the room of the turn. `held`: a person must agree to every call. `holds_if` says why a person must
    agree to this one, '' if nobody must. `preview` renders, as markdown, what a call would change: for the card of one
    that is held. `reads` finds what a call reads besides its arguments. After a call was allowed it must find the
    same, else people are asked again. `here`: it speaks in the room of its turn. `quick`: it waits for nothing but
    quick reads, and needs no task. `core`: every turn starts with it; agents find the others by find_tools.
    `searches`: nobody is offered the tool where no service is set. `reports_cost`: it tells of money that is gone.
    `former_names`: older names of the parameter in `scoped_by`, which calls and rules may go on using.
    """
    hints = {"readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent}

    def register(function: Function) -> Function:
        made = replace(
            _make(
                function, tier, group, _check_effects(function.__name__, effects, read_only=read_only), scoped_by, hints
            ),
            read_only=read_only,
            also_scoped_by=_rooms(function, also_scoped_by),
            within=within,
            about=about,
            acts_as=acts_as,
            scope=ToolScope.GROUP if about is not None else _scope(scoped_by),
            not_root=not_root,
            asks_about_hosts=asks_about_hosts,
            held=held,
            holds_if=holds_if,
            preview=preview,
            reads=reads,
            here=here,
            quick=quick,
            core=core,
            searches=searches,
            reports_cost=reports_cost,
            former_names=former_names,
        )
        registry.add(made.name, made, origin=function.__module__)
        return function

    return register


def check_name(name: str) -> None:
    """A rule that names a subject must not be taken for one that names a tool."""
    if find_subject(name) is not None:
        raise SetupError(f"a tool cannot be named {name!r}, which is a subject that rules speak of; rename it")


def _check_effects(name: str, effects: tuple[Subject, ...] | None, *, read_only: bool) -> ToolEffects:
    check_name(name)
    if effects is None and not read_only:
        raise SetupError(
            f"tool {name} does not say what it does outside its session: declare effects=(Subject.SPEAK,) and the like,"
            " effects=() if it changes its own session alone, or read_only=True"
        )
    if effects and read_only:
        raise SetupError(f"tool {name} declares effects and that it only reads; leave one of them out")
    return make_effects(effects or ())


def _make(
    function: Callable[..., Awaitable[object]],
    tier: Tier,
    group: str,
    effects: ToolEffects,
    scoped_by: str | None,
    hints: dict[str, bool],
) -> Tool:
    name, description = function.__name__, inspect.getdoc(function) or ""
    signature = inspect.signature(function, eval_str=True)
    parameters = list(signature.parameters.values())[1:]
    if not description:
        raise SetupError(f"tool {name} has no docstring; a model reads it to know when to use the tool")
    if scoped_by is not None and scoped_by not in signature.parameters:
        raise SetupError(f"tool {name} is scoped by {scoped_by!r}, which is not one of its parameters")
    arguments = _arguments(name, parameters)
    structured = signature.return_annotation not in (str, ForwardedResult)
    if structured and not _is_structure(signature.return_annotation):
        raise SetupError(f"tool {name} must return a dataclass, a msgspec.Struct, str or ForwardedResult")

    def make_entry() -> dict[str, Any]:
        entry = {
            "name": name,
            "description": description,
            "inputSchema": _input_schema(arguments),
            "annotations": hints,
        }
        return {**entry, "outputSchema": _schema(signature.return_annotation)} if structured else entry

    listing = ToolListing(make_entry)
    if not function.__module__.startswith(OURS):
        msgspec.json.encode(listing.entry)  # a plug-in's type that has no schema stops the start, and no session
    return Tool(
        name=name,
        tier=tier,
        group=group,
        effects=effects,
        description=description,
        run=function,
        read=_reader(arguments, list_room_aliases(scoped_by, signature.parameters)),
        bodies=frozenset(each.name for each in parameters if _is_body(each.annotation)),
        structured=structured,
        listing=listing,
        scoped_by=scoped_by,
        scope=_scope(scoped_by),
    )


def _reader(arguments: type[msgspec.Struct], aliases: Mapping[str, str]) -> Callable[[bytes], dict[str, Any]]:
    """Other names cost nothing unless a call uses them: it is read again only if it does not fit as it is."""
    decode, asdict = msgspec.json.Decoder(arguments).decode, msgspec.structs.asdict

    def read(raw: bytes) -> dict[str, Any]:
        try:
            return _check_numbers(asdict(decode(raw)))
        except msgspec.ValidationError:
            if (renamed := _rename(raw, aliases)) is None:
                raise
            return _check_numbers(asdict(msgspec.convert(renamed, arguments)))

    return read


def _check_numbers(found: dict[str, Any]) -> dict[str, Any]:
    for name, value in found.items():
        if isinstance(value, int) and not -LARGEST_NUMBER <= value < LARGEST_NUMBER:
            raise msgspec.ValidationError(f"Expected a number that a row holds - at `$.{name}`")
    return found


def list_room_aliases(scoped_by: str | None, parameters: Collection[str]) -> dict[str, str]:
    """Return the other names of the parameter that names the room of a call."""
    if scoped_by is None or _scope(scoped_by) is not ToolScope.ROOM:
        return {}
    return {name: scoped_by for name in ROOM_PARAMETERS if name not in parameters}


def _rename(raw: bytes, aliases: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the arguments by the names of the tool; None: they have no other names, or one thing by two."""
    given = msgspec.json.decode(raw, type=dict[str, Any]) if aliases else {}
    renamed = {aliases.get(name, name): value for name, value in given.items()}
    return renamed if renamed.keys() != given.keys() and len(renamed) == len(given) else None


def _rooms(function: Callable[..., Awaitable[object]], names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in inspect.signature(function).parameters or _scope(name) is not ToolScope.ROOM:
            raise SetupError(f"tool {function.__name__} is also scoped by {name!r}, which is no room that it is given")
    return names


def _scope(scoped_by: str | None) -> ToolScope | None:
    """A parameter that is named like an address (chatJid, targetJid, chat_jid) names a room, another a group."""
    if scoped_by is None:
        return None
    return ToolScope.ROOM if scoped_by.lower().endswith("jid") else ToolScope.GROUP


def _arguments(name: str, parameters: Sequence[inspect.Parameter]) -> type[msgspec.Struct]:
    """The same for the same declaration: tools that are bound to a gateway are declared anew with each."""
    for each in parameters:
        if each.annotation is inspect.Parameter.empty:
            raise SetupError(f"tool {name}: parameter {each.name} has no type")
    kinds = tuple(type(each.default) for each in parameters)  # True equals 1
    try:
        return _make_arguments(name, tuple(parameters), kinds)
    except TypeError:  # a default or a mark of a type that has no hash
        return _make_arguments.__wrapped__(name, tuple(parameters), kinds)


@cache
def _make_arguments(
    name: str, parameters: tuple[inspect.Parameter, ...], kinds: tuple[type, ...]
) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for each in parameters:
        if each.default is inspect.Parameter.empty:
            fields.append((each.name, each.annotation))
        else:
            fields.append((each.name, each.annotation, each.default))
    return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _is_structure(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct))


def _is_flat(schema: Mapping[str, Any]) -> bool:
    """Return True if an object of this schema has no list and no object in it."""
    fields = [*schema.get("properties", {}).values()]
    kinds = [kind for field in fields for kind in field.get("anyOf", [field])]
    return all(kind.get("type") in SCALARS for kind in kinds)


def _is_body(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        kind, *marks = get_args(annotation)
        extras = [mark.extra for mark in marks if isinstance(mark, msgspec.Meta)]
        return any(extra and BODY in extra for extra in extras) or _is_body(kind)
    return any(_is_body(kind) for kind in get_args(annotation))


@cache
def _schema(kind: type) -> dict[str, Any]:
    """JSON schema with the object itself at the top: older clients do not follow a reference there. To make it is most
    of the work of a declaration, and tools share results. Nobody may change it."""
    whole = msgspec.json.schema(kind)
    definitions = dict(whole.get("$defs", {}))
    top = definitions.pop(whole["$ref"].rsplit("/", 1)[-1]) if "$ref" in whole else whole
    schema = {key: value for key, value in top.items() if key not in ("title", "description")}
    schema.setdefault("properties", {})
    if definitions:
        schema["$defs"] = definitions
    return schema


@cache
def _input_schema(kind: type) -> dict[str, Any]:
    """The schema without what a model pays for and does not use: titles, and null as a way to leave something out."""
    schema = dict(_schema(kind))
    schema["properties"] = {name: _shorten_property(each) for name, each in schema["properties"].items()}
    if definitions := schema.get("$defs"):
        schema["$defs"] = {name: _shorten_definition(each) for name, each in definitions.items()}
    return schema


def _shorten_definition(definition: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in definition.items() if key not in ("title", "description")}
    if "properties" in short:
        short["properties"] = {name: _shorten_property(each) for name, each in short["properties"].items()}
    return short


def _shorten_property(field: dict[str, Any]) -> dict[str, Any]:
    """Null may still be given."""
    kinds = field.get("anyOf")
    if "default" not in field or field["default"] is not None or kinds is None or {"type": "null"} not in kinds:
        return field
    rest = [kind for kind in kinds if kind != {"type": "null"}]
    short = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**rest[0], **short} if len(rest) == 1 else {"anyOf": rest, **short}
