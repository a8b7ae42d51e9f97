"""The runner's view of its inbound.db, and the bell that says when to look.

A file that cannot be read now is looked at again; a broken one is told.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatepost.inside.gateway_socket import GatewaySocket
from gatepost.inside.prompts.prompt import PromptContext
from gatepost.mailbox import inbound, runner_frames
from gatepost.mailbox.inbound import InboundRow, MailboxCorrupt, MailboxLocked
from gatepost.mailbox.outbound import OutboundDb, now

AGAIN = 0.05  # seconds between looks for rows that were given to us and are not there yet
PATIENCE = 200  # looks
POLL_S = 2.0


class InboxSnapshot(msgspec.Struct, frozen=True):
    waiting: tuple[InboundRow, ...] = ()
    observed: tuple[InboundRow, ...] = ()  # context that no batch has shown yet


class InboxReader:
    def __init__(self, path: Path, box: OutboundDb, link: GatewaySocket, welcome: runner_frames.WelcomeFrame) -> None:
        self._path, self._box, self._link, self._welcome = path, box, link, welcome
        self._reported = ""
        self.seen = InboxSnapshot()  # the last look; rows do not change, so what it saw need not be read again

    def refresh(self) -> InboxSnapshot:
        """Return what waits for us. Nothing, if the file cannot be read: there will be another bell, or the next
        look."""
        try:
            rows = inbound.list_pending(self._path)
        except MailboxLocked:
            return InboxSnapshot()
        except MailboxCorrupt as error:
            self._report(str(error))
            return InboxSnapshot()
        self._reported = ""
        shown = self._box.list_marked("completed")
        fresh = [row for row in rows if row.id not in shown]
        self.seen = InboxSnapshot(
            tuple(row for row in fresh if row.trigger), tuple(row for row in fresh if not row.trigger)
        )
        return self.seen

    async def read(self, ids: Sequence[int]) -> list[InboundRow]:
        """Rows that the host gave us. Fewer than asked for only after long patience."""
        found = [row for row in self.seen.waiting if row.id in ids]
        if len(found) == len(set(ids)):
            return found
        for attempt in range(PATIENCE):
            try:
                found = inbound.list_rows(self._path, ids)
            except MailboxLocked:
                pass
            except MailboxCorrupt as error:
                self._report(str(error))
            if len(found) == len(set(ids)):
                return found
            if attempt == 10:
                self._report(f"rows {sorted(set(ids) - {row.id for row in found})} were given and are not there")
            await asyncio.sleep(AGAIN)
        return found

    def get_prompt_context(self, *, begins: bool = False, forked: bool = False) -> PromptContext:
        """`begins`: the provider has no conversation here yet. `forked`: it goes on in a copy of another one."""
        destinations = self._destinations() if self._welcome.spans_rooms else ()
        return PromptContext(
            now=now(),
            timezone=self._welcome.timezone,
            files=str(self._path.parent / "files"),
            spans_rooms=self._welcome.spans_rooms,
            destinations=destinations,
            pinned=self._welcome.pinned,
            summary=self._welcome.summary if begins else "",
            transcript=tuple(self._welcome.transcript) if begins else (),
            forked=forked,
            kept=_list_kept(self._path.parent / "files") if begins else (),
        )

    def names(self) -> list[str]:
        """Return where the agent may send to."""
        return [destination.name for destination in self._destinations()]

    def remove_stale_marks(self) -> None:
        """Drop notes on rows that the host has taken out of the file."""
        try:
            there = [row.id for row in inbound.list_pending(self._path)]
        except (MailboxLocked, MailboxCorrupt):
            return
        self._box.remove_marks("completed", but=there)
        self._box.remove_marks("failed", but=there)

    def _destinations(self) -> tuple[inbound.MailboxDestination, ...]:
        try:
            return tuple(inbound.list_destinations(self._path))
        except (MailboxLocked, MailboxCorrupt):
            return ()

    def _report(self, why: str) -> None:
        if why != self._reported:
            self._reported = why
            self._link.send(runner_frames.ErrorFrame(what="inbound", why=why[: runner_frames.LONGEST_TROUBLE]))


class WakeEvent:
    """The runner's own bell: rung by the host, or by ourselves.

    Waiting has a poll behind it, so a lost ring costs time and no message.
    """

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def ring(self) -> None:
        self._woken.set()

    async def wait(self, seconds: float = POLL_S) -> bool:
        """Return True if it was rung, rather than that we looked by ourselves."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True


def _list_kept(folder: Path) -> tuple[str, ...]:
    """The files of the conversation, by row and name, the newest first."""
    try:
        rows = sorted((each for each in os.listdir(folder) if each.isdecimal()), key=int, reverse=True)
        return tuple(f"{row}/{name}" for row in rows for name in sorted(os.listdir(folder / row)))
    except OSError:
        return ()
