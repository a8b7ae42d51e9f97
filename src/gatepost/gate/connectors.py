"""Connectors: third-party MCP servers that the operator declares and the host runs. Their tools are tools like ours:
seen, granted, refused and audited by the same gate, under the name `<connector>_<tool>`.

A server is started for each call and killed after it, so that nothing opened with one group's secrets stays for the
next. Its list of tools is kept in a file beside its folder, for commands and for the time until it has been asked. A
tool that is new, or described in other words than the operator accepted, is not offered until it is accepted again.
"""

import asyncio
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from gatepost.access.subjects import ANY_EFFECTS, NO_EFFECTS, Subject, ToolEffects, make_effects
from gatepost.access.tiers import Tier
from gatepost.core import log
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, SetupError, Unavailable
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.secret_scrubber import SecretScrubber
from gatepost.core.settings import setting_tables
from gatepost.gate.aliases import ALIASES
from gatepost.gate.mcp_messages import McpListedTool
from gatepost.gate.mcp_server_process import McpServerError, run_mcp_server
from gatepost.gate.tool_answers import shorten
from gatepost.jsonrpc.protocol import JsonRpcFailure
from gatepost.messages.visible_text import hides_something, render_changes, show_hidden, show_hidden_in_lines
from gatepost.store.money import costs
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit, connector_tools, secrets
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rights.connector_tools import AcceptedTool, ConnectorCheck, SeenTool, ToolChange
from gatepost.store.rights.requests import BoundFact, BoundKind, BoundReads
from gatepost.store.rights.secret_rows import is_channel_secret, render_scope
from gatepost.store.rights.secrets import SecretReader
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import ForwardedResult, Tool, ToolListing, check_name

MOST_AT_ONCE, MOST_OF_A_GROUP = 16, 4  # runs of one connector; who comes later waits within the same patience
MOST_TOOLS = 200
ORIGIN = "connectors."
MOST_SEEN = 1000  # of what it lists: the rest is not there
MOST_NAMED, LONGEST_NAME = 20, 100  # tools that a record names, and characters of a name
DIGEST = 12  # hex digits
MOST_CHANGED, WIDTH = 1000, 120  # lines of a comparison, and characters of each
LONGEST_DESCRIPTION = 4000
SEARCH_FIELDS = ("query", "q", "search", "text")  # as servers name the words that are searched for
LARGEST_SCHEMA = 64 * 1024  # bytes
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")  # what the models' vendors take as a name
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_log = log.get("connectors")
_read_object = msgspec.json.Decoder(dict[str, Any]).decode


class Connector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME]`"""

    command: tuple[str, ...]
    env: tuple[str, ...] = ()  # NAME=value
    env_secrets: tuple[str, ...] = ()  # NAME, or VARIABLE=NAME
    tools: tuple[str, ...] = ("*",)
    reads: tuple[str, ...] = ()  # those that have no effect at all
    effects: dict[str, tuple[Subject, ...]] = {}  # what those do outside, by pattern
    tier: Literal["root", "world", "agent", "worker"] = "root"
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise ValueError("`command` names no program")
        if not 0 < self.timeout_s <= 3600:
            raise ValueError("`timeout_s` must be above 0 and at most 3600")
        for entry in (*self.env, *self.env_secrets):
            if not _VARIABLE.match(entry.partition("=")[0]):
                raise ValueError(f"{entry.partition('=')[0]!r} is no name of a variable")
        if bare := [entry for entry in self.env if "=" not in entry]:
            raise ValueError(f"`env` has {bare[0]!r}; write NAME=value")
        if taken := [name for name in self.secrets.values() if is_channel_secret(name)]:
            raise ValueError(f"`env_secrets` has {taken[0]}, which is a channel's, for its platform alone")

    @property
    def secrets(self) -> dict[str, str]:
        """Variable → the secret's name."""
        pairs = (entry.partition("=") for entry in self.env_secrets)
        return {variable: name or variable for variable, _, name in pairs}

    def offers(self, tool: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)

    def only_reads(self, tool: str) -> bool:
        """As the operator says. A server that says so of its own tool is not believed."""
        return any(fnmatchcase(tool, pattern) for pattern in self.reads)

    def find_effects(self, tool: str) -> ToolEffects:
        """Return the effects that the operator declared. If nothing was declared, every effect is presumed."""
        if self.only_reads(tool):
            return NO_EFFECTS
        said = [subjects for pattern, subjects in self.effects.items() if fnmatchcase(tool, pattern)]
        return make_effects(each for subjects in said for each in subjects) if said else ANY_EFFECTS


CONNECTORS = setting_tables(
    "connectors",
    Connector,
    help="Third-party MCP servers that the host runs: a table [connectors.NAME] each, with command, env, env_secrets,"
    " tools, reads, effects, tier and timeout_s. See connectors.md.",
)


class CachedToolList(msgspec.Struct, frozen=True):
    """A server's words about its tools. `held`: the names of those that nobody has accepted as they are now."""

    command: tuple[str, ...]
    tools: list[McpListedTool]
    held: tuple[str, ...] = ()

    @property
    def offered(self) -> list[McpListedTool]:
        return [each for each in self.tools if each.name not in self.held]


RunTool = Callable[..., Any]
ReadBound = Callable[[ToolCall, Mapping[str, Any]], Awaitable[BoundReads]]


def folder_of(home: Home, name: str, caller: str = "") -> Path:
    """Return where a server is started, which is also its HOME: one for each caller, so that none finds what it left of
    another's. Made if it is missing."""
    top = home.path / "connectors"
    path = top / name / (hashlib.sha256(caller.encode()).hexdigest()[:16] if caller else "asked")
    for folder in (top, top / name, path):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def environment(folder: Path) -> dict[str, str]:
    """Return what every run gets. Nothing of the gateway's own environment but where programs are found."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}


async def list_server_tools(home: Home, name: str, connector: Connector) -> list[McpListedTool]:
    """Start it without any secret and have it list its tools; Unavailable says why it does not."""
    what = f"the connector {name}"
    try:
        async with asyncio.timeout(connector.timeout_s):
            folder = folder_of(home, name)
            async with run_mcp_server(connector.command, environment(folder), folder) as program:
                return await program.list_tools()
    except TimeoutError:
        raise Unavailable(what, f"no list of tools within {connector.timeout_s:g} s") from None
    except JsonRpcFailure as error:
        raise Unavailable(what, f"it answered: {error}") from None
    except (McpServerError, OSError) as error:
        raise Unavailable(what, str(error)) from None


async def check_connectors(home: Home, declared: Mapping[str, Connector]) -> list[ConnectorCheck]:
    """Ask each of them, for the doctor."""

    async def one(name: str, connector: Connector) -> ConnectorCheck:
        try:
            listed = await list_server_tools(home, name, connector)
        except Unavailable as error:
            return ConnectorCheck(name, trouble=str(error))
        chosen = tuple(f"{name}_{each.name}" for each in listed if connector.offers(each.name))
        taken = [f"{each} is left out: {why}" for each in chosen if (why := _find_name_conflict(each, name, declared))]
        return ConnectorCheck(
            name, chosen, "; ".join(taken) if chosen else "it lists no tool that `tools` lets through"
        )

    return list(await asyncio.gather(*(one(name, connector) for name, connector in declared.items())))


def load_cached_tools(home: Home, declared: Mapping[str, Connector], tools: Registry[Tool]) -> None:
    """For commands: what the gateway learnt when it last asked. Nothing of it can be called here."""
    for name, connector in declared.items():
        offered = read_cached_tools(home, name, connector).offered
        _register_tools(tools, name, connector, offered, lambda tool: _not_here, declared)


def list_cached_tools(home: Home, name: str, connector: Connector) -> tuple[str, ...]:
    """The names of its tools as agents call them, by what it offered last."""
    offered = read_cached_tools(home, name, connector).offered
    return tuple(f"{name}_{each.name}" for each in offered if connector.offers(each.name))[:MOST_TOOLS]


def list_changes(name: str, cached: CachedToolList, accepted: Mapping[str, AcceptedTool]) -> list[ToolChange]:
    """Return the tools that wait to be accepted, each beside its accepted version."""
    found = []
    for each in cached.tools:
        if each.name in cached.held:
            known = accepted.get(each.name)
            before = _render_tool(msgspec.json.decode(known.listed, type=McpListedTool)) if known else ""
            lines = render_changes(before, _render_tool(each), MOST_CHANGED)
            found.append(ToolChange(name, show_hidden(each.name[:LONGEST_NAME]), known is None, lines))
    return found


def _render_tool(listed_tool: McpListedTool) -> str:
    """All that is said of a tool, in lines none of which is cut in a comparison."""
    facts = {
        "input": listed_tool.inputSchema,
        "output": listed_tool.outputSchema,
        "annotations": listed_tool.annotations,
    }
    texts = [listed_tool.description, *(f"{name}: {_render_json(value)}" for name, value in facts.items() if value)]
    lines = [line for text in texts for line in text.splitlines()]
    return "\n".join(line[at : at + WIDTH] for line in lines for at in range(0, len(line), WIDTH))


def _render_json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1).decode()


def choose_seen(cached: CachedToolList, tool: str = "") -> list[SeenTool]:
    """Those that wait to be accepted, or one of them."""
    return [_see(each) for each in cached.tools if each.name in cached.held and tool in ("", each.name)]


def get_digest(seen: Iterable[SeenTool]) -> str:
    """By which somebody accepts what they saw, and nothing that came after it."""
    return hashlib.sha256("".join(sorted(each.digest for each in seen)).encode()).hexdigest()[:DIGEST]


def record_accepted(home: Home, name: str, cached: CachedToolList, accepted: Iterable[SeenTool]) -> None:
    """In the file: from the next start on, or the next look at it, they are offered."""
    gone = {each.tool for each in accepted}
    _write_cached_tools(home, name, replace(cached, held=tuple(each for each in cached.held if each not in gone)))


def _see(listed_tool: McpListedTool) -> SeenTool:
    listed = msgspec.json.encode(listed_tool, order="sorted")
    return SeenTool(listed_tool.name, hashlib.sha256(listed).hexdigest(), listed.decode())


async def search_by_connector(tools: Registry[Tool], name: str, call: ToolCall, query: str) -> str:
    """Have a connector's tool search, by whatever parameter it takes words."""
    tool = tools.get(name)
    if tool is None:
        raise SetupError(f"no connector has the tool {name!r}; search.tool names the one that searches")
    fields = tool.listed["inputSchema"].get("properties", {})
    texts = [each for each, field in fields.items() if isinstance(field, dict) and field.get("type") == "string"]
    chosen = next((each for each in (*SEARCH_FIELDS, *texts) if each in fields), "")
    if not chosen:
        raise SetupError(f"the tool {name} takes no words, so it cannot search; search.tool names another")
    result = await tool.run(call, **{chosen: query})
    if not isinstance(result, ForwardedResult):
        raise SetupError(f"{name} is no tool of a connector; search.tool names one")
    if result.failed:
        raise Unavailable(name, shorten(result.text))
    return result.text


async def _not_here(call: ToolCall, /, **arguments: Any) -> ForwardedResult:
    raise Unavailable(call.tool, "connectors are run by the gateway alone")


class Connectors:
    """The connectors of a running gateway: `run` asks them once, then their tools are in the registry."""

    def __init__(
        self,
        declared: Mapping[str, Connector],
        tools: Registry[Tool],
        home: Home,
        events: EventBus,
        secrets: SecretReader,
        store: Store,
        clock: Clock,
    ) -> None:
        self._declared, self._tools, self._home, self._events = declared, tools, home, events
        self._secrets, self._store, self._clock = secrets, store, clock
        self._slots = {name: asyncio.Semaphore(MOST_AT_ONCE) for name in declared}
        # A group waits for its own before it takes one of everybody's.
        self._of_group = defaultdict[tuple[str, str], asyncio.Semaphore](lambda: asyncio.Semaphore(MOST_OF_A_GROUP))
        check_names(declared, tools)
        for name, connector in declared.items():
            self._register(name, connector, read_cached_tools(home, name, connector).offered)

    async def run(self) -> None:
        """Ask every server what it has, beside everything else. One that does not start is a line in the log."""
        await asyncio.gather(*(self._learn(name, connector) for name, connector in self._declared.items()))

    async def _learn(self, name: str, connector: Connector) -> None:
        try:
            listed = (await list_server_tools(self._home, name, connector))[:MOST_SEEN]
            held = await self._review(name, connector, listed)
            _write_cached_tools(self._home, name, CachedToolList(connector.command, listed, held))
        except (GatepostError, OSError) as error:
            _log.warning("a connector was not asked for its tools", connector=name, why=str(error))
            return
        if self._register(name, connector, CachedToolList(connector.command, listed, held).offered):
            self._events.tools(None)

    async def _review(self, name: str, connector: Connector, listed: list[McpListedTool]) -> tuple[str, ...]:
        """Which of its tools are not as they were accepted. New differences go into the audit log."""
        seen, now = await asyncio.to_thread(lambda: [_see(each) for each in listed]), self._clock.now()
        before = set(read_cached_tools(self._home, name, connector).held)

        def review(db: Db) -> tuple[str, ...]:
            held = tuple(sorted(connector_tools.review(db, name, seen, now)))
            if changed := [each[:LONGEST_NAME] for each in held if each not in before and connector.offers(each)]:
                details = {"connector": name, "tools": changed[:MOST_NAMED], "count": len(changed)}
                audit.append(db, AuditRecord(now, "gatepost", "connector.changed", "held", details))
            return held

        held = await self._store.write(review)
        if held:
            way = f"gatepost connector changes {name}"
            _log.warning("tools of a connector have changed and wait", connector=name, tools=len(held), way=way)
        return held

    def reload(self, name: str) -> None:
        """Offer what was accepted meanwhile."""
        connector = self._declared.get(name)
        if connector is None:
            return
        if self._register(name, connector, read_cached_tools(self._home, name, connector).offered):
            self._events.tools(None)

    def _register(self, name: str, connector: Connector, listed: list[McpListedTool]) -> bool:
        runs = partial(self._runs, name, connector)
        return _register_tools(self._tools, name, connector, listed, runs, self._declared, self._reads(connector))

    def _runs(self, name: str, connector: Connector, tool: str) -> RunTool:
        async def run(call: ToolCall, /, **arguments: Any) -> ForwardedResult:
            user = (
                await call.read(costs.find_asker, call.turn.id) if call.turn is not None and connector.secrets else ""
            )
            values = await self._values(name, connector, call, user)
            await call.note()
            scrub = SecretScrubber(values.values())
            try:
                own = self._of_group[name, call.caller.folder]
                async with asyncio.timeout(connector.timeout_s), own, self._slots[name]:
                    folder = folder_of(self._home, name, f"{call.caller.folder} {user}")
                    plain = dict(entry.split("=", 1) for entry in connector.env)
                    env = {**environment(folder), **plain, **values}
                    call.check_contact()  # again: it may have waited for its place
                    async with run_mcp_server(connector.command, env, folder) as program:
                        given = await program.call(tool, arguments)
            except TimeoutError:
                why = f"no answer within {connector.timeout_s:g} s; it may have been done all the same"
                raise Unavailable(call.tool, why, uncertain=True) from None
            except (McpServerError, OSError) as error:
                _log.warning("a connector broke", connector=name, tool=tool, why=scrub.text(str(error)))
                why = error.why if isinstance(error, McpServerError) else "it has no folder to run in"
                raise Unavailable(call.tool, scrub.text(why), uncertain=True) from None
            except JsonRpcFailure as error:
                return ForwardedResult([{"type": "text", "text": scrub.text(str(error))}], failed=True)
            content, structured = await call.in_thread(scrub.value, [given.content, given.structuredContent])
            return ForwardedResult(content, structured, given.isError)

        return run

    def _reads(self, connector: Connector) -> ReadBound | None:
        """Which secrets a call uses: another value, or another's, is another account."""
        if not connector.secrets:
            return None

        async def read(call: ToolCall, arguments: Mapping[str, Any]) -> BoundReads:
            user = await call.read(costs.find_asker, call.turn.id) if call.turn is not None else ""

            def find(db: Db) -> BoundReads:
                return BoundReads(
                    facts=tuple(_bind_secret(db, each, call.caller.folder, user) for each in connector.secrets.values())
                )

            return await call.read(find)

        return read

    async def _values(self, name: str, connector: Connector, call: ToolCall, user: str) -> dict[str, str]:
        """The secrets that hold for the caller's group and for whoever asked, by variable. Each use is on record."""
        values = {}
        for variable, secret in connector.secrets.items():
            value = await self._secrets.get(secret, call.caller.folder, user or None, purpose=f"connector {name}")
            if value is None:
                raise Unavailable(
                    call.tool, f"{secret} is not set here; the operator can: gatepost secret set {secret}"
                )
            values[variable] = value
        return values


def _bind_secret(db: Db, name: str, folder: str, user: str) -> BoundFact:
    found = secrets.find_version(db, name, folder, user)
    if found is None:
        return BoundFact(BoundKind.SECRET, name, "", "it is not set")
    digest = hashlib.sha256(f"{found.scope} ".encode() + found.mark).hexdigest()
    return BoundFact(BoundKind.SECRET, name, digest, f"of {render_scope(found.scope)}")


def check_names(declared: Iterable[str], tools: Registry[Tool]) -> None:
    """Lists are cut by group and by connector alike, so none may be named like the other."""
    own = {tool.group for name, tool in tools.items() if not tools.origin(name).startswith(ORIGIN)}
    for name in declared:
        if name in own:
            raise SetupError(f"connectors.{name}: {name} is a group of the gateway's own tools; name it otherwise")


def _find_name_conflict(called: str, name: str, declared: Iterable[str]) -> str:
    """Return why a tool cannot have its name; '' if it can. The connector with the longest fitting name has it,
    whichever was asked first. So a rule about `git_hub_*` is about `git_hub`, and about nothing that `git` lists."""
    nearer = [each for each in declared if len(each) > len(name) and called.startswith(f"{each}_")]
    return f"it would look like a tool of the connector {max(nearer, key=len)}" if nearer else ""


def _register_tools(
    tools: Registry[Tool],
    name: str,
    connector: Connector,
    listed: list[McpListedTool],
    runs: Callable[[str], RunTool],
    declared: Iterable[str] = (),
    reads: ReadBound | None = None,
) -> bool:
    """Make the registry hold what the server lists now; True if that is something else than before."""
    origin = f"{ORIGIN}{name}"
    before = {each: tools[each].listed for each in tools if tools.origin(each) == origin}
    for each in before:
        tools.drop(each)
    after = {}
    for listed_tool in [each for each in listed if connector.offers(each.name)][:MOST_TOOLS]:
        called = f"{name}_{listed_tool.name}"
        try:
            if why := _find_name_conflict(called, name, declared):
                raise SetupError(why)
            tool = replace(_make(called, name, connector, listed_tool, runs(listed_tool.name)), reads=reads)
            tools.add(called, tool, origin)
        except SetupError as error:
            _log.warning("a connector's tool is left out", connector=name, tool=listed_tool.name[:100], why=str(error))
            continue
        after[called] = tool.listed
    return before != after


def _make(called: str, name: str, connector: Connector, listed_tool: McpListedTool, run: RunTool) -> Tool:
    if not _TOOL.match(called):
        raise SetupError("a tool's name has letters, digits, _ and -, and at most 100 of them with its connector's")
    if called in ALIASES:
        raise SetupError(f"{called} is an older name of {ALIASES[called].tool}")
    check_name(called)
    schema = _clean_schema({"properties": {}, **listed_tool.inputSchema, "type": "object"})
    description = show_hidden_in_lines(listed_tool.description[:LONGEST_DESCRIPTION]).strip()
    listed: dict[str, Any] = {
        "name": called,
        "description": description or f"{listed_tool.name}, of the connector {name}.",
        "inputSchema": schema,
    }
    if connector.only_reads(listed_tool.name):
        listed["annotations"] = {"readOnlyHint": True}  # the operator's word; the server's own is not passed on
    if listed_tool.outputSchema is not None and listed_tool.outputSchema.get("type") == "object":
        listed["outputSchema"] = _clean_schema(listed_tool.outputSchema)
    if len(msgspec.json.encode(listed)) > LARGEST_SCHEMA:
        raise SetupError(f"what it says of itself is larger than {LARGEST_SCHEMA} bytes")
    return Tool(
        name=called,
        tier=Tier[connector.tier.upper()],
        group=name,
        effects=connector.find_effects(listed_tool.name),
        read_only=connector.only_reads(listed_tool.name),
        description=listed["description"],
        run=run,
        read=_read_object,
        bodies=frozenset(),
        structured=True,
        listing=ToolListing(lambda: listed, own=False),
    )


def _clean_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Signs that hide are shown in what is only read; elsewhere they would change what is called."""
    return {key: _clean_value(key, value) for key, value in schema.items()}


def _clean_value(key: str, value: Any) -> Any:
    if hides_something(key):
        raise SetupError(f"a name in its schema has a sign that hides: {show_hidden(key[:LONGEST_NAME])}")
    if isinstance(value, dict):
        return _clean_schema(value)
    if isinstance(value, list):
        return [_clean_value("", each) for each in value]
    if isinstance(value, str) and key in ("description", "title"):
        return show_hidden_in_lines(value)
    if isinstance(value, str) and hides_something(value):
        raise SetupError(f"a value in its schema has a sign that hides: {show_hidden(value[:LONGEST_NAME])}")
    return value


def _cache_path(home: Home, name: str) -> Path:
    return home.path / "connectors" / f"{name}.json"


def _write_cached_tools(home: Home, name: str, known: CachedToolList) -> None:
    path = _cache_path(home, name)  # beside the folder, which is there: it was asked in it
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(known))
    beside.replace(path)


def read_cached_tools(home: Home, name: str, connector: Connector) -> CachedToolList:
    """Return what is kept of this very server; another command under the same name is another server."""
    try:
        known = msgspec.json.decode(_cache_path(home, name).read_bytes(), type=CachedToolList)
    except (OSError, ValueError):
        known = None
    if known is None or known.command != connector.command:
        return CachedToolList(connector.command, [])
    return known
