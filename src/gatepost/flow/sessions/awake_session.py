"""One awake session: its sockets, its sandbox, its mailbox, and the end of it.

When the sandbox ends, for whatever reason, the ledger decides what becomes of its turn.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar, TypeVarTuple

from gatepost.core import log
from gatepost.core.clock import SECOND, to_microseconds
from gatepost.core.error_classification import is_transient
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.acceptor import Acceptor
from gatepost.core.process.unix_sockets import bind_unix
from gatepost.core.records import replace
from gatepost.core.token_bucket import TokenBucket
from gatepost.egress.egress_socket import EgressSocket
from gatepost.egress.endpoints import own_bases
from gatepost.flow.memory.view_file import renew_view
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.host.disk_usage import MIB, DiskBaseline, DiskTree, group_tree
from gatepost.flow.sessions.host.host_uids import find_sandbox_uid
from gatepost.flow.sessions.runner import projection
from gatepost.flow.sessions.runner.runner_protocol import RunnerProtocol
from gatepost.flow.sessions.runner.runner_socket import RunnerSocket
from gatepost.flow.sessions.sandbox import sandbox_plan
from gatepost.flow.sessions.sandbox.group_limits import limits_of
from gatepost.flow.sessions.sandbox.start_folder import StartFolder, find_start_folder
from gatepost.flow.sessions.session_deps import BATCH, WINDOW, WINDOW_CHARS, SessionDeps
from gatepost.flow.sessions.session_ending import Ending, Retry, SessionTimeouts, SessionTiming
from gatepost.flow.skills.adoption import adopt_group
from gatepost.flow.skills.skill_folders import PreparedSkills, prepare_skills
from gatepost.gate.tool_socket import CONNECTIONS, ToolSocket
from gatepost.gate.unlocked_tools import UnlockedTools
from gatepost.mailbox import runner_frames
from gatepost.mailbox.inbound import MailboxLocked
from gatepost.sandboxes.contract import Sandbox, SandboxKind, SandboxPlan
from gatepost.store.memory import recall
from gatepost.store.memory.memories import list_above
from gatepost.store.messages import destinations, mailbox_rows
from gatepost.store.messages.destinations import Destination
from gatepost.store.messages.file_passing import FilePassing
from gatepost.store.messages.inbox import InboxEntry, InboxMode
from gatepost.store.messages.mailbox_rows import ProjectionLimits
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.sessions import groups, replays, session_files, skills
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.skills import EffectiveSkill
from gatepost.store.sessions.turn_failures import FailureCause
from gatepost.store.sessions.turns import Turn, TurnState
from gatepost.tools.call import Caller

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GRACE_S = 2.0  # between a friendly word and the end
NAMED_TOOLS = ("set_title", "set_branch")  # that the prompt of a managed agent tells of
LARGEST_NEXT = 256 * 1024  # characters of waiting messages that are projected before they are claimed
MOST_CONTEXT, LARGEST_CONTEXT = 1000, 1_000_000  # observed messages, and their characters, whatever a group says

_log = log.get("sessions")


class AwakeSession:
    def __init__(
        self,
        deps: SessionDeps,
        session: Session,
        group: Group,
        provider: str,
        rested: Callable[[], None],
        started: Callable[[], None] = lambda: None,
        *,
        yields: bool = False,
    ) -> None:
        """`rested`: called when a turn is over; `started`: when it has its first work. `yields`: it starts in the time
        of the processors that others leave."""
        self.deps, self.session, self.group, self.provider = deps, session, group, provider
        self.limits = limits_of(deps.config, group)  # those of the groups above it are read before it starts
        self.rings = 0
        self.runner = RunnerProtocol(deps, session, group, provider, self)
        self.turn_ended, self._started, self._yields = rested, started, yields
        self._started_at = self.runner.heard_at
        self._tools: ToolSocket | None = None
        self._egress: EgressSocket | None = None
        self.sandbox: Sandbox | None = None
        self._unseen = asyncio.Event()
        self._opened = asyncio.Event()
        self._mailbox = projection.Projection(deps.home, session)
        self._folders = (session.folder, *list_above(session.folder))
        self._recalled: dict[int, int] = {}  # memories that its turns were told of, by when that was in `_heard`
        self._heard = 0  # characters of messages since it woke
        self._projecting = asyncio.Lock()
        self.baseline = DiskBaseline()
        self.writes_elsewhere = False  # to a host folder that is not counted
        self.skills = PreparedSkills()  # as its sandbox sees them
        self._start: StartFolder | None = None  # where it works, if that is not its group's folder
        self._destinations: list[Destination] = []  # as they were …
        self._rule_state = ""  # … when rules were in this state
        self._with_files: set[int] = set()  # rows with files that the conversation knows
        self.ending: Ending | None = None  # None: it was not asked to end
        self._ending_after_turn = ""  # why
        self.gone = asyncio.Event()  # nothing of it runs any more

    # The supervisor asks:

    @property
    def is_idle(self) -> bool:
        """Return True if it has done what it was woken for, and may make way."""
        idle = self.runner.turn is None and not self.runner.giving and not self._unseen.is_set()
        return self.runner.claimed and idle and not self.ending

    @property
    def idle_for(self) -> int:
        """Microseconds in which it had nothing to do, by the time that its activity is told by."""
        return self.deps.listening.now() - self.runner.active_at

    def timing(self, now: int, wanted: bool) -> SessionTiming:
        turn, awaited = self.runner.turn, self.runner.requests.awaited
        return SessionTiming(
            now=now,
            started_at=self._started_at,
            heard_at=self.runner.heard_at,
            active_at=self.runner.active_at,
            turn_since=self.runner.turn_since + awaited.waited if turn else None,
            waiting_since=awaited.since if turn else None,
            warned=self.runner.warned,
            time_up_at=self.runner.time_up_at,
            tool_timeout=self.runner.tool_timeout,
            wanted=wanted,
        )

    @property
    def patience(self) -> SessionTimeouts:
        """The gateway's, but for how long a turn may take: that is the group's."""
        return replace(self.deps.patience, turn=to_microseconds(self.limits.turn_s))

    def warn(self, now: int) -> None:
        """Tell it that its time is nearly over."""
        begun = self.runner.turn_since + self.runner.requests.awaited.waited
        self.runner.warn((begun + self.patience.turn - now) / SECOND)

    def ring(self) -> None:
        """Hear that something is queued for this session."""
        self.rings += 1
        self._unseen.set()

    def tools_changed(self) -> None:
        if self._tools is not None:
            self._tools.tools_changed()

    async def rest(self, reason: str) -> None:
        """End it in good order: the runner is asked, then its sandbox is ended."""
        ending = Ending.by_gateway(reason)
        self._begin_ending(ending)
        self.runner.send(runner_frames.CloseFrame(reason=reason))
        await asyncio.sleep(GRACE_S)
        self.kill(ending)

    def kill(self, ending: Ending) -> None:
        """End it now: no further call is answered, and whatever runs inside is gone. That first: an agent whose open
        call fails would still say so, and a turn that goes on would not ask again."""
        self._begin_ending(ending)
        try:
            if self.sandbox is not None:
                self.sandbox.kill()
        finally:
            if self._tools is not None:
                self._tools.revoke()
            if self._egress is not None:
                self._egress.revoke()

    def end_after_turn(self, reason: str) -> None:
        """End it as soon as no turn runs."""
        self._ending_after_turn = reason
        if self.runner.turn is None:
            self.kill(Ending.by_gateway(reason))

    def trees(self, folders: Sequence[str]) -> list[DiskTree]:
        """Return what its files are charged to. `folders`: of all groups."""
        home, folder = self.deps.home, self.session.folder
        worktree = [DiskTree(self._start.granted.mount.source)] if self._start and self._start.managed else []
        return [group_tree(home.group(folder), folder, folders), DiskTree(home.session(self.session.id)), *worktree]

    def trees_below(self, some: Sequence[str], folders: Sequence[str]) -> list[DiskTree]:
        """Return the trees of `some` groups that it can write to, because they are below its own."""
        inner = [each for each in some if each.startswith(self.session.folder + "/")]
        return [group_tree(self.deps.home.group(each), each, folders) for each in inner]

    @property
    def _replays(self) -> bool:
        """Return True if it repeats another session: it works on copies, and nothing that it does reaches anybody."""
        return self.session.instance == replays.INSTANCE

    async def _measure(self) -> None:
        """Measure what its trees take before it can write to them."""
        folders = [each.folder for each in await self.deps.store.read(groups.list_all)]
        trees = [*self.trees(folders), *self.trees_below(folders, folders)]
        self.baseline = await self.deps.usage.baseline(trees, self.most_counted)

    @property
    def most_counted(self) -> int:
        """The number of files of a tree that are counted: enough to see how far it is above its limit."""
        return 2 * self.limits.files

    def _is_ending(self) -> bool:
        return self.ending is not None

    def _begin_ending(self, ending: Ending) -> None:
        self.ending = self.ending.join(ending) if self.ending is not None else ending
        self.runner.open = False
        self.runner.draft.freeze()

    # Its life.

    async def run(self) -> None:
        """Run it from the first socket to the last row. Raises Unavailable if no sandbox could be started."""
        deps, session = self.deps, self.session
        # Off the loop: whether a kind works is tried out when it is first asked for, and some take half a second.
        name, kind = await self._off_loop(
            sandbox_plan.choose_sandbox, deps.config, self.group, self.provider, deps.sandboxes
        )
        parents = await deps.store.read(groups.list_ancestors, session.folder)
        plan = await self._prepare(kind, parents)
        tools, egress = self._make_sockets(parents)
        folder = deps.home.sockets_of(session.id)
        try:
            await tools.open(folder / "router.sock", plan.uid)
            await egress.open(folder / "egress.sock", plan.uid)
            with bind_unix(folder / "runner.sock", plan.uid) as listener:
                self._tools, self._egress = tools, egress
                if not self._is_ending():  # it may have been asked to while it was prepared
                    await self._start_and_serve(name, kind, plan, listener)
        finally:
            self.runner.draft.stop()
            if self.sandbox is not None:
                self.sandbox.kill()
                deps.freezer.remove(self.sandbox)
            else:
                self.gone.set()
            await tools.close()
            await egress.close()
            await self._off_loop(self._mailbox.close)
            await self._off_loop(_remove_sockets, deps.home, session.id)

    async def _prepare(self, kind: SandboxKind, parents: list[Group]) -> SandboxPlan:
        """Make the folders and the mailbox that the sandbox sees. Return its plan."""
        deps, session = self.deps, self.session
        uid = await find_sandbox_uid(deps.store, deps.config, deps.clock, session.folder, isolated=kind.isolated)
        await self._off_loop(sandbox_plan.prepare_folders, deps.home, deps.config, self.group, session.id, uid)
        self.limits = limits_of(deps.config, self.group, parents)
        pairs, known = await self._open_rows()
        if deps.passing is not None:
            await _fetch_files(deps.passing, pairs)
        await self._keep_files(pairs)
        await self._off_loop(self._mailbox.begin, pairs, known)
        self._start = await self._off_loop(find_start_folder, deps.home, deps.config, session.cwd)
        if self._start is not None and self._start.managed:
            await self._off_loop(sandbox_plan.give_worktree, deps.home, self._start.granted.mount.source, uid)
        if not self._replays:
            await renew_view(deps.store, deps.home, deps.clock, session.folder, self._off_loop)
        self.skills = await self._prepare_skills()
        plan = sandbox_plan.make_sandbox_plan(
            deps.home,
            deps.config,
            self.group,
            session.id,
            provider=self.provider,
            parents=parents,
            start=self._start,
            copy=deps.home.replay_copy(session.id) if self._replays else None,
            uid=uid,
            skills=self.skills.folder,
        )
        self.writes_elsewhere = any(
            each.writable and not each.source.is_relative_to(deps.home.path) for each in plan.mounts
        )
        return plan

    async def _prepare_skills(self) -> PreparedSkills:
        """Put the skills that its group may use into place; a replay may have others. A group that comes from a version
        without the lock has its own adopted first."""
        deps, session = self.deps, self.session
        unadopted, found = await deps.store.read(_read_skills, session)
        if unadopted:
            await adopt_group(deps.store, deps.home, deps.clock, session.folder)
            found = await deps.store.read(skills.list_effective, session.folder, session.id)
        return await prepare_skills(deps.store, deps.home, self._off_loop, found)

    def _make_sockets(self, parents: list[Group]) -> tuple[ToolSocket, EgressSocket]:
        """Make the ways to tools and out. Both know who calls by the sandbox that a process lives in."""
        deps, session = self.deps, self.session
        caller = Caller(
            folder=session.folder,
            session_id=session.id,
            provider=self.provider,
            running=lambda: self.runner.turn,
            before_call=self.runner.order.flush_results,
            keys=self.runner.keys,
            replays=self._replays,
            offered=UnlockedTools(deps.store, session, self.tools_changed, NAMED_TOOLS if session.agent else ()),
        )
        tools = ToolSocket(
            deps.dispatch, caller, self._owns, self.runner.submit_turn, lambda why: self.kill(Ending(why))
        )
        own = own_bases(group.options for group in (self.group, *parents))
        return tools, EgressSocket(deps.egress, caller, self._owns, own)

    async def _start_and_serve(self, name: str, kind: SandboxKind, plan: SandboxPlan, listener: socket.socket) -> None:
        session = self.session
        await self._measure()
        self.sandbox = await kind.start(plan)
        if not self._yields:
            self.sandbox.end_start()
        self.deps.freezer.add(self.sandbox)
        # Served only now: who connects is held against the sandbox that was started.
        bucket = TokenBucket(CONNECTIONS, asyncio.get_running_loop().time())
        with closing(Acceptor(listener, lambda: RunnerSocket(self._admit), bucket=bucket)):
            _log.info("awake", session=session.id, folder=session.folder, provider=self.provider, sandbox=name)
            if self._is_ending():  # asked to end while it was starting
                self.sandbox.kill()
            await self._serve(self.sandbox)

    async def _serve(self, sandbox: Sandbox) -> None:
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(self._guarded(self._listen()))
            looking = tasks.create_task(self._guarded(self._offer_work()))
            code = await sandbox.wait()
            self.gone.set()
            if self.runner.socket is not None:
                await asyncio.wait({listening}, timeout=GRACE_S)  # what it said with its last breath
            listening.cancel()
            looking.cancel()
        await self._ended(code)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """End the sandbox for whatever goes wrong on our side. It is settled like any other end of it."""
        try:
            await work
        except Exception as error:  # noqa: BLE001  a full disk, or a frame that nobody thought of: the turn must be settled
            _log.exception("a session cannot go on", session=self.session.id)
            known = isinstance(error, GatepostError)
            cause = str(error) if known else "the gateway had a problem of its own, which its log describes"
            self.kill(Ending(cause, Retry.LATER if is_transient(error) else Retry.NEXT))

    def _admit(self, connection: RunnerSocket, pid: int) -> bool:
        """Take one connection, of a process that lives in this sandbox."""
        if self.runner.socket is not None or not self._owns(pid):
            return False
        self.runner.socket = connection
        self._opened.set()
        return True

    def _owns(self, pid: int) -> bool:
        return self.sandbox is not None and self.sandbox.owns(pid)

    async def _listen(self) -> None:
        await self._opened.wait()
        connection = self.runner.socket
        assert connection is not None
        while frames := await connection.frames():
            if self.ending is not None and self.ending.retry is Retry.NEVER:
                return  # a person has stopped it: what it had not handed over by then goes with its turn
            starting = not self.runner.claimed
            await self.runner.receive(frames)
            if starting and self.runner.claimed:
                self._started()
                if self.sandbox is not None:
                    self.sandbox.end_start()
            if self._ending_after_turn:
                self.end_after_turn(self._ending_after_turn)
            elif self.session.mode is SessionMode.ISOLATED and self.is_idle:
                self.end_after_turn("its run is over")
        if connection.fault:
            _log.warning("the runner said what it may not", session=self.session.id, fault=connection.fault)
            self.kill(Ending(connection.fault if connection.flooded else "the agent's runner said what it may not"))
        if not self.ending and self.sandbox is not None:
            self.sandbox.kill()  # a runner that has closed its connection is of no use; the ledger settles what it had

    async def _offer_work(self) -> None:
        """Project what is queued and ring; also without a bell every now and then."""
        while True:
            await self._unseen.wait()
            self._unseen.clear()
            if not await self.runner.offer_work():
                await self.project()
                self.runner.send(runner_frames.BellFrame())

    async def project(self) -> set[int]:
        """Bring inbound.db up to date with the ledger. Return the rows that it then holds."""
        try:
            async with self._projecting:
                pairs, known = await self._open_rows()
                if self.deps.passing is not None and not await self._has_fetched(self.deps.passing, pairs):
                    return set()
                if _list_with_files(pairs).keys() != self._with_files:  # one may be gone, since its group was sealed
                    await self._keep_files(pairs)
                    await self._off_loop(self._mailbox.bring_files)
                rebuilt = await self._off_loop(self._mailbox.update, pairs, known)
        except MailboxLocked:
            _log.warning("inbound.db is kept locked from inside; ended", session=self.session.id)
            self.kill(Ending("the sandbox kept its mailbox locked"))
            return set()
        if rebuilt:
            _log.warning("inbound.db was corrupt and was made again", session=self.session.id)
        return {entry.id for entry, _ in pairs}

    async def _open_rows(self) -> tuple[list[tuple[InboxEntry, Message]], list[Destination]]:
        """Return what the mailbox holds: of what waits only so much as the next claim can take. A claim that takes a
        row beyond that is answered when the row is there."""
        store, config, group = self.deps.store, self.deps.config, self.group
        limits = ProjectionLimits(
            observed=config[WINDOW] if group.window_messages is None else group.window_messages,
            chars=config[WINDOW_CHARS] if group.window_chars is None else group.window_chars,
            rows=config[BATCH],
            size=LARGEST_NEXT,
            most_observed=MOST_CONTEXT,
            most_chars=LARGEST_CONTEXT,
            folders=self._folders,
        )
        found = await store.read(mailbox_rows.list_to_project, self.session.id, limits)
        if found.rules_version != self._rule_state or not found.rules_version:
            self._destinations = await store.read(destinations.list_for_group, self.session.folder)
            self._rule_state = found.rules_version
        if found.remembers:
            await self._recall(found.pairs)
        return found.pairs, self._destinations

    async def _recall(self, pairs: list[tuple[InboxEntry, Message]]) -> None:
        """Look up what turns about new messages are told from memory, once for each message."""
        before, ids = self._mailbox.recalled, {entry.id for entry, _ in pairs}
        known = {row_id: entries for row_id, entries in before.items() if row_id in ids}
        new = [pair for pair in pairs if pair[0].id not in known and pair[0].mode != InboxMode.OBSERVE]
        if new:
            folder, now = self.session.folder, self.deps.clock.now()
            known |= await self.deps.store.read(
                recall.list_for_messages, folder, new, self._list_shown(), now, lane=self.session.id
            )
            self._heard += sum(len(message.text) + recall.LEAST_HEARD for _, message in new)
            told = [each.id for pair in new for each in known[pair[0].id]]
            self._recalled |= dict.fromkeys(told, self._heard)
        self._mailbox.recalled = known

    def _list_shown(self) -> frozenset[int]:
        """Return the memories that the conversation has for sure. Providers make it shorter without a word, so what was
        told some time ago is told again where it matters."""
        since = self._heard - recall.TOLD_FOR
        self._recalled = {memory_id: at for memory_id, at in self._recalled.items() if at >= since}
        return frozenset(self._recalled)

    async def _has_fetched(self, passing: FilePassing, pairs: list[tuple[InboxEntry, Message]]) -> bool:
        """Return False if a file has not come yet. The session ends, and waits for it when it wakes again."""
        try:
            await _fetch_files(passing, pairs)
        except Unavailable as error:
            _log.warning("a file has not come", session=self.session.id, error=str(error))
            self.kill(Ending.by_gateway(str(error)))
            return False
        return True

    async def _keep_files(self, pairs: list[tuple[InboxEntry, Message]]) -> None:
        """Record the files of new rows, and read which ones the conversation keeps."""
        store, session, found = self.deps.store, self.session, _list_with_files(pairs)
        if new := [(row_id, message) for row_id, message in found.items() if row_id not in self._with_files]:
            share = min(self.deps.config[projection.FILES_MB], self.limits.disk_mb // 4) * MIB
            await store.write(session_files.keep, session.id, new, share, durable=False, lane=session.id)
        listed = tuple(found.items())
        files = await store.read(session_files.load, session.id, listed)
        if (passing := self.deps.passing) is not None:
            for each in (file for row in files.rows.values() for file in row):
                with suppress(Unavailable):  # its gateway is away: it comes when the session wakes again
                    await passing.fetch([each.path])
        self._mailbox.files = files
        self._with_files = {*found}

    async def _off_loop(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run on a thread of the pool. The host's work for a session waits for nothing that the session asks for."""
        return await self.deps.files.run(f"host {self.session.id}", fn, *args)

    # Its end.

    async def _ended(self, code: int) -> None:
        """Settle what a sandbox left that is gone. Asked to end or not, an open turn did not end by itself."""
        turn = await turn_settlement.open_turn(self.deps, self.session)
        words = self.runner.last_words
        ending = self.ending or Ending(_render_trouble(words) if words else _render_exit_code(code))
        ending = ending.during(await self.deps.find_shortage())
        hopeless = words is not None and words.what == "setup" and ending.retry is not Retry.LATER
        _log.info("asleep", session=self.session.id, reason=ending.cause, code=code)
        if ending.retry is not Retry.NEVER:
            await self._settle(turn, ending, final=hopeless)
        self.runner.end_turn()

    async def _settle(self, turn: Turn | None, ending: Ending, *, final: bool) -> None:
        deps, session = self.deps, self.session
        if turn is not None and turn.state in (TurnState.CLAIMED, TurnState.BEGUN):
            if self.runner.time_up_at is not None:
                await turn_settlement.settle_timed_out_turn(deps, session, turn, handed_over=False)
            elif ending.retry is Retry.DECIDED:
                await turn_settlement.settle_sleeping_turn(deps, session, turn)
            else:
                await turn_settlement.settle_broken_turn(deps, session, turn, ending.to_failure(turn, final=final))
        elif not self.runner.claimed and ending.counts:
            hopeless = final or ending.final
            cause = FailureCause(reason=ending.cause, final=hopeless, passing=ending.retry is Retry.LATER)
            await turn_settlement.settle_failed_wake(deps, session, cause)


def _list_with_files(pairs: list[tuple[InboxEntry, Message]]) -> dict[int, Message]:
    """Return the rows that bring files, or quote a message that did."""
    return {
        entry.id: message
        for entry, message in pairs
        if not session_files.FIELDS.isdisjoint(message.content)
        if session_files.list_files(message.content) or session_files.get_quoted_message(message.content)
    }


async def _fetch_files(passing: FilePassing, pairs: list[tuple[InboxEntry, Message]]) -> None:
    """Have the files here that another gateway has received."""
    for _, message in pairs:
        await passing.fetch([each["path"] for each in message.content.get("attachments", ())])


def _read_skills(db: Db, session: Session) -> tuple[bool, list[EffectiveSkill]]:
    return skills.is_unadopted(db, session.folder), skills.list_effective(db, session.folder, session.id)


def _render_trouble(words: runner_frames.ErrorFrame) -> str:
    """Return what was said inside, cut to one line; it is shown to people and not acted upon."""
    line = " ".join(words.why.split())[:300]
    return f"the agent cannot start: {line}" if words.what == "setup" else f"the agent's runner broke: {line}"


def _render_exit_code(code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"the agent's sandbox {how}"


def _remove_sockets(home: Home, session_id: str) -> None:
    folder = home.sockets_of(session_id)
    with suppress(FileNotFoundError, GatepostError), open_untrusted(folder.parent) as root:
        root.remove_tree(folder.name)
