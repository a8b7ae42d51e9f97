"""One gateway among several: what it takes over from a dead one, and which duties it takes, keeps and gives up."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.channels.contract import ChannelState
from gatepost.core.process.keeper_process import read_clock
from gatepost.flow.gateways.duties import LOOPS, Duties, DutyHealth, channel_duty
from gatepost.flow.gateways.keeper import Keeper
from gatepost.flow.gateways.membership import DutyWork, GatewayMembership, Notice, NoticePort
from gatepost.store.gateways import gateways
from gatepost.store.gateways.gateways import DutyRow, GatewayIdentity, GatewayState
from gatepost.store.messages import inbox
from gatepost.store.money import reservations
from gatepost.store.money.reservations import BudgetReservation
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import groups, sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import TurnState
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gateway import running_gateway

ME, OTHER = "me", "other"
CHANNEL, SECOND_CHANNEL = channel_duty("tg"), channel_duty("web")
FAR = 10**9


@dataclass
class FakeLease:
    """A lease as PostgreSQL would give it, moved by the test alone."""

    identity: GatewayIdentity
    epoch: int = 1
    in_contact: bool = True
    stops_at: float = field(default_factory=lambda: read_clock() + FAR)
    is_over: bool = False
    dead: tuple[tuple[str, int], ...] = ()
    must_leave: str = ""
    is_alone: bool = False
    companions: tuple[str, ...] = (OTHER,)
    ended_connections: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.identity.name

    def begin(self) -> None:
        self.epoch, self.is_over = self.epoch + 1, False

    def start(self, on_change: Callable[[], None]) -> None: ...
    def stop(self) -> None: ...

    def end_life(self, db: Db, name: str, epoch: int) -> bool:
        return gateways.end_life(db, name, epoch)

    def end_connections(self, name: str) -> None:
        self.ended_connections.append(name)

    def open_exchange(self, hear: Callable[[list[Notice]], None]) -> NoticePort:
        raise AssertionError("no words go anywhere here")


class RecordingKeeper(Keeper):
    """Knows what it was told, and starts no process: there is no sandbox."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[float, int]] = []

    def set_time(self, until: float, epoch: int) -> None:
        self.times.append((until, epoch))
        super().set_time(until, epoch)


@dataclass
class Member:
    gateway: Gateway
    lease: FakeLease
    duties: Duties
    failing: dict[str, float] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    health: dict[str, DutyHealth] = field(default_factory=dict)
    wanted: list[str] = field(default_factory=lambda: [CHANNEL])
    keeper: RecordingKeeper = field(default_factory=RecordingKeeper)
    made: GatewayMembership = field(init=False)

    def __post_init__(self) -> None:
        work = DutyWork(
            list_wanted=lambda: self.wanted,
            list_platforms=lambda: self.wanted,
            list_bound=lambda: (),
            list_failing=lambda: self.failing,
            list_made=dict,
            list_health=lambda: self.health,
            is_busy=self.busy.__contains__,
            give_up_s=10.0,
        )
        store = self.gateway.store
        self.made = GatewayMembership(self.lease, store, self.gateway.sessions, self.duties, work, self.keeper)

    async def look(self) -> None:
        await self.made._step()

    async def rows(self) -> dict[str, DutyRow]:
        return {each.name: each for each in await self.gateway.store.read(gateways.list_duty_rows)}


def make_identity(name: str, home: str = "") -> GatewayIdentity:
    return GatewayIdentity(name=name, home=home or f"/{name}", host="h", version="1", schema_number=1)


@pytest.fixture
async def member(tmp_path: Path) -> AsyncIterator[Member]:
    async with running_gateway(tmp_path / "h", sessions__most_awake=0) as gateway:

        def add(db: Db) -> None:
            for name in (ME, OTHER):
                gateways.register(db, make_identity(name), FAR, 1, gateway.clock.now())

        await gateway.store.write(add)
        yield Member(gateway, FakeLease(make_identity(ME)), Duties(shared=True))


def leave_turn(db: Db, owner: str, now: int) -> tuple[str, str, int]:
    """A turn that a gateway runs, with a model call under way: session, turn and reservation."""
    groups.add(db, "acme", "Acme", "scripted", now)
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", now)
    gateways.claim_session(db, session.id, owner)
    inbox.enqueue(db, add_arrival(db, now), session.id, "acme", "member", now)
    claim = turn_claims.claim(db, session.id, "scripted", owner, now, FAR, 20)
    assert claim is not None
    turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, now)
    held = reservations.reserve(db, "acme", None, session.id, claim.turn.id, "m", 500, now)
    assert isinstance(held, BudgetReservation)
    db.run("UPDATE reservations SET gateway = ?", (owner,))  # as a store that several share has it
    gateways.claim_duties(db, ["schedule"], owner, now)
    return session.id, claim.turn.id, held.id


def get_session(db: Db, session_id: str) -> tuple[str, int]:
    row = db.row("SELECT owner, epoch FROM sessions WHERE id = ?", (session_id,))
    assert row is not None
    return str(row[0]), int(row[1])


async def test_what_a_dead_gateway_had_is_anybodys_and_nothing_of_it_is_lost(member: Member) -> None:
    store, now = member.gateway.store, member.gateway.clock.now()
    session_id, turn_id, _ = await store.write(leave_turn, OTHER, now)
    before = await store.read(get_session, session_id)
    member.lease.dead = ((OTHER, 1),)
    await member.look()
    owner, epoch = await store.read(get_session, session_id)
    assert owner == "" and epoch > before[1]  # what it still writes for the session is refused
    turn = await store.read(turns.get, turn_id)
    assert turn is not None and turn.state is TurnState.INTERRUPTED
    assert await store.read(reservations.sum_reserved) == 0
    gone = await store.read(gateways.get, OTHER)
    assert gone is not None and (gone.state, gone.epoch) == (GatewayState.GONE, 2)
    assert (await member.rows())["schedule"].gateway in ("", ME)
    assert member.lease.ended_connections == [OTHER] and member.made.takeovers == 1


async def test_only_one_takes_over_and_says_so_in_the_audit(member: Member) -> None:
    store = member.gateway.store
    await store.write(leave_turn, OTHER, member.gateway.clock.now())
    member.lease.dead = ((OTHER, 1),)
    await member.look()
    await member.look()  # the lease still names it; its life has ended
    assert member.made.takeovers == 1
    seals = [row for row in await store.read(audit.list_latest, 100) if row[3] == audit.SEAL]
    assert len(seals) == 1


async def test_a_gateway_that_lives_after_all_loses_nothing(member: Member) -> None:
    store = member.gateway.store
    session_id, turn_id, _ = await store.write(leave_turn, OTHER, member.gateway.clock.now())
    member.lease.dead = ((OTHER, 7),)  # an earlier or later life of it
    await member.look()
    turn = await store.read(turns.get, turn_id)
    assert (await store.read(get_session, session_id))[0] == OTHER and member.made.takeovers == 0
    assert turn is not None and turn.state is not TurnState.INTERRUPTED


async def test_at_the_start_what_an_earlier_life_left_goes_on(member: Member) -> None:
    store = member.gateway.store
    session_id, turn_id, _ = await store.write(leave_turn, ME, member.gateway.clock.now())
    await member.made.recover()
    turn = await store.read(turns.get, turn_id)
    assert turn is not None and turn.state is TurnState.INTERRUPTED
    assert (await store.read(get_session, session_id))[0] == "" and await store.read(reservations.sum_reserved) == 0


async def test_a_home_with_another_name_takes_along_what_its_earlier_name_had(member: Member) -> None:
    store, now = member.gateway.store, member.gateway.clock.now()

    def rename(db: Db) -> str:
        gateways.register(db, make_identity("was"), 1, 1, now)
        db.run("UPDATE gateways SET state = 'gone', home = '/me' WHERE name = 'was'")
        return leave_turn(db, "was", now)[0]

    session_id = await store.write(rename)
    await member.made.recover()
    assert (await store.read(get_session, session_id))[0] == ""
    assert await store.read(gateways.get, "was") is None and await store.read(gateways.get, OTHER) is not None


async def test_out_of_contact_it_does_nothing(member: Member) -> None:
    await member.gateway.store.write(leave_turn, OTHER, member.gateway.clock.now())
    member.lease.dead, member.lease.in_contact = ((OTHER, 1),), False
    await member.look()
    assert member.made.takeovers == 0 and await member.made._follow_contact() is None
    assert member.duties.list_held() == frozenset()
    member.lease.in_contact = True
    assert (await member.made._follow_contact() or 0) > 0


async def test_its_share_of_the_duties_is_held_only_as_written_down(member: Member) -> None:
    now = member.gateway.clock.now()
    await member.gateway.store.write(gateways.claim_duties, ["retention"], OTHER, now)
    for _ in range(len(LOOPS) + 2):
        await member.look()
    held = member.duties.list_held()
    assert held and "retention" not in held
    assert held <= {name for name, row in (await member.rows()).items() if row.gateway == ME}
    elsewhere = member.duties.find_elsewhere("retention")
    assert elsewhere is not None and elsewhere.gateway == OTHER


async def test_alone_it_has_them_all_and_then_looks_no_more(member: Member) -> None:
    member.lease.is_alone, member.lease.companions = True, ()
    while not {*LOOPS, CHANNEL} <= member.duties.list_held():
        await member.look()
    await member.gateway.store.write(lambda db: db.run("UPDATE duties SET gateway = ''"))
    await member.look()
    assert {row.gateway for row in (await member.rows()).values()} == {""}


async def take(member: Member, *names: str) -> None:
    now = member.gateway.clock.now()
    member.duties.set_held(await member.gateway.store.write(gateways.claim_duties, names, ME, now))


async def test_a_channel_that_fails_here_is_given_up_once_nothing_of_it_is_under_way(member: Member) -> None:
    await take(member, CHANNEL)
    member.failing[CHANNEL] = 11.0
    member.busy.add(CHANNEL)
    while member.duties.holds(CHANNEL):
        await member.look()
    await member.look()
    assert (await member.rows())[CHANNEL].gateway == ME  # a message is being sent
    member.busy.clear()
    await member.look()
    row = (await member.rows())[CHANNEL]
    assert row.gateway == "" and ME in row.pauses  # others may take it; this one does not for a while


async def test_the_health_of_a_channel_is_written_for_the_others_and_clears_its_pause(member: Member) -> None:
    await take(member, CHANNEL)
    paused = '{"me": {"at": 0, "until": 1, "count": 1}, "other": {"at": 0, "until": 2, "count": 1}}'
    await member.gateway.store.write(
        lambda db: db.run("UPDATE duties SET paused = ? WHERE name = ?", (paused, CHANNEL))
    )
    member.health[CHANNEL] = DutyHealth(ChannelState.UP, 5)
    member.health[SECOND_CHANNEL] = DutyHealth(ChannelState.UP, 5)  # which it does not have
    await member.look()
    row = (await member.rows())[CHANNEL]
    assert '"since_at":5' in row.health and [*row.pauses] == [OTHER]
    assert SECOND_CHANNEL not in await member.rows() or not (await member.rows())[SECOND_CHANNEL].health


async def test_while_it_fails_its_pause_stays(member: Member) -> None:
    await take(member, CHANNEL)
    paused = '{"me": {"at": 0, "until": 1, "count": 1}}'
    await member.gateway.store.write(
        lambda db: db.run("UPDATE duties SET paused = ? WHERE name = ?", (paused, CHANNEL))
    )
    member.failing[CHANNEL] = 1.0
    member.health[CHANNEL] = DutyHealth(ChannelState.UP, 5)
    await member.look()
    assert [*(await member.rows())[CHANNEL].pauses] == [ME]


async def test_draining_it_begins_nothing_for_all_and_gives_its_duties_to_others(member: Member) -> None:
    await take(member, "schedule")
    member.made.close()
    assert member.duties.list_held() == frozenset()
    await member.look()
    assert (await member.rows())["schedule"].gateway == ME  # not before nothing of it is under way
    await member.made.release_duties()
    row = await member.gateway.store.read(gateways.get, ME)
    assert row is not None and row.state is GatewayState.DRAINING
    assert (await member.rows())["schedule"].gateway == ""


async def test_what_it_leaves_is_anybodys_at_once(member: Member) -> None:
    store = member.gateway.store
    session_id, turn_id, _ = await store.write(leave_turn, ME, member.gateway.clock.now())
    await member.made.leave()
    turn, row = await store.read(turns.get, turn_id), await store.read(gateways.get, ME)
    assert turn is not None and turn.state is TurnState.INTERRUPTED
    assert row is not None and row.state is GatewayState.GONE
    assert (await store.read(get_session, session_id))[0] == ""


async def test_after_another_took_over_it_begins_a_new_life_without_duties(member: Member) -> None:
    await take(member, "schedule")
    member.lease.is_over, member.lease.in_contact = True, False
    await member.look()
    assert member.lease.epoch == 2 and not member.lease.is_over
    assert member.duties.list_held() == frozenset() and (await member.rows())["schedule"].gateway == ""


async def test_the_keeper_knows_from_the_start_until_when_sandboxes_may_run(member: Member) -> None:
    member.made.start()
    assert member.keeper.times == [(member.lease.stops_at, 1)]
    member.lease.in_contact = False
    member.made._update_keeper()
    assert len(member.keeper.times) == 1  # out of contact it gets no further time
    member.lease.in_contact, member.lease.is_over = True, True
    await member.look()
    assert member.keeper.times[-1] == (member.lease.stops_at, 2)


async def test_a_duty_that_is_left_for_balance_keeps_what_is_known_of_others(member: Member) -> None:
    await take(member, CHANNEL)
    paused = '{"other":{"at":0,"until":2,"count":1}}'
    await member.gateway.store.write(
        lambda db: db.run("UPDATE duties SET paused = ? WHERE name = ?", (paused, CHANNEL))
    )
    member.made._leave_duty(CHANNEL, None, frozenset((OTHER,)))
    assert not member.duties.holds(CHANNEL)
    await member.look()
    row = (await member.rows())[CHANNEL]
    assert (row.gateway, [*row.pauses]) == ("", [OTHER])


async def test_an_order_to_leave_is_passed_on_once(member: Member) -> None:
    ordered: list[str] = []
    member.made.on_order = ordered.append
    member.lease.must_leave = "its schema is too old"
    await member.look()
    await member.look()
    assert ordered == ["its schema is too old"]
