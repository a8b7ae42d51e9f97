"""Giving work to another agent: who may be given some, what is refused at once, and what the gateway writes down."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import Period
from gatepost.core.registry import load_package
from gatepost.flow import errands as flow_errands
from gatepost.flow.errands import MOST_OPEN, MOST_OPEN_GROUP
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import acl
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rooms import origins
from gatepost.store.sessions import errands, groups, sessions, turn_claims, turns
from gatepost.store.sessions.errands import Errand
from gatepost.tools.call import Caller
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.gate_agent import MINUTE, ROOM, GateAgent

load_package("gatepost.tools")

ANN = "fake:user/1"
FOLDERS = ("root", "acme", "acme/eng", "acme/eng/sre", "acme/ops", "beta")


@pytest.fixture
async def tree(store: SqliteStore) -> SqliteStore:
    def add(db: Db) -> None:
        for folder in FOLDERS:
            groups.add(db, folder, folder, "scripted", 1)
        users.add(db, ANN, "Ann", 1)
        users.add_role(db, ANN, UserRole.OWNER, "", "test", 1)

    await store.write(add)
    return store


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found: dict[str, Any] = json.loads(answer.structured or answer.text)
    return found


async def given(store: SqliteStore, answer: ToolAnswer) -> Errand:
    found = await store.read(errands.get, told(answer)["errand"])
    assert found is not None
    return found


async def test_a_group_below_is_given_a_message_in_a_room_without_people(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    woken: list[str] = []
    agent.deps.events.on_session(woken.append)

    errand = await given(tree, await agent.call("delegate_group", group="acme/eng", prompt="look it up", depth=7))

    session = await tree.read(sessions.get, errand.session_id)
    assert session is not None and session.folder == "acme/eng" and woken == [session.id]
    assert session.address == f"errands:{agent.session.id}/acme/eng"
    message = await tree.read(messages.get, errand.message_id)
    assert message is not None and (message.sender, message.thread) == ("agent:acme", errand.id)
    assert (errand.instance, errand.address, errand.rights) == ("fake", ROOM, "owner")
    chain = await tree.read(origins.get_inherited, errand.message_id)
    assert [each.person for each in chain.origins] == ["fake:user/1"] and chain.depth == 1
    assert ("delegate_group", "allowed") in await agent.audited()


async def test_the_same_call_made_again_is_the_same_errand(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    first = told(await agent.call("delegate_group", "c-1", group="acme/eng", prompt="look"))
    again = told(await agent.call("delegate_group", "c-1", group="acme/eng", prompt="look"))
    assert first == again and await tree.read(errands.count_all_open) == 1


async def test_a_second_errand_goes_on_in_the_same_conversation_unless_it_names_another(
    tmp_path: Path, tree: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    first = await given(tree, await agent.call("delegate_group", group="acme/eng", prompt="one"))
    second = await given(tree, await agent.call("send_to_agent", group="acme/eng", text="two"))
    third = await given(tree, await agent.call("send_to_agent", group="acme/eng", text="three", session="apart"))
    assert first.session_id == second.session_id != third.session_id


@pytest.mark.parametrize(
    ("own", "tool", "group"),
    [
        ("acme", "delegate_group", "acme"),
        ("acme", "delegate_group", "beta"),
        ("acme", "delegate_group", "root"),
        ("acme", "delegate_group", "acme/../beta"),
        ("acme/eng", "send_to_agent", "acme/ops"),
        ("acme/eng", "send_to_agent", "beta"),
        ("acme/eng", "send_to_agent", "root"),
        ("acme/eng", "send_to_agent", ""),
    ],
)
async def test_nanoclaw_40_who_is_out_of_reach_is_given_nothing_and_the_caller_is_told(
    tmp_path: Path, tree: SqliteStore, own: str, tool: str, group: str
) -> None:
    agent = await GateAgent.create(tmp_path, tree, own)
    answer = await agent.call(tool, group=group, **{"prompt" if tool == "delegate_group" else "text": "look"})
    assert answer.failed and f"may not {tool}" in answer.text
    assert await tree.read(errands.count_all_open) == 0


@pytest.mark.parametrize(("own", "parent"), [("acme/eng", "acme"), ("acme", "root")])
async def test_escalating_goes_to_the_group_above(tmp_path: Path, tree: SqliteStore, own: str, parent: str) -> None:
    agent = await GateAgent.create(tmp_path, tree, own)
    answer = told(await agent.call("escalate_group", prompt="may I?", chatJid=ROOM, depth=3))
    assert (answer["queued"], answer["parent"]) == (True, parent)


async def test_a_name_of_the_operators_reaches_a_group_elsewhere(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme/eng")
    await tree.write(destinations.add_group, "acme/eng", "helpdesk", "beta", 1)
    assert (await given(tree, await agent.call("send_to_agent", group="helpdesk", text="look"))).folder == "beta"


async def test_a_rule_may_forbid_one_group_below(tmp_path: Path, tree: SqliteStore) -> None:
    await tree.write(acl.add_rule, "acme", "!delegate_group(group=acme/eng)", "test", 1)
    agent = await GateAgent.create(tmp_path, tree, "acme")
    assert (await agent.call("delegate_group", group="acme/eng", prompt="look")).failed
    assert not (await agent.call("delegate_group", group="acme/ops", prompt="look")).failed


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("delegate_group", {"group": "acme/none", "prompt": "look"}, "refresh_groups"),
        ("delegate_group", {"group": "acme/eng", "prompt": " \n"}, "prompt"),
        ("delegate_group", {"group": "acme/eng", "prompt": "x" * 100_001}, "goes along as a file"),
        ("send_to_agent", {"group": "acme/eng", "text": "look", "session": "No Name"}, "session"),
        ("send_to_agent", {"group": "acme/eng", "text": "look", "files": ["/etc/passwd"]}, "files"),
    ],
)
async def test_what_is_wrong_is_named(
    tmp_path: Path, tree: SqliteStore, tool: str, arguments: dict[str, Any], why: str
) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    answer = await agent.call(tool, **arguments)
    assert answer.failed and why in answer.text
    assert await tree.read(errands.count_all_open) == 0


async def test_whoever_has_no_conversation_can_give_nothing_out(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    raw = json.dumps({"group": "acme/eng", "prompt": "look"}).encode()
    answer = await agent.dispatch.call(Caller("acme"), "delegate_group", raw, "c-1")
    assert answer.failed and "this call has none" in answer.text


async def test_a_group_over_its_budget_says_so(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    scope = BudgetScope(BudgetScopeKind.GROUP, "acme/eng")
    await tree.write(budgets.put, scope, Period.DAY, 0, "owner", agent.deps.clock.now())
    answer = await agent.call("delegate_group", group="acme/eng", prompt="look")
    assert answer.failed and "its budget is spent (group acme/eng, this day)" in answer.text


async def test_the_person_behind_it_pays_for_it(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    errand = await given(tree, await agent.call("delegate_group", group="acme/eng", prompt="look"))
    now = agent.deps.clock.now()
    claim = await tree.write(turn_claims.claim, errand.session_id, "scripted", "test", now, MINUTE, 20)
    assert claim is not None and claim.turn.thread == errand.id
    assert await tree.read(costs.find_payer, claim.turn.id) == "fake:user/1"
    assert await tree.read(costs.find_asker, claim.turn.id) == "agent:acme", "her secrets are not used for it"


@pytest.mark.slow
async def test_a_conversation_and_a_group_have_so_many_open_errands_at_most(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    most, of_group = agent.deps.config[MOST_OPEN], agent.deps.config[MOST_OPEN_GROUP]
    assert of_group > most
    for number in range(most):
        assert not (await agent.call("delegate_group", group="acme/eng", prompt=f"look {number}")).failed
    answer = await agent.call("delegate_group", group="acme/ops", prompt="look")
    assert answer.failed and f"{most} errands of this conversation are open ({MOST_OPEN.name})" in answer.text

    def fill(db: Db) -> None:
        """By other conversations."""
        for number in range(of_group - most):
            _copy_errand(db, f"e-{number}")

    await tree.write(fill)
    other = await tree.write(
        sessions.find_or_add, sessions.SessionMode.PER_THREAD, "acme", "fake", "fake:room/2", "", 1
    )
    agent.session, agent.caller = other, Caller("acme", other.id, "scripted")
    await agent.receive("hello")
    await agent.begin()
    answer = await agent.call("delegate_group", group="acme/eng", prompt="look")
    assert answer.failed and f"has {of_group} open errands already" in answer.text


def _copy_errand(db: Db, name: str) -> None:
    first = errands.ERRANDS.get(db, "LIMIT 1")
    assert first is not None
    values = {**{each: getattr(first, each) for each in first.__struct_fields__}, "id": name, "call_key": name}
    errands.ERRANDS.insert(db, "", None, **{**values, "caller_session": "s-other"})


async def test_nanoclaw_40_agents_pass_work_on_no_further_than_the_depth(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme", turn=False)

    def tell(db: Db) -> None:
        """A message with twenty steps behind it."""
        message_id = add_arrival(db, 1, address=ROOM, sender="agent:beta", text="again", platform_id="far")
        origins.put(db, message_id, [origins.Origin("fake:user/1", "fake", ROOM)], 20)
        inbox.enqueue(db, message_id, agent.session.id, "acme", "agent", 1)

    await tree.write(tell)
    await agent.begin()
    answer = await agent.call("delegate_group", group="acme/eng", prompt="again")
    assert answer.failed and "20 steps from agent to agent lie behind this turn, and 20 is the limit" in answer.text
    assert "a person must ask" in answer.text


async def test_files_are_attachments_of_the_message_and_gone_if_it_is_refused(
    tmp_path: Path, tree: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    (agent.deps.home.group("acme") / "a.txt").write_text("A")
    (agent.deps.home.group("acme") / "sub").mkdir()
    (agent.deps.home.group("acme") / "sub" / "a.txt").write_text("other")
    errand = await given(
        tree, await agent.call("send_to_agent", group="acme/eng", text="look", files=["a.txt", "sub/a.txt"])
    )
    message = await tree.read(messages.get, errand.message_id)
    assert message is not None
    media = agent.deps.home.media
    found = [(each["name"], (media / each["path"]).read_text()) for each in message.content["attachments"]]
    assert found == [("a.txt", "A"), ("a-2.txt", "other")]

    scope = BudgetScope(BudgetScopeKind.GROUP, "acme/ops")
    await tree.write(budgets.put, scope, Period.DAY, 0, "owner", agent.deps.clock.now())
    before = {path for path in media.rglob("*") if path.is_file()}
    assert (await agent.call("send_to_agent", group="acme/ops", text="look", files=["a.txt"])).failed
    assert {path for path in media.rglob("*") if path.is_file()} == before


async def test_nobody_in_a_room_of_errands_can_be_asked(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    errand = await given(tree, await agent.call("delegate_group", group="acme/eng", prompt="look"))
    session = await tree.read(sessions.get, errand.session_id)
    assert session is not None
    agent.session, agent.caller = session, Caller("acme/eng", session.id, "scripted")
    turn = await agent.begin()
    answer = told(await agent.call("reply", text="seven"))
    effects = await tree.read(lambda db: db.rows("SELECT instance, address, thread FROM outbox"))
    assert answer["ok"] and effects == [("errands", errand.room, errand.id)]
    assert (await tree.read(inbox.list_for_turn, turn.id))[0][0].state is InboxState.WORKING


async def test_older_names_and_parameters_mean_the_same(tmp_path: Path, tree: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    down = told(await agent.call("delegate_to_child", child="acme/eng", prompt="look", jid=ROOM, depth=1))
    up = told(await agent.call("delegate_to_parent", prompt="may I?", jid=ROOM, depth=1))
    assert (down["group"], down["queued"], up["parent"]) == ("acme/eng", True, "root")


@pytest.mark.parametrize("tool", ["escalate_group", "send_to_agent"])
async def test_root_works_for_owners_alone_whoever_asks_it(tmp_path: Path, tree: SqliteStore, tool: str) -> None:
    agent = await GateAgent.create(tmp_path, tree, "acme")
    arguments = {"prompt": "look"} if tool == "escalate_group" else {"group": "root", "text": "look"}
    assert not (await agent.call(tool, **arguments)).failed
    await tree.write(lambda db: db.run("DELETE FROM user_roles"))
    answer = await agent.call(tool, **arguments)
    assert answer.failed and "root works for owners alone" in answer.text


async def test_who_is_shut_out_of_a_group_reaches_it_by_no_other_agent(tmp_path: Path, tree: SqliteStore) -> None:
    await tree.write(lambda db: db.run("DELETE FROM user_roles"))
    shut = AclRow(id=0, principal=ANN, action="interact", scope="acme/eng", effect=AclEffect.DENY)
    await tree.write(acl.put, shut, 1)
    agent = await GateAgent.create(tmp_path, tree, "acme")
    answer = await agent.call("delegate_group", group="acme/eng", prompt="look")
    assert answer.failed and "may not speak to it" in answer.text
    assert not (await agent.call("delegate_group", group="acme/ops", prompt="look")).failed


async def test_a_turn_that_was_stopped_gives_nothing_out_any_more(tmp_path: Path, tree: SqliteStore) -> None:
    """Nobody would stop it: the stop has passed already."""
    agent = await GateAgent.create(tmp_path, tree, "acme")
    turn = await tree.read(turns.find_open, agent.session.id)
    assert turn is not None
    agent.caller = Caller("acme", agent.session.id, "scripted", running=lambda: turn)
    await tree.write(turns.cancel, turn.id, "stopped by x", agent.deps.clock.now())
    answer = await agent.call("delegate_group", group="acme/eng", prompt="look")
    assert answer.failed and "the turn was ended before this call" in answer.text


async def test_an_agent_cannot_have_sandboxes_without_end_by_inventing_names(
    tmp_path: Path, tree: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_errands, "MOST_NAMED", 2)
    agent = await GateAgent.create(tmp_path, tree, "acme")
    for name in ("a", "b"):
        told(await agent.call("send_to_agent", group="acme/eng", text="look", session=name))
    answer = await agent.call("send_to_agent", group="acme/eng", text="look", session="c")
    assert answer.failed and "conversations with it that have names" in answer.text
    told(await agent.call("send_to_agent", group="acme/eng", text="look", session="b"))
    told(await agent.call("send_to_agent", group="acme/eng", text="look"))
    told(await agent.call("send_to_agent", group="acme/eng/sre", text="look", session="c"))
