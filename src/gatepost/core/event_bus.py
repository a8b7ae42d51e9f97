"""Bells, which tell their listeners that there is something to look at. A ring carries no content: listeners read the
store.

Lost rings cost time, never a message: everybody who listens also looks every few seconds. Changes ring with every
message, so listeners name the instance or the rooms that they look at. If several gateways share a store, `on_any`
passes on what is rung here, and `receive` rings what was rung elsewhere.
"""

from collections.abc import Callable, Iterable, Set
from enum import StrEnum


class Bell(StrEnum):
    SESSION = "session"  # has something queued
    ROOM = "room"  # has something to go out
    CHANGE = "change"  # what became of a message of a room has changed: whoever shows it may look again
    CHANNEL = "channel"  # the state of one has changed
    TOOLS = "tools"  # what a group may call has changed
    GROUP = "group"  # how one runs has changed: what runs by the old word should make way
    REQUESTS = "requests"  # something waits for a person, or was decided
    NEWCOMERS = "newcomers"  # somebody was let in and gets a group of their own
    TASKS = "tasks"  # one was added or changed: another may be due next
    ERRANDS = "errands"  # work that one agent gave to another may be over, or was ended
    OPERATION = "operation"  # somebody who may has changed something
    LOGINS = "logins"  # a browser was signed out: what it has open must end
    COMMANDS = "commands"  # a gateway is to do something for another, or has its answer
    GATEWAYS = "gateways"  # one has given up something that another may take


class EventBus:
    def __init__(self) -> None:
        self._heard: dict[Bell, list[Callable[..., None]]] = {bell: [] for bell in Bell}
        self._of_instance: dict[str, list[Callable[[str, str], None]]] = {}  # of changes
        self._of_rooms: dict[Callable[[str, str], None], Set[tuple[str, str]]] = {}  # of changes
        self._relays: list[Callable[..., None]] = []

    def on_any(self, relay: Callable[..., None]) -> None:
        """Be told (bell, *what) of everything that is rung here."""
        self._relays.append(relay)

    def receive(self, bell: Bell, *what: str) -> None:
        """Ring what was rung elsewhere."""
        self._ring(bell, *what, relays=())

    def _ring(self, bell: Bell, *what: str, relays: Iterable[Callable[..., None]] | None = None) -> None:
        for hear in self._heard[bell]:
            hear(*(what or ((None,) if bell is Bell.TOOLS else ())))
        if bell is Bell.CHANGE:
            for hear in (
                *self._of_instance.get(what[0], ()),
                *(hear for hear, rooms in self._of_rooms.items() if what in rooms),
            ):
                hear(*what)
        for relay in self._relays if relays is None else relays:
            relay(bell, *what)

    def on_session(self, hear: Callable[[str], None]) -> None:
        self._heard[Bell.SESSION].append(hear)

    def on_room(self, hear: Callable[[str, str], None]) -> None:
        self._heard[Bell.ROOM].append(hear)

    def on_change(self, hear: Callable[[str, str], None], instance: str | None = None) -> None:
        """`instance`: its rooms alone; None for all."""
        known = self._heard[Bell.CHANGE] if instance is None else self._of_instance.setdefault(instance, [])
        known.append(hear)

    def set_rooms(self, hear: Callable[[str, str], None], rooms: Set[tuple[str, str]]) -> None:
        """Have changes of these rooms told, and of no others that were named for the same listener before."""
        self._of_rooms.pop(hear, None)
        if rooms:
            self._of_rooms[hear] = rooms

    def on_channel(self, hear: Callable[[str], None]) -> None:
        self._heard[Bell.CHANNEL].append(hear)

    def on_tools(self, hear: Callable[[str | None], None]) -> None:
        self._heard[Bell.TOOLS].append(hear)

    def on_group(self, hear: Callable[[str], None]) -> None:
        self._heard[Bell.GROUP].append(hear)

    def on_requests(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.REQUESTS].append(hear)

    def on_newcomers(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.NEWCOMERS].append(hear)

    def on_tasks(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.TASKS].append(hear)

    def on_errands(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.ERRANDS].append(hear)

    def on_operation(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.OPERATION].append(hear)

    def on_logins(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.LOGINS].append(hear)

    def on_commands(self, hear: Callable[[str], None]) -> None:
        self._heard[Bell.COMMANDS].append(hear)

    def on_gateways(self, hear: Callable[[], None]) -> None:
        self._heard[Bell.GATEWAYS].append(hear)

    def session(self, session_id: str) -> None:
        self._ring(Bell.SESSION, session_id)

    def room(self, instance: str, address: str) -> None:
        self._ring(Bell.ROOM, instance, address)

    def change(self, instance: str, address: str) -> None:
        self._ring(Bell.CHANGE, instance, address)

    def channel(self, instance: str) -> None:
        self._ring(Bell.CHANNEL, instance)

    def tools(self, folder: str | None = None) -> None:
        """None: any group's."""
        self._ring(Bell.TOOLS, *(() if folder is None else (folder,)))

    def group(self, folder: str) -> None:
        self._ring(Bell.GROUP, folder)

    def requests(self) -> None:
        self._ring(Bell.REQUESTS)

    def newcomers(self) -> None:
        self._ring(Bell.NEWCOMERS)

    def tasks(self) -> None:
        self._ring(Bell.TASKS)

    def errands(self) -> None:
        self._ring(Bell.ERRANDS)

    def operation(self) -> None:
        self._ring(Bell.OPERATION)

    def logins(self) -> None:
        self._ring(Bell.LOGINS)

    def commands(self, gateway: str) -> None:
        self._ring(Bell.COMMANDS, gateway)

    def gateways(self) -> None:
        self._ring(Bell.GATEWAYS)
