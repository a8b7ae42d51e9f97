"""What the runner sees of its inbound.db. A file that cannot be read now is looked at again; a broken one is told."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatepost.inside.link import Link
from gatepost.inside.prompt import Scene
from gatepost.mailbox import inbound, wire
from gatepost.mailbox.inbound import Corrupt, InRow, Locked
from gatepost.mailbox.outbound import Outbound, now

AGAIN = 0.05  # seconds between looks for rows that were given to us and are not there yet
PATIENCE = 200  # looks


class Seen(msgspec.Struct, frozen=True):
    waiting: tuple[InRow, ...] = ()
    observed: tuple[InRow, ...] = ()  # context that no batch has shown yet


class Mail:
    def __init__(self, path: Path, box: Outbound, link: Link, welcome: wire.Welcome) -> None:
        self._path, self._box, self._link, self._welcome = path, box, link, welcome
        self._told = ""
        self.seen = Seen()  # the last look; rows do not change, so what it saw need not be read again

    def look(self) -> Seen:
        """What waits for us. Nothing, if the file cannot be read: there will be another bell, or the next look."""
        try:
            rows = inbound.pending(self._path)
        except Locked:
            return Seen()
        except Corrupt as error:
            self._tell(str(error))
            return Seen()
        self._told = ""
        shown = self._box.marked("completed")
        fresh = [row for row in rows if row.id not in shown]
        self.seen = Seen(tuple(row for row in fresh if row.trigger), tuple(row for row in fresh if not row.trigger))
        return self.seen

    async def read(self, ids: Sequence[int]) -> list[InRow]:
        """Rows that the host gave us. Fewer than asked for only after long patience."""
        found = [row for row in self.seen.waiting if row.id in ids]
        if len(found) == len(set(ids)):
            return found
        for attempt in range(PATIENCE):
            try:
                found = inbound.rows(self._path, ids)
            except Locked:
                pass
            except Corrupt as error:
                self._tell(str(error))
            if len(found) == len(set(ids)):
                return found
            if attempt == 10:
                self._tell(f"rows {sorted(set(ids) - {row.id for row in found})} were given and are not there")
            await asyncio.sleep(AGAIN)
        return found

    def scene(self) -> Scene:
        destinations = self._destinations() if self._welcome.spans_rooms else ()
        return Scene(
            now=now(),
            timezone=self._welcome.timezone,
            files=str(self._path.parent / "files"),
            spans_rooms=self._welcome.spans_rooms,
            destinations=destinations,
        )

    def names(self) -> list[str]:
        """Where the agent may send to."""
        return [destination.name for destination in self._destinations()]

    def tidy(self) -> None:
        """Drop notes on rows that the host has taken out of the file."""
        try:
            there = [row.id for row in inbound.pending(self._path)]
        except (Locked, Corrupt):
            return
        self._box.forget_marks("completed", but=there)
        self._box.forget_marks("failed", but=there)

    def _destinations(self) -> tuple[inbound.Destination, ...]:
        try:
            return tuple(inbound.destinations(self._path))
        except (Locked, Corrupt):
            return ()

    def _tell(self, why: str) -> None:
        if why != self._told:
            self._told = why
            self._link.tell(wire.Trouble(what="inbound", why=why[: wire.LONGEST_TROUBLE]))
