"""The tools that a session is offered besides the core: those that its prompt names, and those that its agent found."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from gatepost.core.errors import Unavailable
from gatepost.store.port import Store
from gatepost.store.sessions import sessions
from gatepost.store.sessions.sessions import Session

MOST_UNLOCKED = 40  # of one session; beyond that, those that were found first leave its list


class UnlockedTools:
    """Kept with the session, so that they are there when its sandbox starts again."""

    def __init__(
        self, store: Store, session: Session, changed: Callable[[], None], named: Collection[str] = ()
    ) -> None:
        """`named`: tools that the session's prompt tells of. `changed` tells the session's clients."""
        self._store, self._session_id, self._changed = store, session.id, changed
        self._named = frozenset(named)
        self._found = tuple(session.unlocked.split())

    @property
    def names(self) -> Collection[str]:
        return self._named.union(self._found)

    async def unlock(self, names: Sequence[str]) -> None:
        if all(name in self._found or name in self._named for name in names):
            return
        self._found = (*(each for each in self._found if each not in names), *names)[-MOST_UNLOCKED:]
        try:
            with suppress(Unavailable):  # found again after a restart; now it is of use all the same
                await self._store.write(
                    sessions.set_unlocked_tools, self._session_id, self._found, lane=self._session_id
                )
        finally:
            self._changed()
