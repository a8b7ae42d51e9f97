"""Duties: what one gateway at a time does for all of them, such as to listen and send on a channel, or to fire tasks.

A gateway by itself has them all. If there are several, each takes its share of the duties that nobody has. It gives one
up when it stops or dies, when it cannot do it and another may, and when it has more than its share.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.channels.contract import ChannelState
from gatepost.core.clock import SECOND
from gatepost.core.settings import setting
from gatepost.store.gateways.gateways import DutyPause, DutyRow

SCHEDULE, REQUESTS, NEWCOMERS, ERRANDS, RETENTION = "schedule", "requests", "newcomers", "errands", "retention"
PLACES, FILES, MEANINGS, ALERTS = "places", "files", "meanings", "alerts"
LOOPS = (SCHEDULE, REQUESTS, NEWCOMERS, ERRANDS, RETENTION, PLACES, FILES, MEANINGS, ALERTS)
CHANNEL = "channel/"
GIVE_UP_S = setting(
    "gateways.give_up_s",
    15.0,
    help="A channel that does not work on its gateway for so many seconds is left to another gateway, if there is one.",
)
LATE = 3 * SECOND  # for which a duty is left to those that have fewer
FIRST_PAUSE, LONGEST_PAUSE = 60 * SECOND, 600 * SECOND


def channel_duty(instance: str) -> str:
    return f"{CHANNEL}{instance}"


class DutyHealth(Struct, frozen=True):
    """How a channel is on the gateway that has it: state, moment, error and way out as in its report. `device`: it
    keeps keys of a device there, which no other gateway has."""

    state: ChannelState
    since_at: int
    error: str = ""
    remedy: str = ""
    device: bool = False


_decode_health = msgspec.json.Decoder(DutyHealth).decode


def parse_health(row: DutyRow) -> DutyHealth | None:
    return _decode_health(row.health) if row.health else None


class DutyElsewhere(Struct, frozen=True):
    """A duty that this gateway does not have: the gateway that has it, '' if none does, and how it goes there."""

    gateway: str
    health: DutyHealth | None


class Duties:
    def __init__(self, *, shared: bool = False) -> None:
        """`shared`: there may be other gateways, so nothing is this one's before `set_held` says so."""
        self._held: frozenset[str] | None = frozenset() if shared else None
        self._terms: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._followers: list[Callable[[], None]] = []
        self._elsewhere: dict[str, DutyElsewhere] = {}

    def holds(self, name: str) -> bool:
        return self._held is None or name in self._held

    def list_held(self) -> frozenset[str]:
        return self._held or frozenset()

    def sends_to(self, instance: str) -> bool:
        """Return True if this gateway sends on a channel."""
        return self._held is None or channel_duty(instance) in self._held

    def get_term(self, name: str) -> int:
        """How often this gateway has got a duty or lost it: in another term, others may do or have done it."""
        return self._terms[name]

    def on_change(self, follow: Callable[[], None]) -> None:
        self._followers.append(follow)

    def set_elsewhere(self, found: dict[str, DutyElsewhere]) -> None:
        self._elsewhere = found

    def find_elsewhere(self, name: str) -> DutyElsewhere | None:
        """None: this gateway has it, or nobody has looked yet."""
        return None if self.holds(name) else self._elsewhere.get(name)

    def set_held(self, names: Iterable[str]) -> None:
        held = frozenset(names)
        if held == self._held:
            return
        self._terms.update(held ^ (self._held or frozenset()))
        self._held = held
        self._changed.set()
        self._changed = asyncio.Event()
        for follow in self._followers:
            follow()

    async def run_while_held(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until cancelled: run it whenever this gateway has the duty."""
        if self._held is None:
            await run()
            return
        while True:
            while not self.holds(name):
                await self._changed.wait()
            task = asyncio.create_task(run())
            try:
                while self.holds(name) and not task.done():
                    waiting = asyncio.create_task(self._changed.wait())
                    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
                    waiting.cancel()
                if task.done():
                    task.result()  # a loop that broke ends the gateway, as it does without others
                    return
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


class DutyView(Struct, frozen=True, kw_only=True):
    """The facts by which a gateway decides on its share."""

    own: str
    others: frozenset[str]  # gateways that live and take duties
    rows: Mapping[str, DutyRow]
    wanted: frozenset[str]  # that this one can do
    platforms: frozenset[str]  # those of them that keep a connection to a platform
    failing: Mapping[str, float]  # seconds for which this one has failed to do its own
    made: Mapping[str, int]  # when a channel was made here: a pause from before is over
    fixed: frozenset[str]  # that are not left to others: keys of a device are here, or it came back
    now: int
    give_up_s: float


class DutyPlan(Struct, frozen=True):
    """The duties to claim, and the one to leave. `pause`: it is left because it fails."""

    claim: tuple[str, ...] = ()
    leave: str = ""
    pause: DutyPause | None = None


def plan_duties(view: DutyView) -> DutyPlan:
    found = _find_failing(view)
    if found is not None:
        return found
    return DutyPlan(_list_claims(view), _find_surplus(view))


def _find_failing(view: DutyView) -> DutyPlan | None:
    """One that fails here, and that another may try. Two that both fail leave it to each other ever more rarely."""
    for name, seconds in sorted(view.failing.items()):
        row = view.rows.get(name)
        if row is None or row.gateway != view.own or seconds < view.give_up_s or name in view.fixed:
            continue
        pauses = row.pauses
        if any(each not in pauses or pauses[each].until <= view.now for each in view.others):
            count = pauses[view.own].count + 1 if view.own in pauses else 1
            length = min(FIRST_PAUSE << min(count - 1, 10), LONGEST_PAUSE)
            return DutyPlan(leave=name, pause=DutyPause(view.now, view.now + length, count))
    return None


def _list_claims(view: DutyView) -> tuple[str, ...]:
    """Return the duties to claim: free ones up to this gateway's share. A duty that nobody took for a while is claimed
    beyond the share."""
    claims: list[str] = []
    for names in _split(view):
        room = _get_share(view, names) - _count(view, names).get(view.own, 0)
        for name in sorted(names & view.wanted):
            row = view.rows.get(name)
            if row is not None and (row.gateway or _is_paused(view, row)):
                continue
            if row is None or room > 0 or view.now - row.since > LATE:
                claims.append(name)
                room -= 1
    return tuple(claims)


def _find_surplus(view: DutyView) -> str:
    """One to leave, if no gateway has more and another has at least two fewer; '' if there is none. If several have
    most, the first by name begins."""
    for names in _split(view):
        counts = _count(view, names)
        loads = {each: counts.get(each, 0) for each in (view.own, *view.others)}
        most = min(each for each in loads if loads[each] == max(loads.values()))
        if most == view.own and loads[most] - min(loads.values()) > 1:
            mine = [each for each, row in view.rows.items() if row.gateway == view.own]
            if movable := names.intersection(mine) - view.fixed:
                return max(movable)
    return ""


def _split(view: DutyView) -> tuple[set[str], set[str]]:
    """Connections to platforms are work of another kind than the rest: each kind is shared by itself."""
    every = {*view.rows, *view.wanted}
    unknown = {each for each in every - view.wanted if each.startswith(CHANNEL)}  # not of those that are ourselves
    platforms = (every & view.platforms) | unknown
    return platforms, every - platforms


def _count(view: DutyView, names: set[str]) -> Counter[str]:
    return Counter(view.rows[each].gateway for each in names if each in view.rows)


def _get_share(view: DutyView, names: set[str]) -> int:
    return -(-len(names) // (1 + len(view.others)))


def _is_paused(view: DutyView, row: DutyRow) -> bool:
    pause = row.pauses.get(view.own)
    return pause is not None and view.now < pause.until and view.made.get(row.name, 0) <= pause.at and bool(view.others)
