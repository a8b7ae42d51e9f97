"""Agents as a service: make one, give it work, wait for it, answer what it asks, end it.

An agent is a session with a provider and a room of its own. Everything that must survive is in the store before a call
returns; what runs is driven by the same flow as every other session. All surfaces (MCP, command line, in memory) call
these functions and nothing else.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from msgspec import structs

from gatepost.access.tiers import check_folder
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import Invalid, NotFound, SetupError
from gatepost.core.records import replace
from gatepost.core.settings import setting
from gatepost.flow.gateways.folder_check import claim_here, is_here
from gatepost.flow.gateways.session_directory import SessionDirectory
from gatepost.flow.groups import make_folder
from gatepost.flow.intake.attachments import remove_refused
from gatepost.flow.requests import decide as request_decisions
from gatepost.flow.requests.choices import AnswerChoice
from gatepost.flow.requests.decide import Decision
from gatepost.flow.requests.edited_input import check_edited
from gatepost.flow.requests.questions import ANSWERS
from gatepost.flow.schedule.task_rooms import cancel_agent_tasks
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.host.host_uids import group_uid
from gatepost.flow.sessions.sandbox import effective_group
from gatepost.flow.worktrees.new_worktree import NewWorktree as NewWorktree
from gatepost.flow.worktrees.worktrees import ArchivedWorktree, Worktrees
from gatepost.messages.text import clean
from gatepost.serve.agents import agent_spec, pending_requests, providers, views
from gatepost.serve.agents.agent_spec import check_labels, check_prompt, check_title
from gatepost.serve.agents.pending_requests import HOW_TO_ANSWER, apply_approved_plan, check_answers
from gatepost.serve.agents.providers import check_mode
from gatepost.serve.agents.timeline import MOST_READ, limit_entries, merge_entries, render_entries
from gatepost.serve.agents.views import AgentUpdate, ViewContext, make_pending_request
from gatepost.serve.control.arguments.agents import (
    AgentSnapshot,
    AgentSpec,
    ModelInfo,
    PendingRequest,
    PromptPolicy,
    ProviderInfo,
    RequestingAgent,
    WaitOutcome,
)
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests
from gatepost.store.rights.requests import AnswerLasts, Request, RequestAsker, RequestKind, RequestState
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import agents, groups, sessions, sleeping_turns, timeline, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import UNFINISHED, Session
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.store.sessions.worktrees import SetupState, Worktree
from gatepost.tools.call import CHAIN_DEPTH

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

FOLDER = effective_group.FOLDER
WAIT_S = setting(
    "agents.wait_s", 45.0, help="How long a call waits for an agent at most; clients give up on calls after a minute."
)
LOOK_S, SOON_S = 2.0, 0.05  # behind the bell
STILL = "The agent is still running; this is no failure. Wait again to go on waiting. What it did last:\n\n{}"


class AgentService:
    def __init__(
        self, flow: SessionDirectory, worktrees: Worktrees, hub: LocalChannel, stopping: asyncio.Event | None = None
    ) -> None:
        self._deps, self._flow, self._hub = flow.deps, flow, hub
        self.worktrees = worktrees
        self._stopping = stopping or asyncio.Event()
        self._replacing: set[str] = set()  # whose turn gives way to another: nobody sees them idle meanwhile
        self._view = ViewContext(self._deps.home, self._replacing)
        self._replaced = 0  # how often that has changed

    # Making and ending.

    async def create(self, wanted: AgentSpec, by: str) -> AgentSnapshot:
        """Durable when it returns; the prompt is queued with it. A worktree that it wants is made first."""
        parent = (await self.find(wanted.parent)).id if wanted.parent else ""
        config, now = self._deps.config, self._deps.clock.now()
        wish = NewAgent(
            folder=check_folder(wanted.folder or config[FOLDER]),
            provider=wanted.provider,
            title=check_title(wanted.title, empty_ok=True),
            model=clean(wanted.model).strip(),
            permission_mode=wanted.mode,
            labels=check_labels(wanted.labels or {}),
            parent=parent,
        )
        text = check_prompt(wanted.prompt) if wanted.prompt else ""
        new = agent_spec.parse_new_worktree(wanted, wish.folder) if wanted.worktree else None
        uid = await group_uid(self._deps.store, config, self._deps.clock, wish.folder)
        start, notes = agent_spec.check_start(self._deps, "" if new else wanted.cwd, uid)
        wish, group = await self._deps.store.write(agent_spec.check_new_agent, self._deps, wish, not wanted.folder, now)
        if lacks := await providers.find_missing_requirement(self._deps, group):
            raise SetupError(f"no agent of {group.provider} can run: {lacks}")
        await self._prepare_folder(wish.folder, uid, needed=bool(new or wanted.cwd))
        worktree = await self.worktrees.create(new, by) if new else None
        cwd = str(self.worktrees.path(worktree)) if worktree else start

        def make(db: Db) -> Session:
            self.worktrees.must_be_open(db, cwd, wish.folder)
            made = agents.create(db, replace(wish, cwd=cwd), now)
            if wanted.notify:
                agents.set_notify(db, made.id, True)
            if worktree is not None and worktree.setup_state != SetupState.NONE:
                timeline.add(db, made.id, "", TimelineKind.WORKTREE_SETUP, agent_spec.setup_to_json(worktree), now)
            if text:
                agents.add_prompt(db, made, text, by, _name(by), inbox.InboxMode.NEXT, now, self._chain(db, parent))
            _record(db, now, by, "agent.create", made.id, folder=wish.folder, provider=wish.provider, cwd=cwd)
            return made

        made = await self._deps.store.write(make)
        if text:
            self._deps.events.session(made.id)
        snapshot = await self.status(made.id)
        return structs.replace(snapshot, notes=notes + (agent_spec.list_setup_notes(worktree) if worktree else []))

    def _chain(self, db: Db, parent: str) -> OriginChain | None:
        """Return who is behind an agent that is made by another one: those for whom that one works now."""
        turn = turns.find_open(db, parent) if parent else None
        if turn is None:
            return None
        found = origins.get_for_turn(db, turn.id)
        origins.check_limits(found, turn.folder, "create_agent", self._deps.config[CHAIN_DEPTH])
        return found

    async def create_worktree(self, wanted: NewWorktree, by: str) -> Worktree:
        """For whoever will work in it. The agents' own group is made if it is not there."""
        folder, now = check_folder(wanted.folder), self._deps.clock.now()
        if folder == self._deps.config[FOLDER]:
            await self._deps.store.write(groups.add, folder, folder, "", now)
            uid = await group_uid(self._deps.store, self._deps.config, self._deps.clock, folder)
            await self._prepare_folder(folder, uid, needed=True)
        return await self.worktrees.create(wanted, by)

    async def _prepare_folder(self, folder: str, uid: int | None, *, needed: bool) -> None:
        """Make the group's folder, unless the group lives on another gateway and has its folder there.

        `needed`: the agent works in a place that is named by its path on this machine, so the group is claimed for it.
        """
        deps = self._deps
        if needed or await is_here(deps.store, deps.home, folder):
            await claim_here(deps.store, deps.home, folder, deps.clock.now())
            make_folder(deps.home, folder, uid, name=folder)

    async def archive_worktree(self, named: str, by: str, *, discard: bool = False) -> ArchivedWorktree:
        """Put a worktree away, and first every agent that works in it."""

        async def clear(place: Path) -> None:
            # Read as a write: behind whoever was just being made or woken there. From now on nobody is.
            every = await self._deps.store.write(lambda db: agents.list_all(db, archived=True))
            here = [each.id for each in every if each.closed_at is None and Path(each.cwd).is_relative_to(place)]
            for agent_id in here:
                await self.archive(agent_id, by)
            for agent_id in here:  # once more: the end of one is news for another
                await self._flow.stop(agent_id, by)
                await self._flow.end(agent_id, "its worktree is put away")

        return await self.worktrees.archive(named, by, discard=discard, clear=clear)

    async def token(self, agent_id: str, by: str) -> str:
        """A new token by which this agent is known at /mcp/self; the one before counts no more."""
        session, now = await self.find(agent_id), self._deps.clock.now()
        if session.closed_at is not None:
            raise Invalid("agentId", f"{agent_id} was ended for good")

        def make(db: Db) -> str:
            _record(db, now, by, "agent.token", session.id)
            return agents.make_token(db, session.id, now)

        return await self._deps.store.write(make)

    async def prompt(
        self,
        agent_id: str,
        text: str,
        by: str,
        *,
        policy: PromptPolicy = PromptPolicy.QUEUE,
        mode: str = "",
        notify: bool = False,
    ) -> None:
        """More work. queue: after what runs; steer: into what runs, if the provider can take it; interrupt: instead."""
        said, session = check_prompt(text), await self.find(agent_id)
        if session.closed_at is not None:
            raise Invalid("agentId", f"{agent_id} was ended for good; create another agent")
        if mode:
            await self.set_mode(session.id, mode, by)
        self._set_replacing(session.id, True)
        try:
            if policy == PromptPolicy.INTERRUPT:
                await self._deps.store.write(agents.suspend_notify, session.id)
                await self._flow.stop(session.id, by)
            now = self._deps.clock.now()
            order = inbox.InboxMode.TRIGGER if policy == PromptPolicy.STEER else inbox.InboxMode.NEXT

            def add(db: Db) -> None:
                self.worktrees.must_be_open(db, session.cwd, session.folder)
                agents.add_prompt(db, session, said, by, _name(by), order, now)
                if notify:
                    agents.set_notify(db, session.id, True)

            await self._deps.store.write(add)
        finally:
            self._set_replacing(session.id, False)
        self._deps.events.session(session.id)
        self._hub.ring(session.address)

    def _set_replacing(self, session_id: str, on: bool) -> None:
        (self._replacing.add if on else self._replacing.discard)(session_id)
        self._replaced += 1

    async def _see(self, fn: Callable[[Db, *Ts], T], *args: *Ts) -> T:
        """Read the store together with what is known besides it: again, if that has changed meanwhile. A read sees the
        store as it was at its beginning, and would take what is replaced for idle."""
        while True:
            before = self._replaced
            found = await self._deps.store.read(fn, *args)
            if before == self._replaced:
                return found

    async def cancel(self, agent_id: str, by: str) -> bool:
        """End what it does now, and what waits behind it. False if nothing ran."""
        session = await self.find(agent_id)
        return await self._flow.stop(session.id, by)

    async def kill(self, agent_id: str, by: str) -> None:
        """End an agent for good: it takes no further prompt. Its messages and its work stay."""
        session, now = await self.find(agent_id), self._deps.clock.now()
        await self._flow.stop(session.id, by)

        def close(db: Db) -> None:
            turn_settlement.stop_turn(db, self._deps, session.id, by)  # what came in meanwhile
            sessions.close(db, session.id, now)
            cancel_agent_tasks(db, session, by, now)
            _record(db, now, by, "agent.kill", session.id)

        await self._deps.store.write(close)
        await self._flow.stop(session.id, by)  # and whatever runs of that
        self._flow.renew(session.id)
        self._hub.ring(session.address)

    async def archive(self, agent_id: str, by: str) -> None:
        """Out of the way until somebody gives it work again. Said twice, it is done once."""
        session, now = await self.find(agent_id), self._deps.clock.now()
        await self._flow.stop(session.id, by)

        def put_away(db: Db) -> None:
            if agents.archive(db, session.id, now):
                _record(db, now, by, "agent.archive", session.id)

        await self._deps.store.write(put_away)
        self._flow.renew(session.id)
        self._hub.ring(session.address)

    async def update(
        self, agent_id: str, by: str, *, title: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AgentSnapshot:
        session, now = await self.find(agent_id), self._deps.clock.now()
        named = None if title is None else check_title(title)
        labelled = None if labels is None else check_labels(labels)

        def change(db: Db) -> None:
            agents.update(db, session.id, named, labelled)
            _record(db, now, by, "agent.update", session.id)

        await self._deps.store.write(change)
        self._hub.ring(session.address)
        return await self.status(session.id)

    async def set_mode(self, agent_id: str, mode: str, by: str) -> str:
        """From its next turn on."""
        session, now = await self.find(agent_id), self._deps.clock.now()
        chosen = check_mode(self._deps.home, session.provider, mode)

        def change(db: Db) -> None:
            agents.set_permission_mode(db, session.id, chosen)
            _record(db, now, by, "agent.mode", session.id, mode=mode)

        await self._deps.store.write(change)
        self._flow.renew(session.id)
        return mode

    # Looking.

    async def find(self, named: str) -> Session:
        return await self._deps.store.read(agents.find, named)

    async def status(self, agent_id: str) -> AgentSnapshot:
        session = await self.find(agent_id)
        return await self._see(views.read_snapshot, session, self._view)

    async def every(self, *, archived: bool = False, statuses: frozenset[str] = frozenset()) -> list[AgentSnapshot]:
        """Those that need somebody first."""
        found = await self._see(views.list_snapshots, archived, self._view)
        return [each for each in found if not statuses or each.status in statuses]

    async def activity(self, agent_id: str, limit: int = 0) -> tuple[int, int, str]:
        """(how many entries are shown, how many there are, as lines for a person). 0: all that fit one answer."""
        session = await self.find(agent_id)
        newest = await self._deps.store.read(timeline.list_last, session.id, MOST_READ)
        entries = merge_entries(newest)
        shown = limit_entries(entries[-limit:] if limit > 0 else entries)
        older = newest[0].seq - 1 if newest else 0
        return len(shown), len(entries) + older, render_entries(shown)

    # Waiting and answering.

    def get_wait_end(self) -> int:
        """When a wait that begins now is over, on the clock of `count_left`."""
        return self._deps.clock.monotonic() + int(self._deps.config[WAIT_S] * 1_000_000)

    def count_left(self, until: int) -> float:
        """Seconds."""
        return max(until - self._deps.clock.monotonic(), 0) / 1_000_000

    async def wait(self, agent_id: str, timeout: float | None = None, asking: str = "") -> WaitOutcome:
        """Until it has ended what it does, asks something, or the time is up. `asking`: until this request of it does
        not wait any more."""
        session = await self.find(agent_id)
        clock, most = self._deps.clock, self._deps.config[WAIT_S] if timeout is None else timeout
        until = clock.monotonic() + int(most * 1_000_000)
        with self._hub.watch(session.address) as watch:
            while True:
                now = await self._see(views.read_outcome, session.id, self._view)
                left = (until - clock.monotonic()) / 1_000_000
                asked = now.permission.id if now.permission is not None else ""
                if asked != asking if asking else asked or now.status not in UNFINISHED:
                    return now
                if left <= 0 or self._stopping.is_set():
                    _, _, text = await self.activity(session.id, 5)
                    return structs.replace(now, last_message=STILL.format(text), waited_out=True)
                await watch.wait(min(left, LOOK_S), self._stopping)

    async def follow(
        self, agent_id: str, after: int | None, seen: tuple[str, frozenset[str]], timeout: float, limit: int
    ) -> AgentUpdate:
        """Return what came after a cursor (None: the newest `limit`); waits until there is something, or the state or
        the requests that wait are others than those `seen`."""
        session, clock = await self.find(agent_id), self._deps.clock
        until = clock.monotonic() + int(timeout * 1_000_000)
        with self._hub.watch(session.address) as watch:
            woken = False
            while True:
                news = await self._see(views.read_update, session.id, after, limit, self._view)
                new = (news.status, frozenset(each.id for each in news.permissions)) != seen
                left = (until - clock.monotonic()) / 1_000_000
                if new or news.entries or left <= 0 or self._stopping.is_set():
                    return news
                # An entry is written behind its bell: who was rung for nothing looks again soon.
                woken = await watch.wait(min(left, SOON_S if woken else LOOK_S), self._stopping)

    async def pending(
        self, after: str = "", most: int = pending_requests.MOST_LISTED
    ) -> list[tuple[RequestingAgent, PendingRequest]]:
        return await self._see(pending_requests.list_pending, self._view, after, most)

    async def request(self, named: str) -> PendingRequest | None:
        """By its id, the beginning of it, or the agent that asks it and nothing else. The agent is looked for among all
        of them, so a title that another has taken as well means nobody. What looks like the id of a request means no
        agent: agents give themselves titles."""
        found = await self._deps.store.read(pending_requests.find_request, named)
        if found is None and named and not named.startswith(requests.PREFIX):
            with suppress(NotFound):
                session = await self.find(named)
                found = await self._deps.store.read(pending_requests.get_only_request, session.id, named)
        return make_pending_request(found) if found is not None else None

    async def respond(
        self,
        request_id: str,
        by: str,
        *,
        allow: bool,
        agent_id: str = "",
        updated: Mapping[str, Any] | None = None,
        message: str = "",
        interrupt: bool = False,
        lasts: AnswerLasts = AnswerLasts.ONCE,
    ) -> str:
        """Answer a request, once. Return '', or the answers that are still awaited if others must agree, too.

        The answer is durable before the provider gets it.
        """
        wish = await self._deps.store.read(requests.get, request_id)
        if agent_id and (wish is None or wish.session_id != agent_id):  # else it is known, also in a chat
            agent_id = (await self.find(agent_id)).id
        if wish is None or (agent_id and wish.session_id != agent_id):
            raise NotFound("request", request_id[:80], "`gatepost permit ls` shows those that wait")
        if allow and wish.cut and wish.kind is not RequestKind.QUESTION:
            raise Invalid("requestId", request_decisions.KEPT_IN_PART.format(wish.id))
        asking = await self._deps.store.read(sessions.get, wish.session_id) if wish.session_id is not None else None
        if wish.asker is not RequestAsker.PROVIDER or asking is None or not asking.agent:
            given = dict(updated or {})
            if wish.kind is RequestKind.QUESTION and allow:
                given = check_answers(wish.input, given)
            return await self._decide(wish, by, message, given, allow=allow, lasts=lasts)
        if lasts is not AnswerLasts.ONCE:
            raise Invalid("lasts", f"{request_id} is asked by a provider, which takes an answer once")
        await self._answer_provider(
            wish,
            asking.id,
            by,
            _check_updated(wish, updated, allow=allow),
            message,
            allow=allow,
            interrupt=interrupt,
        )
        return ""

    async def _decide(
        self, wish: Request, by: str, words: str, given: dict[str, Any], *, allow: bool, lasts: AnswerLasts
    ) -> str:
        """Return what people are asked in chats, too: whoever decides first decides."""
        choice = AnswerChoice("", RequestState.ALLOWED if allow else RequestState.DENIED, lasts)
        if allow and lasts is AnswerLasts.ALWAYS and wish.kind is RequestKind.CALL and not wish.rule:
            raise Invalid("lasts", f"no rule says just what {wish.id} asks; allow it once or for the session")

        def decide(db: Db) -> Decision:
            return request_decisions.decide(
                db, self._deps.channels, wish.id, choice, by, self._deps.clock.now(), words=words, given=given
            )

        decision = await self._deps.store.write(decide)
        for session_id in decision.renew:
            self._flow.renew(session_id)
        request_decisions.follow_decision(self._deps.events, decision)
        if decision.files:
            await asyncio.to_thread(remove_refused, self._deps.home.media, decision.files)
        if not decision.decided and not decision.kept:
            raise Invalid("requestId", decision.said)
        return decision.said if decision.kept else ""

    async def _answer_provider(
        self,
        wish: Request,
        session_id: str,
        by: str,
        updated: dict[str, Any],
        message: str,
        *,
        allow: bool,
        interrupt: bool,
    ) -> None:
        now = self._deps.clock.now()
        verdict, state = ("allow", RequestState.ALLOWED) if allow else ("deny", RequestState.DENIED)

        def answer(db: Db) -> bool:
            answered = requests.record_answer(db, wish.id, state, message, updated, by, now)
            if answered is None:
                raise Invalid("requestId", f"{wish.id} does not wait any more: it is {wish.state}")
            sleeping_turns.wake(db, answered.turn_id, now)
            entry = {"requestId": answered.id, "name": answered.tool, "status": state}
            timeline.add(db, session_id, answered.turn_id, TimelineKind.PERMISSION, entry, now)
            _record(db, now, by, f"permission.{verdict}", session_id, tool=answered.tool)
            changed = allow and apply_approved_plan(db, self._deps.home, answered, by, _name(by), now)
            if interrupt and not allow:  # with the answer: a denial that ends the turn is one order
                turn_settlement.stop_turn(db, self._deps, session_id, by)
            return changed

        changed = await self._deps.store.write(answer)
        self._deps.events.requests()  # passed on if it waits for that; else it is told when it asks
        if changed:
            self._flow.renew(session_id)
        self._deps.events.session(session_id)
        self._hub.ring(agents.address_of(session_id))
        if interrupt and not allow:
            await self._flow.stop(session_id, by)
            self._deps.events.room(agents.INSTANCE, agents.address_of(session_id))

    async def providers(self) -> list[ProviderInfo]:
        return await providers.list_providers(self._deps)

    def models(self, provider: str) -> list[ModelInfo]:
        """Return what an agent of this provider can be made with, and what it costs."""
        return providers.list_models(self._deps.home, provider)


def _check_updated(wish: Request, updated: Mapping[str, Any] | None, *, allow: bool) -> dict[str, Any]:
    """Return what a provider may use instead of its input; nothing: as it was asked."""
    if allow and wish.kind == RequestKind.QUESTION and not isinstance((updated or {}).get(ANSWERS), dict):
        raise Invalid("updatedInput", HOW_TO_ANSWER)
    return check_edited(wish, updated or {}, AnswerLasts.ONCE) if allow else {}


def _record(db: Db, now: int, by: str, action: str, session_id: str, **more: str) -> None:
    audit.append(db, audit.AuditRecord(now, by, action, "done", {"agent": session_id, **more}))


def _name(by: str) -> str:
    return by.rpartition(":")[2] or by
