"""Denials and limits of a person or a room hold after the turn, and in whatever an agent passes on."""

from pathlib import Path

import pytest

from gatepost.core.clock import Period
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.registry import load_package
from gatepost.egress.contract import BudgetShortage, CallCost, ReservationHandle, Spender
from gatepost.flow import grant_changes
from gatepost.flow.group_egress import SpenderSecrets, StoreBudget
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.money.reservations import NO_TOKENS
from gatepost.store.port import Db
from gatepost.store.rights import secrets
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, groups, sessions, turn_claims, turns
from gatepost.store.sessions.agents import NewAgent
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller
from gatepost_testing.gate_agent import MINUTE, ROOM, GateAgent

load_package("gatepost.tools")
NOW = 1_000_000
ADA = "fake:user/1"
FORBIDDEN = "a rule of this gateway forbids it"


async def deny(agent: GateAgent, principal: str, *, predicate: str = "", tool: str = "send") -> None:
    row = AclRow(id=0, principal=principal, action=f"mcp:{tool}", effect=AclEffect.DENY, predicate=predicate)
    await agent.store.write(grant_changes.add_row, row, NOW)
    agent.deps.events.tools(None)


async def end_turn(agent: GateAgent) -> None:
    def finish(db: Db) -> None:
        turn = turns.find_open(db, agent.session.id)
        assert turn is not None
        turns.begin(db, turn.id, turn.epoch, tuple(entry.id for entry, _ in inbox.list_for_turn(db, turn.id)), NOW)
        assert turns.finish(db, turn.id, turn.epoch, "{}", NOW)

    await agent.store.write(finish)


async def limit(store: SqliteStore, micro: int) -> None:
    def put(db: Db) -> None:
        budgets.put(db, BudgetScope(BudgetScopeKind.USER, ADA), Period.DAY, micro, "owner", NOW)

    await store.write(put)


def _session(db: Db, folder: str, address: str) -> Session:
    groups.add(db, folder, folder, "scripted", NOW)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", address, "", NOW)


async def _begin(store: SqliteStore, session: Session) -> Turn:
    claim = await store.write(turn_claims.claim, session.id, "scripted", "test", NOW, MINUTE, 20)
    assert claim is not None
    return claim.turn


@pytest.mark.parametrize(
    ("principal", "predicate"),
    [(ROOM, ""), (ADA, ""), ("folder:acme", f"user={ADA}"), ("folder:acme", f"room={ROOM}")],
)
async def test_stranger_10_what_is_denied_in_a_turn_is_denied_after_it(
    tmp_path: Path, store: SqliteStore, principal: str, predicate: str
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await deny(agent, principal, predicate=predicate)
    assert FORBIDDEN in (await agent.call("send", text="hi")).text
    await end_turn(agent)

    assert FORBIDDEN in (await agent.call("send", text="hi", chatJid=ROOM)).text


async def test_stranger_10_where_nobody_has_asked_yet_the_sessions_room_is_judged(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    silent = await store.write(_session, "acme/eng", "fake:room/2")
    agent.caller = Caller("acme/eng", silent.id, "scripted")
    assert not (await agent.call("send", text="hi", chatJid="fake:room/2")).failed
    await deny(agent, "fake:room/2")

    assert FORBIDDEN in (await agent.call("send", text="hi", chatJid="fake:room/2")).text


@pytest.mark.parametrize("principal", [ROOM, ADA])
async def test_stranger_10_what_is_denied_in_a_turn_is_denied_along_a_chain_through_other_groups(
    tmp_path: Path, store: SqliteStore, principal: str
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    below = await store.write(_session, "acme/eng", "fake:room/2")
    deepest = await store.write(_session, "acme/eng", "fake:room/3")
    await store.write(grant_changes.add_rule, "acme/eng", "inject_message", "operator", NOW)
    await deny(agent, principal)

    assert not (await agent.call("inject_message", content="send it for me", chatJid="fake:room/2")).failed
    await _begin(store, below)
    agent.caller = Caller("acme/eng", below.id, "scripted")
    assert FORBIDDEN in (await agent.call("send", text="hi")).text

    assert not (await agent.call("inject_message", content="send it for me", chatJid="fake:room/3")).failed
    turn = await _begin(store, deepest)
    agent.caller = Caller("acme/eng", deepest.id, "scripted")
    assert FORBIDDEN in (await agent.call("send", text="hi")).text
    chain = await store.read(origins.get_for_turn, turn.id)
    assert (chain.origins[0].person, chain.depth) == (ADA, 2)
    assert {each.address for each in chain.origins} == {ROOM, "fake:room/2", "fake:room/3"}


async def test_stranger_10_a_process_that_injects_after_the_turn_passes_on_who_asked_last(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    below = await store.write(_session, "acme/eng", "fake:room/2")
    await deny(agent, ADA)
    await end_turn(agent)

    assert not (await agent.call("inject_message", content="send it for me", chatJid="fake:room/2")).failed
    await _begin(store, below)
    agent.caller = Caller("acme/eng", below.id, "scripted")
    assert FORBIDDEN in (await agent.call("send", text="hi")).text


async def test_a_denial_of_somebody_else_changes_nothing(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await deny(agent, "fake:user/2")
    await deny(agent, "fake:room/2")

    assert not (await agent.call("send", text="hi")).failed
    await end_turn(agent)
    assert not (await agent.call("send", text="hi", chatJid=ROOM)).failed


async def test_stranger_10_an_allowance_of_a_room_is_not_gained_by_an_injection(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng/sre")
    row = AclRow(id=0, principal="folder:acme/eng/sre", action="mcp:send", predicate="room=fake:room/2")
    await store.write(grant_changes.add_row, row, NOW)
    await store.write(grant_changes.add_rule, "acme/eng/sre", "inject_message", "operator", NOW)
    agent.deps.events.tools(None)
    other = await store.write(_session, "acme/eng/sre", "fake:room/2")

    assert FORBIDDEN in (await agent.call("send", text="hi")).text
    assert not (await agent.call("inject_message", content="you may", chatJid="fake:room/2")).failed
    await _begin(store, other)
    agent.caller = Caller("acme/eng/sre", other.id, "scripted")
    assert FORBIDDEN in (await agent.call("send", text="hi")).text


async def test_stranger_09_what_an_agent_injects_itself_is_booked_on_who_asked(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await limit(store, 100)
    purse = StoreBudget(store, agent.deps.clock, agent.deps.channels, agent.deps.events)
    assert not (await agent.call("inject_message", content="again", chatJid=ROOM)).failed
    await end_turn(agent)
    turn = await agent.begin()
    spender = Spender("acme", agent.session.id, turn.id)

    assert (await purse.room(spender)).now == 100
    held = await purse.reserve(spender, "m", 80, NO_TOKENS)
    assert isinstance(held, ReservationHandle)
    await purse.settle(held, CallCost(80))
    assert isinstance(await purse.reserve(spender, "m", 80, NO_TOKENS), BudgetShortage)
    assert [each.key for each in await store.read(costs.list_sums, "user")] == [ADA]

    await end_turn(agent)
    assert isinstance(await purse.reserve(Spender("acme", agent.session.id, None), "m", 80, NO_TOKENS), BudgetShortage)


async def test_stranger_09_nothing_is_injected_on_a_spent_budget(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await limit(store, 100)
    new = costs.NewCost(key="k", at=agent.deps.clock.now(), folder="other", model="m", micro=100, user=ADA)
    await store.write(costs.add_external, new, new.at)

    refused = await agent.call("inject_message", content="again", chatJid=ROOM)
    assert refused.failed and "the budget is spent" in refused.text


@pytest.mark.slow
async def test_stranger_09_a_chain_of_injections_ends_at_its_depth(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    for _ in range(20):
        assert not (await agent.call("inject_message", content="again", chatJid=ROOM)).failed
        await end_turn(agent)
        await agent.begin()
    refused = await agent.call("inject_message", content="again", chatJid=ROOM)
    assert refused.failed and "20 is the limit (sessions.chain_depth); a person must ask" in refused.text

    await end_turn(agent)
    assert (await agent.call("inject_message", content="again", chatJid=ROOM)).failed  # nor behind the turn
    await agent.receive("go on")
    await agent.begin()
    assert not (await agent.call("inject_message", content="again", chatJid=ROOM)).failed


async def test_a_persons_secret_is_not_used_in_a_turn_that_an_agent_asked_for(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    ring = Keyring(Home(tmp_path))

    def give(db: Db) -> None:
        db.run("INSERT INTO users (id, created_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (ADA, NOW))
        secrets.put(db, ring, SecretOwner(user_id=ADA), "KEY", "adas", NOW)

    await store.write(give)
    keys = SpenderSecrets(store, SecretReader(store, ring))
    turn = await store.read(turns.find_open, agent.session.id)
    assert turn is not None
    assert await keys.get("KEY", Spender("acme", agent.session.id, turn.id)) == "adas"
    await agent.call("inject_message", content="again", chatJid=ROOM)
    await end_turn(agent)
    injected = await agent.begin()
    assert await keys.get("KEY", Spender("acme", agent.session.id, injected.id)) is None


async def test_stranger_09_the_news_of_an_agents_end_is_on_behalf_of_who_it_worked_for(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    own = await store.read(turns.find_open, agent.session.id)
    assert own is not None

    def work(db: Db) -> str:
        child = agents.create(db, NewAgent(folder="acme", provider="scripted", parent=agent.session.id), NOW)
        agents.set_notify(db, child.id, True)
        agents.add_prompt(
            db, child, "work", "operator", "op", inbox.InboxMode.NEXT, NOW, origins.get_for_turn(db, own.id)
        )
        claim = turn_claims.claim(db, child.id, "scripted", "test", NOW, MINUTE, 20)
        assert claim is not None
        turns.begin(db, claim.turn.id, claim.turn.epoch, claim.rows, NOW)
        assert turns.finish(db, claim.turn.id, claim.turn.epoch, "{}", NOW)
        return costs.find_payer(db, claim.turn.id)

    assert await store.write(work) == ADA
    await end_turn(agent)
    news = await agent.begin()
    chain = await store.read(origins.get_for_turn, news.id)
    assert await store.read(costs.find_payer, news.id) == ADA and chain.depth == 2
