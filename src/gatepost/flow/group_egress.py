"""The way out of a group, as the store sees it: its budgets, its secrets, and a word to the room when a budget runs
low. The reservation and the notice about it are one transaction.

A sandbox that no gateway runs gets the same, also beside a daemon: the store takes writers of several processes. No
daemon ends such a sandbox. So its way out looks at the operator's switch by itself, before every request and meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

from gatepost.access import budgets as judged
from gatepost.core.clock import Clock, SystemClock
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.settings import Config
from gatepost.egress.contract import BudgetRoom, BudgetShortage, CallCost, ReservationHandle, Spender
from gatepost.egress.http import HttpRefusal
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.prices import PriceList
from gatepost.egress.way_out import EgressDeps
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, add_outgoing_message
from gatepost.store.engine.open_store import open_store
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.money import budgets, costs, reservations
from gatepost.store.money.budgets import BudgetNotice
from gatepost.store.money.costs import TokenCounts
from gatepost.store.money.reservations import BudgetDenial, BudgetReservation
from gatepost.store.port import Db, Store
from gatepost.store.rights import switches
from gatepost.store.rights.secret_rows import is_channel_secret
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import sessions, turns

RoomAddress = tuple[str, str]
STOPPED = "whoever runs this gateway has stopped everything (`gatepost panic`)"
LOOK_S = 0.25  # how long a panic may go unseen where nothing is asked for
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class StoreBudget:
    """Budgets of the group, its parents, the person who asked, and the gateway."""

    def __init__(self, store: Store, clock: Clock, channels: ChannelInstances, events: EventBus) -> None:
        self._store, self._clock, self._channels, self._events = store, clock, channels, events
        self._spenders: dict[int, Spender] = {}  # of what is held back now

    async def room(self, spender: Spender) -> BudgetRoom:
        def read(db: Db) -> BudgetRoom:
            payer, turn_id = _find_payer(db, spender), spender.turn_id or ""
            found = budgets.list_for_call(db, spender.folder, payer, spender.session_id, turn_id, self._clock.now())
            now = min((each.left for each in found), default=None)
            return BudgetRoom(now, min((each.unspent for each in found), default=None))

        return await self._store.read(read)

    async def reserve(
        self, spender: Spender, model: str, worst: int, tokens: TokenCounts
    ) -> ReservationHandle | BudgetShortage:
        now = self._clock.now()

        def hold(db: Db) -> tuple[ReservationHandle | BudgetShortage, RoomAddress | None]:
            user = _find_payer(db, spender) or None
            found = reservations.reserve(
                db, spender.folder, user, spender.session_id, spender.turn_id, model, worst, now, tokens
            )
            notes = () if _is_announced_later(db, spender, found) else found.notes
            room = self._add_notices(db, spender, notes, now)
            if isinstance(found, BudgetDenial):
                return BudgetShortage(judged.render_denial(found), found.busy), room
            return ReservationHandle(found.id), room

        answer, room = await self._store.write(hold, lane=spender.session_id)
        if isinstance(answer, ReservationHandle):
            self._spenders[answer.id] = spender
        self._ring(room)
        return answer

    async def settle(self, held: ReservationHandle, cost: CallCost | None) -> None:
        now, spender = self._clock.now(), self._spenders.get(held.id)
        booked = cost or CallCost(0, measured=False)

        def book(db: Db) -> RoomAddress | None:
            micro = cost.micro if cost is not None else None
            settled = reservations.settle(db, held.id, micro, booked.usage, now, measured=booked.measured)
            if settled is None or spender is None:
                return None
            return self._add_notices(db, spender, settled.notes, now)

        room = await self._store.write(book, lane=spender.session_id if spender is not None else "")
        self._spenders.pop(held.id, None)
        self._ring(room)

    async def find_counted(self, beginnings: Sequence[str]) -> Mapping[str, int]:
        return await self._store.read(reservations.find_prompt_sizes, beginnings)

    async def keep_counted(self, beginnings: Sequence[str], tokens: int) -> None:
        await self._store.write(reservations.keep_prompt_sizes, beginnings, tokens, self._clock.now(), durable=False)

    def _add_notices(self, db: Db, spender: Spender, notes: tuple[BudgetNotice, ...], now: int) -> RoomAddress | None:
        """One honest message each, where the turn is, else where the session is."""
        turn = turns.get(db, spender.turn_id) if spender.turn_id else None
        where = turn or sessions.get(db, spender.session_id)
        if where is None or not notes or not where.address:
            return None
        for note in notes:
            notice = OutgoingMessage(
                key=judged.make_notice_key(note, where.instance, where.address),
                origin=EffectOrigin.NOTICE,
                instance=where.instance,
                address=where.address,
                thread=where.thread,
                text=judged.render_notice(note),
                session_id=spender.session_id,
            )
            add_outgoing_message(db, self._channels, notice, now)
        return where.instance, where.address

    def _ring(self, room: RoomAddress | None) -> None:
        if room is not None:
            self._events.room(*room)


def _is_announced_later(db: Db, spender: Spender, found: BudgetReservation | BudgetDenial) -> bool:
    """Return True if the room hears by the end of a turn what a budget refused: its first step, for which it is too
    small. The messages wait then, or have failed."""
    if not isinstance(found, BudgetDenial) or not spender.turn_id or found.status.cap is not None:
        return False
    return not found.status.is_spent and not costs.list_for_turn(db, spender.turn_id, 0)


def _find_payer(db: Db, spender: Spender) -> str:
    """Return who pays; '' if nobody ever asked for a turn. Work that goes on after a turn has ended belongs to the last
    turn."""
    return costs.find_payer(db, spender.turn_id) if spender.turn_id else costs.find_last_payer(db, spender.session_id)


class SpenderSecrets:
    """A model's key, or what is bound to a host, as the secrets say for this group and person. It leaves this process
    in one header alone. A person's own secrets are for their turns, and for nothing that goes on behind them or that an
    agent asks for in their name."""

    def __init__(self, store: Store, secrets: SecretReader) -> None:
        self._store, self._secrets = store, secrets

    async def get(
        self, name: str, spender: Spender, purpose: str = "model", origins: tuple[str, ...] | None = None
    ) -> str | None:
        if is_channel_secret(name):
            return None  # bound before it was a channel's: no agent ever gets it

        def read(db: Db) -> str:
            return costs.find_asker(db, spender.turn_id) if spender.turn_id else ""

        user = await self._store.read(read)
        return await self._secrets.get(name, spender.folder, user or None, purpose=purpose, origins=origins)


class PanicCheckingStore:
    """A store that reads nothing for the way out while everything is stopped: no request gets past its first rule."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.write, self.post = store.write, store.post
        self.rewrite_files, self.truncate_log = store.rewrite_files, store.truncate_log

    async def read(self, fn: Callable[[Db, *Ts], T], *args: *Ts, within: float | None = None, lane: str = "") -> T:
        return await self._store.read(_read_unless_panic, fn, args, within=within, lane=lane)


def _read_unless_panic(db: Db, fn: Callable[[Db, *Ts], T], args: tuple[*Ts]) -> T:
    asked: object = fn
    if asked is not switches.get and switches.get(db, switches.PANIC) is not None:
        raise HttpRefusal(403, STOPPED)
    return fn(db, *args)


async def wait_for_panic(store: Store) -> None:
    """Returns when everything is to end."""
    while True:
        if await store.read(switches.get, switches.PANIC) is not None:
            return
        await asyncio.sleep(LOOK_S)  # another process turns it on: no bell of ours rings


@asynccontextmanager
async def open_standalone_egress(home: Home, config: Config) -> AsyncIterator[EgressDeps]:
    """Yield what an EgressSocket needs, until the block is left."""
    store, clock = open_store(home, config, readers=1), SystemClock()
    keys = SpenderSecrets(store, SecretReader(store, Keyring(home), clock))
    # No room is told of a budget: whoever runs the command reads it there.
    purse = StoreBudget(store, clock, ChannelInstances({}), EventBus())
    prices = PriceList(home, config)
    models = ModelProxy(config, purse, keys, prices, prices.tool)
    try:
        yield EgressDeps(store=PanicCheckingStore(store), clock=clock, models=models, keys=keys)
    finally:
        await models.close()
        store.close()
