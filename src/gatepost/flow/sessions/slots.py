"""The order in which sessions are woken when more have work than there are places, and which make way. Pure
bookkeeping, no I/O.

People before schedules; groups take turns, and the one with the fewest places comes first; within a group, first come
first served. A group that wants more places takes them from the one that holds the most, itself included. It never
takes the last place at rest of a group that has fewer, unless nobody has used that for a while.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec import Struct

from gatepost.core.fair_queue import FairQueue


class IdleSession(Struct, frozen=True):
    """An awake session with nothing to do."""

    session_id: str
    idle: int  # for so many microseconds
    long: bool = False  # so long that its place is anybody's


@dataclass(slots=True)
class SessionSlots:
    most: int
    _awake: dict[str, str] = field(default_factory=dict)  # session: its group
    _people: FairQueue[str] = field(default_factory=FairQueue)
    _background: FairQueue[str] = field(default_factory=FairQueue)
    _awake_in_background: set[str] = field(default_factory=set)  # of those that hold a place

    def __contains__(self, session_id: str) -> bool:
        """Return True if it holds a place or waits for one."""
        return session_id in self._awake or session_id in self._people or session_id in self._background

    def has_place(self, session_id: str) -> bool:
        return session_id in self._awake

    @property
    def awake(self) -> int:
        return len(self._awake)

    @property
    def waiting(self) -> int:
        return len(self._people) + len(self._background)

    @property
    def free(self) -> int:
        """Places that nobody holds. Fewer than none after a setting was lowered."""
        return self.most - len(self._awake)

    @property
    def full(self) -> bool:
        return self.free <= 0

    @property
    def can_wake(self) -> bool:
        """Somebody waits, and there is a place."""
        return not self.full and bool(self._people or (self._background and self._background_places))

    @property
    def _background_places(self) -> int:
        """How many more schedules may take. Where there are several, one is left to people: a long run keeps nobody
        out."""
        return max(0, max(1, self.most - 1) - len(self._awake_in_background))

    def request_wake(self, session_id: str, folder: str, *, background: bool = False) -> None:
        """Stand in line, once. Who stands there for a schedule and is asked by a person goes to the people's."""
        if not background:
            self._background.discard(session_id)
        if session_id in self:
            return
        (self._background if background else self._people).add(session_id, folder)

    def is_in_background(self, session_id: str) -> bool:
        """Return True if it waits for a place, and no person for it."""
        return session_id in self._background

    def list_waiting_people(self) -> list[str]:
        """The sessions that wait for a place because a person asked them something."""
        return list(self._people)

    def set_background(self, session_id: str, background: bool) -> None:
        """Whether one that holds a place works for a schedule now."""
        if background and session_id in self._awake:
            self._awake_in_background.add(session_id)
        else:
            self._awake_in_background.discard(session_id)

    def pop(self) -> str | None:
        """The next session that may wake, which then holds a place; None if nobody waits or all places are taken."""
        if self.full:
            return None
        held = Counter(self._awake.values())
        for line in (self._people, self._background):
            folder = line.next_group(held.__getitem__)
            if folder is None or (line is self._background and not self._background_places):
                continue
            session_id = line.pop(folder)
            self._awake[session_id] = folder
            if line is self._background:
                self._awake_in_background.add(session_id)
            return session_id
        return None

    def pick_evictions(self, resting: Collection[IdleSession], ending: int = 0) -> list[str]:
        """Which of those at rest end, so that others that wait get a place. `ending`: places that are about to be
        free."""
        held = Counter(self._awake.values())
        free = self.free + ending
        left, ended = list(resting), list[str]()
        for line in (self._people, self._background):
            waiting = line.sizes()
            places = self._background_places if line is self._background else len(line)
            while waiting and (left or free > 0) and places > 0:
                places -= 1
                folder = min(waiting, key=held.__getitem__)  # as they will be taken
                if free > 0:
                    free -= 1
                elif (victim := self._victim(folder, left, held)) is not None:
                    left.remove(victim)
                    ended.append(victim.session_id)
                    held[self._awake[victim.session_id]] -= 1
                else:
                    del waiting[folder]
                    places += 1
                    continue
                held[folder] += 1
                waiting[folder] -= 1
                if not waiting[folder]:
                    del waiting[folder]
        return ended

    def _victim(self, folder: str, resting: list[IdleSession], held: Counter[str]) -> IdleSession | None:
        """Of the group with the most places, that which rests longest."""

        def may(each: IdleSession) -> bool:
            owner = self._awake[each.session_id]
            more = held[owner] - held[folder]
            return owner == folder or each.long or more > (1 if held[folder] else 0)  # one more or less is even

        allowed = [each for each in resting if each.session_id in self._awake and may(each)]
        return max(allowed, key=lambda each: (held[self._awake[each.session_id]], each.idle), default=None)

    def pick_memory_eviction(self, resting: Collection[IdleSession]) -> str:
        """The session at rest that ends first when memory is short, '' if there is none."""
        held = Counter(self._awake.values())
        known = [each for each in resting if each.session_id in self._awake]
        first = max(known, key=lambda each: (held[self._awake[each.session_id]], each.idle), default=None)
        return first.session_id if first else ""

    def release(self, session_id: str) -> None:
        self._awake.pop(session_id, None)
        self._awake_in_background.discard(session_id)

    def forget(self, session_id: str) -> None:
        """It no longer wants to wake."""
        self._people.discard(session_id)
        self._background.discard(session_id)
