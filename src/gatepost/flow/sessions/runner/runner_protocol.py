"""Frames of a runner on its socket, and their answers.

The runner is not believed: each claim, result and end of a turn is a question to the ledger, which answers by session,
turn and epoch.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from gatepost.core import log
from gatepost.core.clock import to_microseconds
from gatepost.core.durations import TimedStep
from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import MOST_RESULT_BYTES, MOST_RESULTS
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.sessions import compaction, turn_settlement
from gatepost.flow.sessions.runner import results
from gatepost.flow.sessions.runner.drafts import SessionDraft
from gatepost.flow.sessions.runner.result_files import copy_result_files
from gatepost.flow.sessions.runner.results import StatusLines
from gatepost.flow.sessions.runner.runner_requests import RunnerRequests
from gatepost.flow.sessions.runner.runner_socket import ResultOrder, RunnerSocket
from gatepost.flow.sessions.runner.runner_welcome import make_welcome
from gatepost.flow.sessions.runner.turn_timeline import TurnTimeline, clean_value
from gatepost.flow.sessions.session_deps import BATCH, LEASE, SessionDeps
from gatepost.flow.sessions.session_ending import Ending
from gatepost.flow.skills.skill_folders import PreparedSkills
from gatepost.gate.call_keys import CallKeys
from gatepost.mailbox import runner_frames
from gatepost.mailbox.runner_frames import EventKind, TurnErrorClass
from gatepost.store.port import Db
from gatepost.store.schedule import firings
from gatepost.store.sessions import turn_claims, turns
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session
from gatepost.store.sessions.timeline import TimelineKind
from gatepost.store.sessions.turn_claims import TurnClaim
from gatepost.store.sessions.turn_failures import FailureCause
from gatepost.store.sessions.turns import Turn

LONGEST_USAGE = 10_000  # characters, as it is kept
MOST_TROUBLES = 20  # that are listened to
MOST_EARLY = 100  # frames that wait for Welcome
PASSING = frozenset(each for each in TurnErrorClass if each.is_passing)

_log = log.get("sessions")


class RunnerPort(Protocol):
    """The side of a session that the protocol needs."""

    rings: int  # how often something was queued for it
    skills: PreparedSkills  # as its sandbox sees them

    async def project(self) -> set[int]:
        """Bring inbound.db up to date. Return the rows that it then holds."""

    @property
    def turn_ended(self) -> Callable[[], None]: ...

    def end_after_turn(self, reason: str) -> None:
        """Start the runner anew once no turn runs: its welcome has changed."""


class RunnerProtocol:
    """The conversation with one runner."""

    def __init__(self, deps: SessionDeps, session: Session, group: Group, provider: str, port: RunnerPort) -> None:
        self.deps, self.session, self.group, self.provider = deps, session, group, provider
        self._port = port
        self.socket: RunnerSocket | None = None
        self._welcomed = False
        self._early: deque[runner_frames.Frame] = deque(maxlen=MOST_EARLY)  # frames that wait for Welcome
        self.keys = CallKeys(deps.store)
        self.draft = SessionDraft(deps.drafts, session.id, group.name or session.folder, self.send)
        self.order = ResultOrder(self.send, lambda: self.turn is not None and self.open)
        self._waiting: runner_frames.ClaimFrame | None = None  # a claim that is answered when there is something
        self.heard_at = self.active_at = self._renewed_at = deps.listening.now()
        self.turn: Turn | None = None
        self.tool_timeout = 0
        self.claimed = False  # it has come as far as to ask for work and get some
        self.open = True  # False: it is being ended, and gets nothing new
        self.giving = False  # a batch is on its way to it
        self._known_conversation = ""  # that the store has as the session's last
        self._fork_source = ""  # another session's conversation, of which no turn has gone on with the copy yet
        self._drained_at = -1  # the number of rings at which nothing was left to claim
        self.last_words: runner_frames.ErrorFrame | None = None  # why the runner says that it ends
        self.failure: runner_frames.SubmitTurnFrame | None = None  # how its last turn that failed did so
        self._troubles = 0
        self._statuses = StatusLines(deps, session)
        self._timeline = TurnTimeline(deps, session)
        self.requests = RunnerRequests(deps, session, group, provider, self.send)
        self.turn_since = 0  # when this attempt of the turn began
        self.warned = False  # that the turn's time is nearly over
        self.time_up_at: int | None = None  # when it was interrupted for that
        self._compacting = False  # the turn makes its conversation shorter; nobody joins it

    def send(self, frame: runner_frames.Frame) -> None:
        """Send a frame. Welcome comes first: a runner reads by it what everything else means. Others wait for it; a
        bell need not, because Welcome itself is followed by one."""
        if self.socket is None:
            return
        if self._welcomed:
            self.socket.send(frame)
        elif isinstance(frame, runner_frames.WelcomeFrame):
            self.socket.send(frame)
            self._welcomed = True
            while self._early:
                self.socket.send(self._early.popleft())
        elif not isinstance(frame, runner_frames.BellFrame):
            self._early.append(frame)

    async def receive(self, frames: list[runner_frames.FromRunner]) -> None:
        self.heard_at = self.deps.listening.now()
        for part in results.split_batches(frames):
            is_use = isinstance(part, runner_frames.EventFrame) and part.kind == EventKind.TOOL_USE
            if self.keys.unsettled and (is_use or isinstance(part, list)):
                self.keys.settle_answered()
            if isinstance(part, list):
                await self._record_results(part)
            else:
                await self._answer(part)

    async def _answer(self, frame: runner_frames.FromRunner) -> None:
        match frame:
            case runner_frames.HelloFrame() if not self._welcomed:  # it is long: one that repeats itself gets no other
                await self._welcome()
            case runner_frames.ClaimFrame():
                await self._claim(frame)
            case runner_frames.RowsBegunFrame():
                ok = self._is_own(frame.turn) and await self.deps.store.write(
                    turns.begin,
                    frame.turn,
                    frame.epoch,
                    tuple(frame.rows),
                    self.deps.clock.now(),
                    lane=self.session.id,
                )
                self.send(runner_frames.AckFrame(id=frame.id, ok=ok))
            case runner_frames.ConversationStartedFrame():
                self._name_conversation(frame.turn, frame.epoch, frame.conversation)
            case runner_frames.StatusFrame():
                await self._show_status(frame)
            case runner_frames.DraftFrame():
                self.draft.receive(frame)
            case runner_frames.SubmitTurnFrame():
                self.send(await self._submit(frame))
            case runner_frames.PingFrame():
                await self._receive_ping(frame)
            case runner_frames.FlushReplyFrame():
                self.order.receive_flush_reply(frame)
            case runner_frames.EventFrame() if frame.kind in (EventKind.PERMISSION, EventKind.QUESTION):
                if self.turn is not None and self._is_own(frame.turn):
                    await self.requests.record(self.turn, frame, self._timeline.get_quota(self.turn))
            case runner_frames.EventFrame():
                if frame.kind == EventKind.TOOL_RESULT:
                    self.requests.awaited.end_use(str(frame.data.get("id")))
                if self.session.agent and self.turn is not None and self._is_own(frame.turn):
                    self._timeline.add_event(self.turn, frame)
            case runner_frames.ErrorFrame() if self._troubles < MOST_TROUBLES:
                self._troubles += 1
                _log.warning("trouble inside", session=self.session.id, what=frame.what, why=frame.why[:500])
                if frame.fatal:
                    self.last_words = frame
                if frame.what == "inbound":
                    await self._port.project()
                    self.send(runner_frames.BellFrame())
            case _:
                pass  # events of the timeline: information only

    def warn(self, seconds_left: float) -> None:
        self.warned = True
        self.send(runner_frames.WrapUpFrame(seconds=seconds_left))

    def interrupt(self) -> None:
        """Interrupt it: its time is up. It may say how far it has come; nothing new joins the turn."""
        self.time_up_at = self.deps.listening.now()
        self.send(runner_frames.InterruptFrame(reason="time"))

    def _is_own(self, turn_id: str) -> bool:
        return self.turn is not None and self.turn.id == turn_id

    async def _welcome(self) -> None:
        frame, self._fork_source = await make_welcome(
            self.deps, self.session, self.group, self.provider, self._port.skills
        )
        self.send(frame)
        self.send(runner_frames.BellFrame())

    async def offer_work(self) -> bool:
        """Give what is queued to a runner that waits for it, mailbox and claim at once. Return False if none waits."""
        frame, self._waiting = self._waiting, None
        if frame is None:
            return False
        self.giving = True
        try:
            if wait := self.deps.pace.reserve(self.session.folder, asyncio.get_running_loop().time()):
                await asyncio.sleep(wait)
            claim, there = await asyncio.gather(self._try_claim(frame), self._port.project())
            await self._answer_claim(frame, claim, there)
        finally:
            self.giving = False
        return True

    async def _claim(self, frame: runner_frames.ClaimFrame) -> None:
        if frame.wait and not frame.turn and self._drained_at == self._port.rings:
            self._waiting = frame  # whatever is queued from here on rings
            return
        claim, rings = None, -1
        self.giving = True
        try:
            if not frame.turn and (
                wait := self.deps.pace.reserve(self.session.folder, asyncio.get_running_loop().time())
            ):
                await asyncio.sleep(wait)
            while claim is None and rings != self._port.rings:  # rung meanwhile, when nobody waited yet: look again
                rings = self._port.rings
                claim = await self._try_claim(frame)
            await self._answer_claim(frame, claim, set(frame.rows))
        finally:
            self.giving = False

    async def _try_claim(self, frame: runner_frames.ClaimFrame) -> TurnClaim | None:
        now, most = self.deps.clock.now(), self.deps.config[BATCH]
        if not self.open:
            return None
        if not frame.turn:
            rings = self._port.rings
            claim, ended = await self.deps.store.write(
                self._claim_batch, frame, now, most, durable=frame.ready, lane=self.session.id
            )
            self._drained_at = rings if claim is not None and not claim.more else -1
            if ended is not None:
                self.claimed = True  # that was what it had been woken for
                self.deps.events.room(*ended)
            if claim is not None and claim.waited is not None:
                self.deps.durations.note((TimedStep.QUEUE, "", claim.waited))
            return claim
        if not self._is_own(frame.turn) or self.time_up_at is not None or self._compacting:
            return None
        self._drained_at = -1  # what joins a turn may be given back at its end
        return await self.deps.store.write(
            turn_claims.claim_more, frame.turn, frame.epoch, now, LEASE, most, durable=False, lane=self.session.id
        )

    async def _answer_claim(self, frame: runner_frames.ClaimFrame, claim: TurnClaim | None, there: set[int]) -> None:
        if claim is None:
            if frame.wait:
                self._waiting = frame
            else:
                self.send(runner_frames.ClaimReplyFrame(id=frame.id))
            return
        if not set(claim.rows) <= there:  # it cannot read them yet
            await self._port.project()
        turn = claim.turn
        if not self._is_own(turn.id):
            self._known_conversation = "" if claim.returning else claim.conversation
            self.turn_since, self.warned, self.time_up_at = self.deps.listening.now(), False, None
            self._compacting = claim.compacts
        self.turn, self.claimed, self.active_at = turn, True, self.deps.listening.now()
        seen = turn.rights != firings.RIGHTS  # a scheduled run that finds nothing to say is not seen
        self.draft.begin(turn, shown=seen and not self._compacting)
        if seen:
            self.deps.typing.start(turn.instance, turn.address, turn.thread, claim.read)
        self.deps.events.change(turn.instance, turn.address)
        answer = runner_frames.ClaimReplyFrame(
            id=frame.id,
            rows=list(claim.rows),
            turn=turn.id,
            epoch=turn.epoch,
            attempt=turn.attempt,
            conversation=runner_frames.bound_conversation(claim.conversation),
            continued=claim.continued,
            begun=claim.begun,
            fork=bool(self._fork_source) and claim.conversation == self._fork_source,
        )
        self.send(answer)

    def _claim_batch(
        self, db: Db, frame: runner_frames.ClaimFrame, now: int, most: int
    ) -> tuple[TurnClaim | None, tuple[str, str] | None]:
        """Return the claim, and the room of a turn that ended with it because its time had run out."""
        given = (self.session.id, self.provider, self.deps.owner, now, LEASE, most)
        claimed = turn_claims.claim_waiting(db, *given, ready=frame.ready)
        unfinished = turns.find_open(db, self.session.id) if claimed is None else None
        if unfinished is None:
            return claimed, None
        ended = turn_settlement.end_timed_out_turn(db, self.deps, self.session, unfinished)
        return turn_claims.claim(db, *given, ready=frame.ready, begun=frozenset(frame.begun)), ended

    def _name_conversation(self, turn_id: str, epoch: int, conversation: str) -> None:
        """Record it. Nobody waits for that: the agent's results are committed behind it, in the same lane."""
        turn = self.turn
        if turn is None or (turn.id, turn.epoch) != (turn_id, epoch) or turn.conversation == conversation:
            return
        self.turn = replace(turn, conversation=conversation)
        now, known, lane = self.deps.clock.now(), conversation == self._known_conversation, self.session.id
        self.deps.store.post(turns.set_conversation, turn_id, epoch, conversation, now, known, lane=lane)

    async def _record_results(self, frames: list[runner_frames.ResultFrame]) -> None:
        now = self.deps.clock.now()
        self.active_at = self.deps.listening.now()
        if self.draft.channel is not None and not all(frame.to for frame in frames):
            self.draft.expect_delivery()
        given = [
            (frame, await copy_result_files(self.deps, self.session.id, self.turn, frame) if frame.files else ())
            for frame in frames
        ]
        deps, session_id, config = self.deps, self.session.id, self.deps.config
        limits = results.ResultLimits(config[MOST_RESULTS], config[MOST_RESULT_BYTES])
        room = self.turn or self.session
        taken = await deps.pump.write(
            room.instance,
            room.address,
            partial(
                results.record_results,
                channels=deps.channels,
                session_id=session_id,
                results=given,
                limits=limits,
                now=now,
                asking=partial(read_rules, config),
            ),
            lane=session_id,
        )
        for instance, address in taken.rooms:
            if (instance, address) != (room.instance, room.address):
                deps.events.room(instance, address)
        if taken.asked:
            deps.events.requests()
        for answer in taken.answers:
            self.send(answer)
        if taken.exceeded and self._is_own(taken.exceeded):
            await self._end_for(limits.too_many_bytes())

    async def _end_for(self, reason: str) -> None:
        """Fail the turn, tell people, and end the runner with it: one that does not stop would claim nothing."""
        if self.turn is not None:
            await turn_settlement.settle_broken_turn(
                self.deps, self.session, self.turn, FailureCause(reason=reason), "fatal"
            )
        self.end_turn()
        raise Invalid("", reason)

    async def _show_status(self, frame: runner_frames.StatusFrame) -> None:
        turn = self.turn
        if turn is None or (turn.id, turn.epoch) != (frame.turn, frame.epoch):
            return
        if self.session.agent:
            self._timeline.add(turn, TimelineKind.STATUS, {"text": clean_value(frame.text)})
        await self._statuses.show(turn, frame.text)

    async def _receive_ping(self, frame: runner_frames.PingFrame) -> None:
        now, heard_at = self.deps.clock.now(), self.heard_at
        self.tool_timeout = to_microseconds(min(frame.tool_timeout, 3600.0)) if frame.tool else 0
        if self.turn is not None and heard_at - self._renewed_at > LEASE // 3:
            self._renewed_at = heard_at
            turn, lane = self.turn, self.session.id
            await self.deps.store.write(turns.renew_lease, turn.id, turn.epoch, now, LEASE, durable=False, lane=lane)

    async def submit_turn(self, session_id: str, params: dict[str, object]) -> dict[str, object]:
        """End a turn by JSON-RPC on router.sock, for other agent loops."""
        try:
            given = msgspec.convert(params, runner_frames.SubmitTurnParams)
        except msgspec.ValidationError as error:
            raise Invalid("submit_turn", str(error)) from None
        frame = runner_frames.SubmitTurnFrame(
            id=0,
            turn=given.turn_id,
            epoch=self.turn.epoch if self.turn else 0,
            status=given.status or runner_frames.SUCCESS,
            error=given.error or "",
            conversation=given.session_id or "",
        )
        text = given.result or ""
        if text and self._is_own(frame.turn) and self.turn is not None:
            await self._record_results(
                [
                    runner_frames.ResultFrame(
                        id=0, turn=frame.turn, epoch=frame.epoch, attempt=self.turn.attempt, part=0, text=text
                    )
                ]
            )
        done = await self._submit(frame)
        return {"ok": done.ok}

    async def _submit(self, frame: runner_frames.SubmitTurnFrame) -> runner_frames.AckFrame:
        """End the turn. Said twice, it is done once."""
        if self.turn is None or not self._is_own(frame.turn) or frame.epoch != self.turn.epoch:
            ended = await self.deps.store.read(turns.get, frame.turn)
            known = ended is not None and ended.session_id == self.session.id and ended.ended_at is not None
            return runner_frames.AckFrame(id=frame.id, ok=known)
        now, turn = self.deps.clock.now(), self.turn
        if frame.conversation:
            self._name_conversation(turn.id, turn.epoch, frame.conversation)
        if frame.status == runner_frames.SUCCESS:
            encoded = json.dumps(frame.usage)
            usage = encoded if len(encoded) <= LONGEST_USAGE else "{}"  # it is for looking back, and names are short
            if not await self._finish(turn, usage, now, " ".join(frame.withheld.split())):
                self._drained_at = -1
                unread = FailureCause(reason="the agent did not look at the message")
                await turn_settlement.settle_broken_turn(self.deps, self.session, turn, unread)
        elif self.time_up_at is not None:
            self._drained_at, self.failure = -1, frame
            await turn_settlement.settle_timed_out_turn(self.deps, self.session, turn, handed_over=True)
        else:
            wait = to_microseconds(frame.retry_after) if frame.retry_after is not None else None
            self._drained_at = -1
            reason, self.failure = frame.error or "the agent failed", frame
            cause = FailureCause(reason=reason, wait=wait, finished=frozenset(frame.finished))
            if frame.error_class in PASSING and (lack := await self.deps.find_shortage()):
                cause = replace(Ending(reason).during(lack).to_failure(turn, final=False), finished=cause.finished)
            await turn_settlement.settle_broken_turn(self.deps, self.session, turn, cause, frame.error_class)
        self.end_turn()
        return runner_frames.AckFrame(id=frame.id)

    async def _finish(self, turn: Turn, usage: str, now: int, withheld: str) -> bool:
        store, lane = self.deps.store, self.session.id
        if not self._compacting:
            done = await store.write(turns.finish, turn.id, turn.epoch, usage, now, withheld, lane=lane)
            has_lines = turn.epoch > 1 or self._statuses.shown_in == (turn.id, turn.epoch)  # perhaps of an earlier try
            if done and has_lines:
                self.deps.events.room(turn.instance, turn.address)
            return done
        done = await store.write(compaction.finish_turn, self.deps.channels, turn, usage, now, lane=lane)
        if done:
            self.deps.events.room(turn.instance, turn.address)
            self._port.end_after_turn("its conversation was made shorter")
        return done

    def end_turn(self) -> None:
        self.draft.end()
        if self.turn is not None:
            self.deps.typing.stop(self.turn.instance, self.turn.address, self.turn.thread)
            self.deps.events.change(self.turn.instance, self.turn.address)
        self.turn, self.tool_timeout, self._fork_source = None, 0, ""
        if self.requests.is_used:
            self.requests.end_turn()
        if self.session.parent:
            self.deps.events.session(self.session.parent)  # it may have been told of this one's end
        self.time_up_at = None
        self.active_at = self.deps.listening.now()
        self._port.turn_ended()
