"""One turn inside: rows to the provider, its events to the host, follow-ups pushed meanwhile, `submit_turn` at the end.

Rows count as given (Begun, answered) right before the provider has them, and are not sent in again. Between the two a
runner can die, so our own file marks them `begun` before and `processing` after. The next runner names the rows that
stayed `begun` with its claim. It shows those again that the host then gives it: the conversation may not hold them. A
result is in outbound.db before it is posted. Results are posted without waiting for each answer. But the turn is not
submitted, and no tool is used, before all are answered: an agent's acts must not overtake its words.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gatepost.inside import timeline_events
from gatepost.inside.drafts import DraftSender
from gatepost.inside.gateway_socket import GatewaySocket
from gatepost.inside.inbox_reader import InboxReader, WakeEvent
from gatepost.inside.prompts import output_parser, prompt
from gatepost.inside.provider_errors import ProviderError
from gatepost.inside.providers import contract
from gatepost.inside.providers.contract import Batch, Item, ItemKind, Provider
from gatepost.mailbox import runner_frames
from gatepost.mailbox.inbound import InboundRow
from gatepost.mailbox.outbound import OutboundDb, OutboundRow
from gatepost.mailbox.runner_frames import TurnErrorClass

if TYPE_CHECKING:
    from gatepost.inside.task_script import ScriptOutcome
    from gatepost.inside.transcribe import AttachmentTranscriber

ANNOUNCED_S = 1.0  # how long a call waits for the provider's announcement of it


class ProviderInput(msgspec.Struct, frozen=True):
    """The input that the provider gets in one piece. `given`: the host knows already that it does."""

    batch: Batch
    rows: tuple[int, ...] = ()
    observed: tuple[int, ...] = ()
    given: bool = False


class ToolUseTracker:
    """Uses of tools that the provider has announced and not ended, matched with the calls that the host sees."""

    def __init__(self) -> None:
        self._free: dict[str, str] = {}  # tools by their use, as long as no call was matched with it
        self._waiting: dict[asyncio.Future[None], str] = {}

    def announce(self, use: str, tool: str) -> None:
        for future, wanted in self._waiting.items():
            if wanted == tool and not future.done():
                future.set_result(None)
                return
        self._free[use] = tool

    def end(self, use: str) -> None:
        self._free.pop(use, None)

    async def match(self, tool: str, wait: float) -> bool:
        """Return True if a call of that tool was announced, now or within so many seconds."""
        for use, announced in self._free.items():
            if announced == tool:
                del self._free[use]
                return True
        if not wait:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = tool
        try:
            async with asyncio.timeout(wait):
                await future
        except TimeoutError:
            return False
        finally:
            del self._waiting[future]
        return True


class RunnerTurn:
    def __init__(
        self,
        claimed: runner_frames.ClaimReplyFrame,
        *,
        link: GatewaySocket,
        mail: InboxReader,
        box: OutboundDb,
        bell: WakeEvent,
        provider: Provider,
        transcriber: "AttachmentTranscriber | None" = None,
        folder: Path | None = None,
        drafts: DraftSender | None = None,
    ) -> None:
        self.id, self.epoch, self.attempt = claimed.turn, claimed.epoch, claimed.attempt
        self.continued, self._begun = claimed.continued, claimed.begun
        self.conversation, self._forks = claimed.conversation, claimed.fork
        self._running: dict[str, tuple[float, str]] = {}  # tools by their use: patience, name
        self._uses = ToolUseTracker()
        self.asked: dict[str, str] = {}  # what a request is called outside: what its provider calls it
        self._link, self._mail, self._box, self._bell, self._provider = link, mail, box, bell, provider
        self._takes_pushes, self._transcriber = provider.takes_pushes, transcriber
        self._drafts = drafts or DraftSender(link.send)
        self._drafts.begin(self.id, self.epoch)
        self._folder = folder or Path.cwd()  # where scripts of tasks run
        self._script: asyncio.Task[ScriptOutcome] | None = None
        self._parts: deque[ProviderInput] = deque()
        self._open = False  # a query runs and may take more
        self._handing = asyncio.Lock()  # from the claim of a follow-up to its push: one thing
        self._mine: set[int] = set()
        self._given: list[int] = []
        self._finished: list[int] = []  # of the given: those whose query ended with a result
        self._part = 0
        self._said: set[output_parser.AddressedText] = set()
        self._withheld = ""  # why the last thing that it wrote was not said
        self._posted: list[
            tuple[OutboundRow, asyncio.Future[runner_frames.AckFrame | runner_frames.ClaimReplyFrame]]
        ] = []
        self._refused: dict[str, str] = {}  # by name: why the host did not take what was addressed there
        self._corrected = False
        self._usage: dict[str, Any] = {}
        self._failed: contract.TurnFailed | None = None
        self._stale = ""  # why the host does not believe us any more
        self._interrupting: asyncio.Task[None] | None = None

    async def run(self, rows: Sequence[InboundRow]) -> None:
        self._mine.update(row.id for row in rows)
        # With a claim that is given at once nobody else says that the provider has not had them yet.
        self._box.mark(self._mine, "begun" if self._begun else "processing")
        rows = await self._run_scripts(await self._transcribe(rows))
        if self._forks:
            await self._fork()
        self._parts.extend(self._split_commands(rows))
        if self._begun:  # with the claim: the host knows that the provider gets all of it now
            self._given += [row.id for row in rows]
            self._parts = deque(msgspec.structs.replace(part, given=True) for part in self._parts)
        while self._parts and self._failed is None and not self._stale:
            await self._give(self._parts.popleft())
        await self.submit(self._failed)

    @property
    def tool(self) -> tuple[float, str]:
        """Return the longest patience among the tools that run now, in seconds, and the name of that tool."""
        patience, name = max(self._running.values(), default=(0.0, ""))
        return _within(patience), name[: runner_frames.LONGEST_NAME]

    async def interrupt(self) -> None:
        """End it now; the provider says how it ended, unless it has not begun or not seen all."""
        if self._script is not None:
            self._script.cancel()
        if self._parts or not self._open:
            self._failed = self._failed or contract.TurnFailed("interrupted")
        await self._provider.interrupt()

    async def warn(self, seconds: float) -> None:
        """There is little time left: a word to an agent that can take one. It gets no query of its own."""
        text = prompt.render_time_left(seconds)
        item = Item(row=0, seq=0, kind=ItemKind.SYSTEM, sender="", text=text, content={"event": "time"})
        async with self._handing:
            if self._open and self._takes_pushes:
                with suppress(NotImplementedError):  # it takes none any more
                    await self._provider.push(
                        Batch(turn=self.id, prompt=prompt.render_note("time", text), items=(item,))
                    )

    async def submit(self, failed: contract.TurnFailed | None) -> None:
        """The last word on this turn. For one that is not believed any more it changes nothing, or ends it."""
        if self._interrupting is not None:
            await self._interrupting
        if self._stale:
            failed = contract.TurnFailed(f"stopped: {self._stale}")
        frame = runner_frames.SubmitTurnFrame(
            id=self._link.number(),
            turn=self.id,
            epoch=self.epoch,
            status="error" if failed else "success",
            conversation=self.conversation,
            usage=timeline_events.plain_numbers(self._usage),
            withheld=self._withheld,
        )
        if failed is not None:
            frame.error, frame.error_class = (
                failed.message[: runner_frames.LONGEST_ERROR],
                failed.kind[: runner_frames.LONGEST_NAME],
            )
            frame.retry_after = None if failed.retry_after is None else _within(failed.retry_after)
            frame.finished = self._finished[-runner_frames.MOST_ROWS :]
        if (await self._link.ask(frame)).ok:
            self._box.mark(self._given, "failed" if failed else "completed")
        self._box.remove_marks("processing")
        self._box.remove_marks("begun")
        self._box.prune()

    # Into the provider.

    async def _run_scripts(self, rows: Sequence[InboundRow]) -> Sequence[InboundRow]:
        """With what the script of a task found out. Nothing, if the provider is not to be asked, or it failed: the host
        knows then that these rows are done with."""
        found: list[InboundRow] = []
        for row in rows:
            script = row.content.get("script") if row.kind == ItemKind.TASK else None
            if not isinstance(script, str) or not script:
                found.append(row)
                continue
            outcome = await self._run_script(script)
            if outcome.error:
                self._failed = contract.TurnFailed(f"the task's script failed: {outcome.error}", TurnErrorClass.FATAL)
            if outcome.error or not outcome.wake:
                ids = tuple(each.id for each in rows)
                await self._begin(ProviderInput(Batch(turn=self.id, prompt="", items=()), ids, given=self._begun))
                return ()
            found.append(msgspec.structs.replace(row, content={**row.content, "scriptOutput": outcome.data}))
        return found

    async def _run_script(self, script: str) -> "ScriptOutcome":
        from gatepost.inside.task_script import ScriptOutcome, run_script  # costs a runner without one nothing

        self._script = asyncio.create_task(run_script(script, self._folder))
        await asyncio.wait([self._script])
        return ScriptOutcome(error="it was interrupted") if self._script.cancelled() else self._script.result()

    async def _fork(self) -> None:
        """Without a fork the turn goes on in the copy itself, which is this session's own as well."""
        with suppress(NotImplementedError, OSError, ProviderError, contract.Misconfigured):
            self.conversation = await self._provider.fork(self.conversation)

    async def _transcribe(self, rows: Sequence[InboundRow]) -> Sequence[InboundRow]:
        return rows if self._transcriber is None else await self._transcriber.transcribe(rows)

    def _split_commands(self, rows: Sequence[InboundRow]) -> list[ProviderInput]:
        """A slash command is the first and only input of a query, as it was typed; what stands around it goes apart."""
        parts: list[ProviderInput] = []
        plain: list[InboundRow] = []
        for row in rows:
            if command := prompt.command_of(row):
                if plain:
                    parts.append(self._render(plain))
                parts.append(ProviderInput(self._batch(command, [row]), (row.id,)))
                plain = []
            else:
                plain.append(row)
        return [*parts, self._render(plain)] if plain else parts

    def _render(self, rows: Sequence[InboundRow]) -> ProviderInput:
        observed = [row for row in self._mail.seen.observed if row.id not in self._mine]
        self._mine.update(row.id for row in observed)
        text = prompt.render(rows, self._get_context(), observed)
        return ProviderInput(self._batch(text, rows), tuple(row.id for row in rows), tuple(row.id for row in observed))

    def _get_context(self) -> prompt.PromptContext:
        forked, self._forks = self._forks, False  # said once
        return self._mail.get_prompt_context(begins=not self.conversation, forked=forked)

    def _batch(self, text: str, rows: Sequence[InboundRow]) -> Batch:
        items = tuple(prompt.item_of(row) for row in rows)
        return Batch(turn=self.id, prompt=text, items=items, continued=self.continued)

    async def _begin(self, part: ProviderInput) -> bool:
        """Return True if the provider may have it now."""
        if part.rows and not part.given:
            self._box.mark(part.rows, "begun")
            for start in range(0, len(part.rows), runner_frames.MOST_ROWS):
                rows = list(part.rows[start : start + runner_frames.MOST_ROWS])
                frame = runner_frames.RowsBegunFrame(id=self._link.number(), turn=self.id, epoch=self.epoch, rows=rows)
                done = await self._link.ask(frame)
                if not done.ok:
                    self._stale = done.error or "not begun"
                    return False
            self._given += part.rows
        self._box.mark(part.observed, "completed")
        return True

    async def _give(self, part: ProviderInput) -> None:
        if not await self._begin(part) or self._failed is not None:
            return
        await self._query(part)
        await self._settle()
        if (correction := self._correction()) is not None:
            self._parts.appendleft(correction)

    async def _query(self, part: ProviderInput) -> None:
        self._open = True
        # What stands behind this part comes before anything newer.
        following = asyncio.create_task(self._follow()) if self._takes_pushes and not self._parts else None
        had = ended = False
        events = self._provider.query(part.batch, self.conversation)
        try:
            async for event in events:
                ended = self._handle_event(event)
                if not had:
                    self._box.mark(part.rows, "processing")
                    had = True
                await self._link.flush()
                if isinstance(event, contract.ToolUse):  # its call is made when we go on, or was made outside already
                    await self._wait_posted()
                if ended:
                    break
        finally:
            self._open = False
            await _end(events)
            if following is not None:
                async with self._handing:
                    following.cancel()
                await asyncio.wait([following])
        if following is not None and not following.cancelled():
            following.result()
        if not ended:
            self._failed = contract.TurnFailed("the provider ended without a result")
        elif self._failed is None:
            left = {row for part in self._parts for row in part.rows}
            self._finished = [row for row in self._given if row not in left]

    async def _follow(self) -> None:
        """Push what arrives while the query runs, until a command waits: that one needs a query of its own."""
        while True:
            rang = await self._bell.wait()
            async with self._handing:
                if (correction := self._correction()) is not None:
                    await self._push(correction)
                if not await self._claim_follow_ups(rang):
                    return

    async def _claim_follow_ups(self, rang: bool) -> bool:
        """Claim follow-ups and hand them over. False: the stream of this query has ended."""
        waiting = [row for row in self._mail.refresh().waiting if row.id not in self._mine]
        free = list(takewhile(lambda row: not prompt.command_of(row), waiting))
        if len(free) == len(waiting) and not free and not rang:
            return True
        if free or not waiting:
            ids = [row.id for row in free[: runner_frames.MOST_ROWS]]
            frame = runner_frames.ClaimFrame(id=self._link.number(), rows=ids, turn=self.id, epoch=self.epoch)
            claimed = await self._link.claim(frame)
            rows = await self._mail.read(claimed.rows) if claimed.rows else []
            rows = list(takewhile(lambda row: not prompt.command_of(row), rows))
            if rows:
                self._mine.update(row.id for row in rows)
                self._box.mark([row.id for row in rows], "processing")
                await self._push(self._render(await self._transcribe(rows)))
        return len(free) == len(waiting)

    async def _push(self, part: ProviderInput) -> None:
        """Give it to the running query, or to a new one if that has just ended."""
        if not await self._begin(part):
            self._stop(self._stale)
            return
        if self._open:
            try:
                await self._provider.push(part.batch)
                self._box.mark(part.rows, "processing")
                return
            except NotImplementedError:  # it takes none any more
                pass
        self._parts.append(ProviderInput(part.batch, part.rows, part.observed, given=True))

    # Out of the provider.

    def _handle_event(self, event: contract.Event) -> bool:
        """Pass one event on. True: it was the last one."""
        match event:
            case contract.ConversationStarted(conversation) if len(conversation) > runner_frames.LONGEST_CONVERSATION:
                why = f"it names its conversation by {len(conversation)} characters; it will not be continued"
                self._link.send(runner_frames.ErrorFrame(what="provider", why=why))
            case contract.ConversationStarted(conversation):
                self.conversation = conversation
                self._link.send(
                    runner_frames.ConversationStartedFrame(turn=self.id, epoch=self.epoch, conversation=conversation)
                )
            case contract.DraftText(text):
                self._drafts.write(text)
            case contract.Text(text, in_reply_to):
                self._send_text(text, in_reply_to)
            case contract.StatusLine(text):
                self._drafts.end(sent=False)
                self._status(text)
            case contract.TurnResult(text, in_reply_to):
                self._open = False
                self._send_text(text, in_reply_to, final=True)
                return True
            case contract.TurnFailed():
                self._open = False
                self._drafts.end(sent=True)  # the host decides whether what people saw stays
                self._failed = event
                return True
            case _:
                self._note(event)
        return False

    def _note(
        self,
        event: timeline_events.TimelineSource,
    ) -> None:
        """Record an event that only the timeline needs, and keep track of running tools."""
        match event:
            case contract.ToolUse(key, tool, _, timeout):
                self._drafts.end(sent=False)
                self._uses.announce(key, tool)
                self._running[key] = (timeout, tool)
                self._box.tool(tool, timeout)
            case contract.ToolResult(key):
                self._uses.end(key)
                self._running.pop(key, None)
                timeout, tool = self.tool
                self._box.tool(tool, timeout)
            case contract.UsageReport(numbers):
                self._usage = {**self._usage, **numbers}
            case _:
                pass
        kind, data = timeline_events.describe(event)
        if isinstance(event, contract.PermissionRequest | contract.Question):
            self.asked[data["id"]] = event.id
        self._link.send(runner_frames.EventFrame(turn=self.id, kind=kind, data=data))

    def _status(self, text: str) -> None:
        self._link.send(
            runner_frames.StatusFrame(turn=self.id, epoch=self.epoch, text=text[: runner_frames.LONGEST_STATUS])
        )

    def _send_text(self, text: str, in_reply_to: int | None, *, final: bool = False) -> None:
        out, before = output_parser.parse_output(text), self._part
        if text.strip() or not self._withheld:  # an empty end says nothing of what stood before it
            self._withheld = out.withheld
        for status in out.statuses:
            self._status(status)
        for piece in out.pieces:
            if final and piece in self._said:
                continue  # agents like to end with what they said last
            self._said.add(piece)
            for chunk in output_parser.split_text(piece.text):
                self._post(chunk, piece.to[: runner_frames.LONGEST_NAME], in_reply_to if not piece.to else None)
        self._drafts.end(sent=self._part > before)

    def _post(self, text: str, to: str, in_reply_to: int | None) -> None:
        self._part += 1
        row = OutboundRow(
            turn=self.id,
            epoch=self.epoch,
            attempt=self.attempt,
            part=self._part,
            text=text,
            to=to,
            in_reply_to=in_reply_to,
        )
        self._box.add(row)
        future = self._link.post(result_frame(self._link, row))
        future.add_done_callback(lambda answer: self._answered(row, answer))
        self._posted.append((row, future))

    def _answered(
        self, row: OutboundRow, answer: asyncio.Future[runner_frames.AckFrame | runner_frames.ClaimReplyFrame]
    ) -> None:
        if answer.cancelled() or answer.exception() is not None:
            return
        done = answer.result()
        if not isinstance(done, runner_frames.AckFrame) or (done.ok and not done.error):
            return
        if row.to:  # a name that means nothing, or is not permitted; the rest of the turn is well
            self._refused[row.to] = done.error
            self._bell.ring()
        elif not done.ok:
            self._stop(done.error or "not taken")

    def _stop(self, why: str) -> None:
        """Not believed: somebody else has this turn by now, or nobody shall."""
        self._stale = why
        if self._interrupting is None:
            self._interrupting = asyncio.create_task(self.interrupt())

    async def flush(self, tool: str, wait: bool) -> bool:
        """Send out everything that the agent said before its call of a tool. Return True if that is certain."""
        announced = getattr(self._provider, "announces_calls", True)
        return await self._uses.match(tool, ANNOUNCED_S if wait and announced else 0.0)

    async def _wait_posted(self) -> None:
        """Wait until the host has what was said so far."""
        if waiting := [future for _, future in self._posted if not future.done()]:
            await asyncio.wait(waiting)

    async def _settle(self) -> None:
        """Wait until the host has every result."""
        posted, self._posted = self._posted, []
        await asyncio.gather(*(future for _, future in posted))
        self._box.mark_acked(row.id for row, _ in posted)

    def _correction(self) -> ProviderInput | None:
        """Once a turn: a word to the agent that a name it used is none, or that what it said there did not go, if it
        can be told."""
        if not self._refused or self._corrected or not self._takes_pushes:
            return None
        self._corrected = True
        known = self._mail.names()
        strange = ", ".join(f'"{name}"' for name in self._refused if name not in known)
        notes = [f'Not delivered to "{name}": {why}.' for name, why in self._refused.items() if name in known]
        if strange:
            yours = ", ".join(known) or "no names at all"
            notes.append(f"Not delivered: {strange} is no destination of yours. You may send to: {yours}.")
        text = " ".join([*notes, "Text outside of a message block goes to the room of this turn."])
        item = Item(row=0, seq=0, kind=ItemKind.SYSTEM, sender="", text=text, content={"event": "undelivered"})
        return ProviderInput(Batch(turn=self.id, prompt=prompt.render_note("undelivered", text), items=(item,)))


def result_frame(link: GatewaySocket, row: OutboundRow) -> runner_frames.ResultFrame:
    return runner_frames.ResultFrame(
        id=link.number(),
        turn=row.turn,
        epoch=row.epoch,
        attempt=row.attempt,
        part=row.part,
        text=row.text,
        to=row.to,
        in_reply_to=row.in_reply_to,
    )


def _within(seconds: float) -> float:
    """A provider's word on how long something takes, as a frame can hold it."""
    return min(seconds, float(runner_frames.LONGEST_WAIT_S)) if seconds > 0 else 0.0


async def _end(events: object) -> None:
    """Leave a generator that may still stand at its last event."""
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()
