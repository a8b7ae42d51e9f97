"""Bells: who is told that there is something to look at. A ring carries no content; who hears it looks in the store.

Lost rings cost time, never a message: everybody who listens also looks every few seconds.
"""

from collections.abc import Callable


class EventBus:
    def __init__(self) -> None:
        self._sessions: list[Callable[[str], None]] = []
        self._rooms: list[Callable[[str, str], None]] = []
        self._changes: list[Callable[[str, str], None]] = []
        self._channels: list[Callable[[str], None]] = []
        self._tools: list[Callable[[str | None], None]] = []
        self._groups: list[Callable[[str], None]] = []
        self._requests: list[Callable[[], None]] = []
        self._newcomers: list[Callable[[], None]] = []
        self._tasks: list[Callable[[], None]] = []
        self._errands: list[Callable[[], None]] = []
        self._operations: list[Callable[[], None]] = []
        self._logins: list[Callable[[], None]] = []

    def on_session(self, hear: Callable[[str], None]) -> None:
        self._sessions.append(hear)

    def on_room(self, hear: Callable[[str, str], None]) -> None:
        self._rooms.append(hear)

    def on_change(self, hear: Callable[[str, str], None]) -> None:
        self._changes.append(hear)

    def on_channel(self, hear: Callable[[str], None]) -> None:
        self._channels.append(hear)

    def on_tools(self, hear: Callable[[str | None], None]) -> None:
        self._tools.append(hear)

    def on_group(self, hear: Callable[[str], None]) -> None:
        self._groups.append(hear)

    def on_requests(self, hear: Callable[[], None]) -> None:
        self._requests.append(hear)

    def on_newcomers(self, hear: Callable[[], None]) -> None:
        self._newcomers.append(hear)

    def on_tasks(self, hear: Callable[[], None]) -> None:
        self._tasks.append(hear)

    def on_errands(self, hear: Callable[[], None]) -> None:
        self._errands.append(hear)

    def on_operation(self, hear: Callable[[], None]) -> None:
        self._operations.append(hear)

    def on_logins(self, hear: Callable[[], None]) -> None:
        self._logins.append(hear)

    def session(self, session_id: str) -> None:
        """A session has something queued."""
        for hear in self._sessions:
            hear(session_id)

    def room(self, instance: str, address: str) -> None:
        """A room has something to go out."""
        for hear in self._rooms:
            hear(instance, address)

    def change(self, instance: str, address: str) -> None:
        """What became of a message of this room has changed: whoever shows it may look again."""
        for hear in self._changes:
            hear(instance, address)

    def channel(self, instance: str) -> None:
        """The state of a channel has changed: whoever shows it may look again."""
        for hear in self._channels:
            hear(instance)

    def tools(self, folder: str | None = None) -> None:
        """What a group may call has changed (None: any group's)."""
        for hear in self._tools:
            hear(folder)

    def group(self, folder: str) -> None:
        """How a group runs has changed: what runs by the old word should make way."""
        for hear in self._groups:
            hear(folder)

    def requests(self) -> None:
        """Something waits for a person, or was decided."""
        for hear in self._requests:
            hear()

    def newcomers(self) -> None:
        """Somebody was let in and gets a group of her own."""
        for hear in self._newcomers:
            hear()

    def tasks(self) -> None:
        """A task was added or changed: another may be due next."""
        for hear in self._tasks:
            hear()

    def errands(self) -> None:
        """Work that one agent gave to another may be over, or was ended."""
        for hear in self._errands:
            hear()

    def operation(self) -> None:
        """Somebody who may has changed something: whoever shows it may look again."""
        for hear in self._operations:
            hear()

    def logins(self) -> None:
        """A browser was signed out: what it has open must end."""
        for hear in self._logins:
            hear()
