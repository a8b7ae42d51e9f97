"""The one gate. For every call, in this order: visible → granted for its scope → structural → held? → budget → run →
audit.

Unknown and forbidden tools look alike to the caller; the audit knows the difference (`call_audit.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from gatepost.access.policy import AccessRequest, GroupHold, GroupPolicy
from gatepost.access.tiers import covers, may_act_on
from gatepost.core import log
from gatepost.core.durations import Durations, TimedStep
from gatepost.core.errors import GatepostError, Invalid, Refused, Unavailable
from gatepost.core.json_limits import DEEPEST, check_depth
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_audit import LONGEST_ARGUMENT, UNKNOWN, AuditedCall, CallAudit
from gatepost.gate.call_explanation import (
    list_named_groups,
    make_request,
    name_room,
    render_params,
    render_usual_params,
)
from gatepost.gate.held_call import make_held_call
from gatepost.gate.named_call import CALL_TOOL, read_named_call
from gatepost.gate.policies import Policies, starts_small, visible_tools
from gatepost.gate.tool_answers import (
    BROKEN,
    CHANGED,
    OUTDATED,
    ToolAnswer,
    make_answer,
    make_failure,
    shorten,
    suggest_arguments,
)
from gatepost.gate.tool_list import list_catalog, render_listed_tool, render_short_tool
from gatepost.gate.tool_search import ToolIndex
from gatepost.jsonrpc.protocol import INVALID_PARAMS
from gatepost.store.messages import destinations, inbox
from gatepost.store.messages.destinations import DestinationKind
from gatepost.store.money import budgets, costs
from gatepost.store.port import Db, FailingSoon, inline_read
from gatepost.store.rights import requests
from gatepost.store.rights.requests import BoundReads, Request
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller, CallHolder, CatalogEntry, HeldCall, Progress, ReachableRoom, ToolCall, ToolDeps
from gatepost.tools.contract import Tool, ToolScope

__all__ = ["INVALID_PARAMS", "Dispatch"]


NO_ROUTE = "it has no route to this group or those below it"
PENDING = "{} waits for a person's decision (request {}). Go on without it: what becomes of it is told to you later."

MOST_CHANGED = 5  # things that an answer names

REPLAY = "this is a replay, in which nothing is sent, changed or started; go on as if it had been done"

_encode = msgspec.json.Encoder().encode
_read_object = msgspec.json.Decoder(dict[str, Any]).decode
_log = log.get("gate")


def ignore_progress(done: float, total: float | None, text: str) -> None:
    """Nobody asked for progress."""


class _VisibleTools(Struct, frozen=True):
    """The tools that a group sees, and the policy that they were chosen by."""

    tools: dict[str, Tool]
    listed: bytes  # the JSON array of tools/list
    policy: GroupPolicy
    entries: dict[str, bytes] = {}  # of that list, as sessions get it, once one has asked
    catalog: list[CatalogEntry] = []  # the same for find_tools
    index: list[ToolIndex] = []  # of the catalog: one

    def list_for(self, unlocked: Collection[str]) -> bytes:
        """The JSON array for a session that found these tools."""
        chosen = [tool for tool in self.tools.values() if tool.core or tool.name in unlocked]
        for tool in chosen:
            if tool.name not in self.entries:
                self.entries[tool.name] = _encode(render_short_tool(tool, self.policy, self.tools.values()))
        return b"[%b]" % b",".join(self.entries[tool.name] for tool in chosen)

    def list_entries(self) -> Sequence[CatalogEntry]:
        if not self.catalog:
            self.catalog[:] = list_catalog(self.tools.values(), self.policy)  # two may do that at once
        return self.catalog

    def find(self, words: Sequence[str]) -> Sequence[CatalogEntry]:
        if not self.index:
            self.index[:] = [ToolIndex(self.list_entries())]
        return self.index[0].find(words)


class Dispatch:
    """Ring `events.tools` when what groups may call has changed."""

    def __init__(
        self, tools: Registry[Tool], deps: ToolDeps, policies: Callable[[str], Awaitable[GroupPolicy]] | None = None
    ) -> None:
        self._tools, self._deps = tools, deps
        own = Policies(deps.store, deps.events, deps.config)
        self._policies = policies or own
        self._renew = own.renew if deps.shared and policies is None else None
        # If the store is away a caller is told at once, without waiting for it; a file is never away.
        self._patience: Callable[[], AbstractContextManager[None]] = FailingSoon if deps.shared else nullcontext
        self._visible: dict[str, _VisibleTools] = {}  # by folder
        self._plain: dict[int, _VisibleTools] = {}  # by tier: of groups that nothing is said about
        self._forgotten = 0  # how often: what was read before that is not kept
        self.audit = CallAudit(deps.store, deps.clock)
        self.durations = Durations()
        deps.events.on_tools(self._forget)
        deps.events.on_group(self._forget)

    async def visible_to(self, caller: Caller) -> tuple[Tool, ...]:
        return tuple((await self._seen_by(caller)).tools.values())

    async def listed_for(self, caller: Caller) -> bytes:
        """The tools of `tools/list`, as JSON. Made once for all callers that see the same. A session gets the core and
        what it found; it may call the others all the same."""
        with suppress(Unavailable):  # a list of before is better than none: a call is judged anew
            await self._renew_rules(caller)
        seen = await self._seen_by(caller)
        if caller.offered is None or not starts_small(seen.policy, seen.tools):
            return seen.listed
        return seen.list_for(caller.offered.names)

    def is_quick(self, caller: Caller, name: str) -> bool:
        """Return True if a call would hardly ever wait. A tool that the caller does not see is refused at once. While
        the caller's tools are not loaded, the call waits for them."""
        seen = self._visible.get(caller.folder)
        tool = _find_tool(seen.tools, name) if seen is not None else None
        return seen is not None and (tool is None or tool.quick)

    async def only_reads(self, caller: Caller, name: str, raw: bytes) -> bool:
        """Return True if a call has no effect and may be begun later than it came."""
        tools = (await self._seen_by(caller)).tools
        if name == CALL_TOOL and CALL_TOOL in tools:
            with suppress(ValueError, RecursionError):  # a call that cannot be read has no effect either
                name, _ = read_named_call(raw)
        tool = _find_tool(tools, name)
        return tool is not None and tool.read_only and not tool.quick

    async def call(
        self,
        caller: Caller,
        name: str,
        raw: bytes,
        call_id: str,
        progress: Progress = ignore_progress,
        approved: Request | None = None,
    ) -> ToolAnswer:
        """Let one call through, or not. Never raises but when it is cancelled. `approved`: a person has allowed this
        call; everything but the hold is judged anew."""
        asked = name
        if self._renew is not None or self.audit.is_full:
            try:
                await self._prepare(caller)
            except Unavailable as error:  # what cannot be written down, or judged, does not happen
                return make_failure(error)
        now = self._deps.clock.now()
        seen = self._visible.get(caller.folder) or await self._seen_by(caller)
        way = seen.tools.get(CALL_TOOL) if name == CALL_TOOL else None
        if way is not None:
            try:
                name, raw = read_named_call(raw)
            except (ValueError, RecursionError) as error:
                return self._refuse_arguments(AuditedCall(now, caller, way.name, call_id), way, raw, error)
        tool = seen.tools.get(name)
        alias = ALIASES.get(name)
        if alias is not None and (tool is None or alias.tool == name):
            name, raw = _resolve_alias(name, raw)
            tool = seen.tools.get(name)
        if tool is None:
            named, known = name[:LONGEST_ARGUMENT], name in self._tools
            turn = caller.running() if caller.running is not None else None
            note = AuditedCall(now, caller, named, call_id, turn.id if turn else None)
            self.audit.add(note, "refused" if known else UNKNOWN)
            return _make_unknown(asked if way is None else named, failed=way is not None)
        try:
            arguments = tool.read(raw)
            if raw.count(b"[") + raw.count(b"{") > DEEPEST:  # less cannot nest deeper
                check_depth(arguments)
        except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors, as is bad UTF-8
            return self._refuse_arguments(AuditedCall(now, caller, name, call_id), tool, raw, error)
        if caller.replays and not tool.read_only:
            self.audit.add(AuditedCall(now, caller, name, call_id), "refused", REPLAY)
            return ToolAnswer(f"{name}: {REPLAY}", failed=True)
        if caller.before_call is not None and not tool.read_only:
            await caller.before_call(asked, call_id)  # one order for what an agent says and what it does
        turn = caller.running() if caller.running is not None else await self._turn_of(caller)
        note = AuditedCall(now, caller, name, call_id, turn.id if turn else None, tool, arguments)
        keys = caller.keys if caller.keys is not None and not tool.read_only else None
        identity = await keys.identify(turn, name, arguments) if keys is not None and turn is not None else None
        call = ToolCall(
            deps=self._deps,
            tool=name,
            caller=caller,
            turn=turn,
            key=identity.key if identity else f"{turn.id if turn else caller.session_id or caller.folder}/{call_id}",
            approved=approved,
            identity=identity,
            now=now,
            record=note.allowed,
            progress=progress,
            catalog=seen,
        )
        if keys is None or identity is None:
            with self._patience():
                return await self._run_call(tool, call, arguments, seen.policy, note, way)
        answer = None
        try:
            with self._patience():
                answer = await self._run_call(tool, call, arguments, seen.policy, note, way)
            return answer
        finally:
            (keys.failed if answer is None or answer.failed else keys.answered)(identity)

    def _refuse_arguments(self, note: AuditedCall, tool: Tool, raw: bytes, error: Exception) -> ToolAnswer:
        """A result and no protocol error, so that clients show it to the model, which can mend its call."""
        self.audit.add(note, "invalid", str(error))
        why = f"Invalid arguments for {tool.name}: {error}. {suggest_arguments(tool, raw, str(error))}"
        return ToolAnswer(shorten(why), failed=True, outcome=OUTDATED)

    async def _prepare(self, caller: Caller) -> None:
        if self.audit.is_full:
            await self.audit.flush()
        await self._renew_rules(caller)

    async def _turn_of(self, caller: Caller) -> Turn | None:
        if caller.session_id is None:
            return None
        return await self._deps.store.read(turns.find_open, caller.session_id)

    async def run(self) -> None:
        """Write behind what calls came to, until cancelled; then what is left."""
        await self.audit.run()

    async def _run_call(
        self,
        tool: Tool,
        call: ToolCall,
        arguments: dict[str, Any],
        policy: GroupPolicy,
        note: AuditedCall,
        way: Tool | None,
    ) -> ToolAnswer:
        """`way`: the tool by which this one was called, whose rules hold as well."""
        begun = self._deps.clock.monotonic()
        try:
            held = None
            if way is not None and not policy.has_rules_for(way.name, way.effects):
                way = None
            if tool.is_judged or way is not None or policy.has_rules_for(tool.name, tool.effects):
                held = await self._admit(tool, call, arguments, policy, way)
                if held is not None and call.approved is None and not await self._is_allowed(call, held):
                    return await self._hold(tool, call, arguments, held, note)
                if held is not None and call.approved is not None:
                    self._check_quorum(call, held, call.approved)
            if call.approved is not None and tool.reads is not None:
                found = await tool.reads(call, arguments)
                if changed := call.approved.reads.list_changed(found):
                    return await self._ask_again(tool, call, arguments, held, found, changed, note)
            if not tool.read_only:
                call.check_contact()
            answer = await make_answer(tool, call, await tool.run(call, **arguments))
        except GatepostError as error:
            self.audit.add(note, _verdict(error), str(error))
            return make_failure(error)
        except Exception as error:  # noqa: BLE001  the dispatching loop: one broken tool must not end a connection
            _log.exception("a tool broke", tool=tool.name, folder=call.caller.folder)
            self.audit.add(note, "broken", type(error).__name__)
            return ToolAnswer(f"{tool.name}: internal error; the operator's log has it", failed=True, outcome=BROKEN)
        except asyncio.CancelledError as error:
            if isinstance(error.__cause__, GatepostError):
                self.audit.add(note, _verdict(error.__cause__), str(error.__cause__))
            elif not call.recorded:  # as far as we heard: its transaction may be under way
                note.unless = call.is_committed
                self.audit.add(note, "cancelled")
            raise
        finally:
            self.durations.note((TimedStep.TOOL_CALL, "", self._deps.clock.monotonic() - begun))
        if answer.failed:
            self.audit.add(note, "failed", answer.text)
        elif not call.recorded:
            self.audit.add(note, "allowed")
        return answer

    async def _admit(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], policy: GroupPolicy, way: Tool | None = None
    ) -> HeldCall | None:
        """Check that a call is granted for its target and that the target is in reach. Refused has the same words
        whether or not the target exists. Return the question for a person, or None if the call may run."""
        caller, params = call.caller, render_params(tool, arguments)
        targets = list_named_groups(tool, arguments) or (caller.folder,)  # none named: it is about the group itself
        if tool.scope is ToolScope.ROOM and tool.scoped_by is not None:
            call.to = await self._place(call, tool, arguments.get(tool.scoped_by), tool.scoped_by)
            params |= name_room(tool, call.to.address)
            targets = (call.to.folder or caller.folder,)
            for name in tool.also_scoped_by:
                call.also[name] = await self._also(call, tool, arguments.get(name), name)
                params[name] = call.also[name].address
        room = _find_subject_room(tool, call)
        for target in list_named_groups(tool, arguments):
            if not may_act_on(tool.within, caller.folder, target):
                raise Refused(caller.folder, tool.name, target, f"it must be {tool.within} of {caller.folder}")
        if policy.has_rules_for(tool.name, tool.effects):
            asks = await self._asks(tool, call, params, room)
            call.allows = lambda folder: all(policy.decide(replace(ask, scope=folder)) for ask in asks)
            call.allows_across = lambda folder: all(policy.decide_across(replace(ask, scope=folder)) for ask in asks)
            if not all(map(call.allows, targets)) and not policy.reaches_across(tool.name, tool.effects):
                raise Refused(caller.folder, tool.name, params.get("jid", ""), "a rule of this gateway forbids it")
        if tool.spends and await call.read(_is_budget_spent, caller.folder, caller.session_id, call.turn, call.now):
            raise Refused(caller.folder, tool.name, why="the budget is spent")
        also_held = await self._check_twin(tool, call, arguments, policy, targets)
        if way is not None:
            also_held = (*also_held, *await self._check_way(way, call, params, policy, targets))
        why = await tool.holds_if(call, arguments) if tool.holds_if is not None else ""
        if not tool.held and not why and not policy.holds:
            return None
        usual = render_usual_params(tool, caller.folder) if policy.has_rules_for(tool.name, tool.effects) else {}
        ask = replace(make_request(tool, caller.folder, params, room), usual=usual)
        holds = tuple(dict.fromkeys((*policy.list_holds(ask), *also_held)))
        if not holds and (not (tool.held or why) or policy.allows_expressly(ask)):
            return None
        return make_held_call(tool, call, arguments, targets, holds, policy, ask, why)

    async def _check_twin(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], policy: GroupPolicy, targets: Sequence[str]
    ) -> tuple[GroupHold, ...]:
        """A call that does later what another tool does now: what is denied there is refused, and what holds that one
        holds it."""
        name = tool.acts_as(arguments) if tool.acts_as is not None else ""
        twin = self._tools.get(name) if name else None
        if twin is None:
            return ()
        shared = {each: arguments[each] for each in twin.listed["inputSchema"]["properties"] if each in arguments}
        params = render_params(twin, shared)
        room = str(arguments.get("jid") or "") if call.to is None else call.to.address
        if room and twin.scope is ToolScope.ROOM and twin.scoped_by is not None:
            params |= name_room(twin, room)
        asks = await self._asks(twin, call, params, room or None)
        if not all(policy.decide(replace(ask, scope=target)) for ask in asks for target in targets):
            raise Refused(
                call.caller.folder, tool.name, params.get("jid", ""), f"a rule of this gateway forbids {name}"
            )
        return policy.list_holds(make_request(twin, call.caller.folder, params, room or None))

    async def _check_way(
        self, way: Tool, call: ToolCall, params: Mapping[str, str], policy: GroupPolicy, targets: Sequence[str]
    ) -> tuple[GroupHold, ...]:
        """A rule that names the tool by which another one is called holds for that call, too."""
        named = {"name": call.tool, **({"jid": params["jid"]} if "jid" in params else {})}
        asks = await self._asks(way, call, named, params.get("jid"))
        if not all(policy.decide(replace(ask, scope=target)) for ask in asks for target in targets):
            raise Refused(call.caller.folder, call.tool, params.get("jid", ""), f"a rule forbids {way.name} for it")
        return policy.list_holds(make_request(way, call.caller.folder, named, params.get("jid")))

    async def _is_allowed(self, call: ToolCall, held: HeldCall) -> bool:
        """Return True if somebody has allowed such calls for the rest of this session."""
        session_id = call.caller.session_id
        return session_id is not None and await call.read(requests.find_lasting, session_id, held.about) is not None

    async def _hold(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], held: HeldCall, note: AuditedCall
    ) -> ToolAnswer:
        """Hold a call, and tell the agent at once that it waits. The outcome comes later, as a message."""
        holder = self._get_holder(call)
        preview = await tool.preview(call, arguments) if tool.preview is not None else ""
        found = await tool.reads(call, arguments) if tool.reads is not None else BoundReads()
        call.record = lambda: note.record("held", "")
        request_id = await holder.hold(call, replace(held, preview=preview, bound=_join(held.bound, found)))
        details = {"status": "pending", "request": request_id, "why": held.why}
        return ToolAnswer(PENDING.format(call.tool, request_id), structured=_encode(details))

    async def _ask_again(
        self,
        tool: Tool,
        call: ToolCall,
        arguments: Mapping[str, Any],
        held: HeldCall | None,
        found: BoundReads,
        changed: Sequence[str],
        note: AuditedCall,
    ) -> ToolAnswer:
        """Ask again about a call that reads something else than people allowed. Nothing is done, and they see it as it
        is now."""
        named = ", ".join(each[:LONGEST_ARGUMENT] for each in changed[:MOST_CHANGED])
        why = f"what it reads has changed since it was allowed: {named}"
        if held is None:
            raise Refused(call.caller.folder, tool.name, why=f"{why}; call it again")
        call.record = lambda: note.record("held", why)
        preview = await tool.preview(call, arguments) if tool.preview is not None else ""
        asked = replace(held, why=f"{held.why}; {why}", preview=preview, bound=_join(held.bound, found))
        request_id = await self._get_holder(call).hold(call, asked)
        text = f"{why}. It was not done, and people are asked again (request {request_id})."
        return ToolAnswer(text, failed=True, outcome=CHANGED)

    def _get_holder(self, call: ToolCall) -> CallHolder:
        holder = self._deps.holder
        if holder is None or call.caller.session_id is None:
            why = "it needs a person's approval, and nobody can be asked here"
            raise Refused(call.caller.folder, call.tool, why=why)
        return holder

    def _check_quorum(self, call: ToolCall, held: HeldCall, approved: Request) -> None:
        """Check that as many people agreed as the rules of now ask. Other arguments that a person put in place of the
        first do not evade one that asks more, and neither does an earlier question."""
        wanted = self._deps.holder.find_quorum(held) if self._deps.holder is not None else 1
        if wanted <= approved.quorum:
            return
        why = "to what it was changed into" if approved.answer else "to it by now; call it again"
        raise Refused(call.caller.folder, call.tool, why=f"{wanted} people must agree {why}")

    async def _asks(
        self, tool: Tool, call: ToolCall, params: Mapping[str, str], room: str | None
    ) -> list[AccessRequest]:
        """The call as it stands, and once more for everybody behind it and where they asked: all must be granted. So
        what a person or a room is denied stays denied in a message that an agent passes on, and after the turn's end.
        """
        caller, turn = call.caller, call.turn
        claims = {"folder": caller.folder, "tier": str(int(caller.tier)), "provider": caller.provider}
        behind = await call.read(_find_people_behind, turn.id if turn is not None else "", caller.session_id or "")
        request = make_request(tool, caller.folder, params, room)
        asks = [self._ask(request, turn, claims, behind)]
        for each in behind.chain.origins:
            known = {**claims, **self._where(each.instance, each.address, each.thread, each.person)}
            also = (each.address, each.person) if each.person else (each.address,)
            asks.append(replace(request, claims=known, also=also))
        return asks

    def _ask(
        self, request: AccessRequest, turn: Turn | None, claims: Mapping[str, str], behind: "_PeopleBehind"
    ) -> AccessRequest:
        """Add the facts about the caller to a request. They come from the gateway, never from the call."""
        if turn is None:
            return replace(request, claims=claims)
        known = {**claims, **self._where(turn.instance, turn.address, turn.thread, behind.asker)}
        return replace(request, claims=known, also=(turn.address, *behind.senders))

    def _where(self, instance: str, address: str, thread: str, user: str) -> dict[str, str]:
        return {"platform": self._deps.channels.get_kind(instance).name, "room": address, "topic": thread, "user": user}

    async def _place(self, call: ToolCall, tool: Tool, given: str | None, name: str) -> ReachableRoom:
        """The room that is meant by the parameter of that name, if this group may reach it."""
        turn, caller = call.turn, call.caller
        if call.approved is not None and given and (bot := _get_bot(call.approved, given, name)):
            return await self._place_approved(call, tool, given, call.approved, bot, name)
        if turn is not None and (not given or given == turn.address):
            return ReachableRoom(turn.instance, turn.address, turn.thread)
        if not given:
            session = await call.read(sessions.get, caller.session_id) if caller.session_id else None
            if session is None or session.mode == SessionMode.AGENT_SHARED or not session.address:
                raise Invalid(tool.scoped_by or "chatJid", "no turn is running that would tell the room; name one")
            return ReachableRoom(session.instance, session.address, session.thread)
        place = await call.read(_find_room, caller.folder, given)
        if place is None:
            raise Refused(caller.folder, tool.name, given, NO_ROUTE)
        return place

    async def _place_approved(
        self, call: ToolCall, tool: Tool, given: str, approved: Request, bot: str, name: str
    ) -> ReachableRoom:
        """The room and the thread that a person saw, by the bot that was meant there: two may share an address."""
        folder = call.caller.folder
        if (bot, given) != (approved.instance, approved.address):
            place = await call.read(_find_room, folder, given, bot)
        elif await call.read(_reaches, folder, bot, given):
            place = ReachableRoom(bot, given, approved.thread)
        else:
            place = None
        if place is None:
            raise Refused(folder, tool.name, given, NO_ROUTE)
        threads = approved.reads.threads
        seen = name in threads and approved.input.get(name) == given and approved.rooms.get(name) == bot
        return replace(place, thread=threads[name]) if seen else place

    async def _also(self, call: ToolCall, tool: Tool, given: str | None, name: str) -> ReachableRoom:
        """A further room, under the same rule. Nothing tells which: the one that the call is about."""
        return call.place if not given and call.turn is None else await self._place(call, tool, given, name)

    async def _seen_by(self, caller: Caller) -> _VisibleTools:
        found = self._visible.get(caller.folder)
        if found is None:
            forgotten = self._forgotten
            policy = await self._policies(caller.folder)
            found = (self._plain.get(caller.tier) if policy.plain else None) or self._see(policy)
            if forgotten == self._forgotten:
                self._visible[caller.folder] = found
                if policy.plain:
                    self._plain[caller.tier] = found
        return found

    def _see(self, policy: GroupPolicy) -> _VisibleTools:
        shown = {tool.name: tool for tool in visible_tools(self._tools, policy)}
        return _VisibleTools(shown, _encode([render_listed_tool(tool, policy) for tool in shown.values()]), policy)

    async def _renew_rules(self, caller: Caller) -> None:
        """Load the rules anew if another gateway changed them."""
        if self._renew is not None and await self._renew(caller.folder):
            self._forget(None)

    def _forget(self, folder: str | None) -> None:
        self._forgotten += 1
        self._visible.clear()
        self._plain.clear()


def _find_tool(tools: Mapping[str, Tool], name: str) -> Tool | None:
    """By its name, or by an older one."""
    if (tool := tools.get(name)) is None and (alias := ALIASES.get(name)) is not None:
        return tools.get(alias.tool)
    return tool


def _join(held: BoundReads, found: BoundReads) -> BoundReads:
    """Return what the tool binds, with the threads that the gate binds."""
    return replace(found, threads=held.threads)


def _find_subject_room(tool: Tool, call: ToolCall) -> str | None:
    """The room of a call for rules about subjects; None: nothing tells."""
    if tool.here:
        return call.turn.address if call.turn is not None else None
    return call.to.address if call.to is not None else None


class _PeopleBehind(NamedTuple):
    """The people whose wish a call may be."""

    chain: OriginChain
    asker: str
    senders: Sequence[str]


@inline_read
def _find_people_behind(db: Db, turn_id: str, session_id: str) -> _PeopleBehind:
    """Return the people behind a turn, or behind a session if there is no turn."""
    if turn_id:
        chain = origins.get_for_turn(db, turn_id)
        return _PeopleBehind(chain, costs.find_asker(db, turn_id), inbox.list_senders(db, turn_id))
    return _PeopleBehind(origins.get_for_session(db, session_id) if session_id else OriginChain(()), "", ())


def _make_unknown(name: str, *, failed: bool) -> ToolAnswer:
    """`failed`: as a result, because the call itself was well formed."""
    text = f"Unknown tool: {name[:LONGEST_ARGUMENT]}"
    return ToolAnswer(text, failed=failed, code=0 if failed else INVALID_PARAMS, outcome=OUTDATED)


def _resolve_alias(name: str, raw: bytes) -> tuple[str, bytes]:
    """Return the tool and the arguments that an older name stands for. Unreadable arguments are passed on as they
    came."""
    alias = ALIASES[name]
    try:
        return alias.tool, _encode(alias.translate(_read_object(raw)))
    except (ValueError, RecursionError):
        return alias.tool, raw


def _get_bot(approved: Request, given: str, name: str) -> str:
    """The channel instance by which an approved call reaches the room of a parameter; '' if nothing tells. Not if a
    person put another room in its place."""
    meant = approved.rooms.get(name, "") if approved.input.get(name) == given else ""
    return meant or (approved.instance if given == approved.address else "")


@inline_read
def _find_room(db: Db, folder: str, given: str, instance: str = "") -> ReachableRoom | None:
    """A destination of this group, by name or address, or a room where it or a group below it has a live session.
    `instance`: only there, because two bots may share an address."""
    for each in destinations.list_for_group(db, folder):
        if each.kind == DestinationKind.ROOM and given in (each.name, each.address) and instance in ("", each.instance):
            return ReachableRoom(each.instance, each.address, each.thread)
    for session in sessions.list_in_room(db, given):
        if covers(folder, session.folder) and instance in ("", session.instance):
            return ReachableRoom(session.instance, session.address, folder=session.folder)
    return None


@inline_read
def _reaches(db: Db, folder: str, instance: str, address: str) -> bool:
    """The same for a room of one channel instance."""
    known = destinations.find_by_room(db, folder, instance, address)
    return known is not None or any(
        each.instance == instance and covers(folder, each.folder) for each in sessions.list_in_room(db, address)
    )


@inline_read
def _is_budget_spent(db: Db, folder: str, session_id: str | None, turn: Turn | None, now: int) -> bool:
    payer = costs.find_payer(db, turn.id) if turn else costs.find_last_payer(db, session_id or "")
    return any(each.spent >= each.limit for each in budgets.list_applicable(db, folder, payer, now))


def _verdict(error: GatepostError) -> str:
    if isinstance(error, Invalid):
        return "invalid"
    return "refused" if isinstance(error, Refused) else "failed"
