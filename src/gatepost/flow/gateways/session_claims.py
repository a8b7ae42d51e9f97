"""Which gateway runs a session. One by itself runs all of them, and writes nothing about it.

If folders are not shared, a group's sessions are run by the gateway that has its folder, and by no other.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from gatepost.core.clock import Clock
from gatepost.store.gateways import gateways, group_places
from gatepost.store.port import Db, Store
from gatepost.store.sessions.sessions import Session

YIELD_S = 0.2  # for which a message's session is left to the gateway that took the message in
DueSession = tuple[str, str, int]  # (session, folder, first due)


class SessionClaims(Protocol):
    gateway: str  # that claims; '': there is one
    yield_s: float  # for which a session that sleeps is left to the gateway that rang

    async def claim(self, session: Session) -> bool:
        """Before it is woken. False: another gateway runs it, or has its group's folder."""
        ...

    async def release(self, session_id: str) -> None:
        """It sleeps: any gateway may wake it that has its group's folder."""
        ...

    def is_run_elsewhere(self, session: Session) -> bool:
        """Return True if another gateway has it awake now."""
        ...

    async def is_elsewhere(self, session: Session) -> bool:
        """Return True if it is not to be woken here: another has it awake, or its group's folder."""
        ...

    async def list_here(self, due: list[DueSession]) -> list[DueSession]:
        """Those of them that this gateway may run, as far as their folders are concerned."""
        ...


class SoleGateway:
    gateway = ""
    yield_s = 0.0

    async def claim(self, session: Session) -> bool:
        return True

    async def release(self, session_id: str) -> None:
        return

    def is_run_elsewhere(self, session: Session) -> bool:
        return False

    async def is_elsewhere(self, session: Session) -> bool:
        return False

    async def list_here(self, due: list[DueSession]) -> list[DueSession]:
        return due


class StoredClaims:
    def __init__(self, store: Store, clock: Clock, gateway: str, has_files: Callable[[str], bool] | None) -> None:
        """`has_files`: whether those of a group's world are here; None: folders of groups are shared."""
        self._store, self._clock, self.gateway, self._has_files = store, clock, gateway, has_files
        self._local = local = has_files is not None
        self.yield_s = 0.0 if local else YIELD_S  # a folder that is here is nowhere else

    async def claim(self, session: Session) -> bool:
        folder = session.folder if self._local else ""
        found = await self._find_files(folder) if folder else True
        return await self._store.write(
            _claim, session.id, folder, found, self.gateway, self._clock.now(), lane=session.id
        )

    async def release(self, session_id: str) -> None:
        await self._store.write(gateways.release_session, session_id, self.gateway, durable=False, lane=session_id)

    def is_run_elsewhere(self, session: Session) -> bool:
        return session.owner not in ("", self.gateway)

    async def is_elsewhere(self, session: Session) -> bool:
        if self.is_run_elsewhere(session):
            return True
        if not self._local:
            return False
        runner = await self._store.read(group_places.find_runner, session.folder)
        return not await self._is_here(session.folder, runner)

    async def list_here(self, due: list[DueSession]) -> list[DueSession]:
        if not due or not self._local:
            return due
        places = await self._store.read(group_places.list_runners)
        worlds = {group_places.get_world(folder) for _, folder, _ in due}
        here = {world for world in worlds if await self._is_here(world, places.get(world, ""))}
        return [each for each in due if group_places.get_world(each[1]) in here]

    async def _is_here(self, folder: str, runner: str | None) -> bool:
        """Return True if this gateway runs the group. A group that no gateway has may be claimed only by the one that
        has its files."""
        return await self._find_files(folder) if runner == "" else runner == self.gateway

    async def _find_files(self, folder: str) -> bool:
        return self._has_files is None or await asyncio.to_thread(self._has_files, folder)


def _claim(db: Db, session_id: str, folder: str, found: bool, gateway: str, now: int) -> bool:
    """`folder`: that must lie here; '': it does anywhere. `found`: something of it is here."""
    if folder and not _may_run(db, folder, found, gateway, now):
        return False
    return gateways.claim_session(db, session_id, gateway)


def _may_run(db: Db, folder: str, found: bool, gateway: str, now: int) -> bool:
    runner = group_places.find_runner(db, folder)
    if runner == "":
        return found and group_places.claim(db, folder, gateway, now) == gateway
    return runner == gateway
