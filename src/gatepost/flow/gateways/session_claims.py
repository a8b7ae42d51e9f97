"""Which gateway runs a session. One by itself runs all of them, and writes nothing about it."""

from typing import Protocol

from gatepost.store import gateways
from gatepost.store.port import Store
from gatepost.store.sessions import Session


class SessionClaims(Protocol):
    async def claim(self, session_id: str) -> bool:
        """Before it is woken. False: another gateway runs it."""
        ...

    async def release(self, session_id: str) -> None:
        """It sleeps: any gateway may wake it."""
        ...

    def is_elsewhere(self, session: Session) -> bool: ...


class SoleGateway:
    async def claim(self, session_id: str) -> bool:
        return True

    async def release(self, session_id: str) -> None:
        return

    def is_elsewhere(self, session: Session) -> bool:
        return False


class StoredClaims:
    def __init__(self, store: Store, gateway: str) -> None:
        self._store, self._gateway = store, gateway

    async def claim(self, session_id: str) -> bool:
        return await self._store.write(gateways.claim_session, session_id, self._gateway, lane=session_id)

    async def release(self, session_id: str) -> None:
        await self._store.write(gateways.release_session, session_id, self._gateway, durable=False, lane=session_id)

    def is_elsewhere(self, session: Session) -> bool:
        return session.owner not in ("", self._gateway)
