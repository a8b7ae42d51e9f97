"""Whose rights and money a whole gateway uses, when agents pass work on and people write one after another."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import Period
from gatepost.core.keyring import Keyring
from gatepost.flow import grant_changes
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, secrets, waiting_requests
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rooms import origins
from gatepost.store.sessions import groups, sessions, turns
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import until

from .conftest import ROOM, add_looker

ADA, BOB = "fake:user/ada", "fake:user/bob"
SCRIPT: dict[str, Any] = {
    "turns": [
        {"when": "on your own", "do": [{"say": "done"}]},
        {
            "when": "please",
            "do": [{"call": "inject_message", "with": {"content": "on your own"}}, {"say": "passed on"}],
        },
        {"when": "hello from", "do": [{"say": "hello yourself"}]},
    ]
}
walled = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed")


@asynccontextmanager
async def with_a_model(path: Path, channel: FakeChannel, endpoint: ModelEndpoint) -> AsyncIterator[Gateway]:
    """A provider in a sandbox that reaches a scripted model by egress.sock. Ada and Bob have keys of their own."""
    path.parent.chmod(0o711)
    given: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": "anthropic",
        "anthropic__base_url": endpoint.anthropic,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        ring, now = Keyring(gateway.home), gateway.clock.now()

        def prepare(db: Db) -> None:
            groups.update(db, "home", {"model": "claude-sonnet-4-5"})
            secrets.put(db, ring, SecretOwner(), "ANTHROPIC_API_KEY", "sk-of-all", now)
            for person, key in ((ADA, "sk-of-ada"), (BOB, "sk-of-bob")):
                users.add(db, person, "", now)
                secrets.put(db, ring, SecretOwner(user_id=person), "ANTHROPIC_API_KEY", key, now)

        await gateway.store.write(prepare)
        await open_room(gateway, "fake", ROOM)
        yield gateway


@pytest.mark.slow
@walled
async def test_stranger_09_an_agent_that_injects_itself_a_message_spends_what_its_person_may(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, with_a_model(tmp_path / "h", channel, endpoint) as gateway:
        await channel.say("please", sender=ADA)
        await channel.wait_for(2)
        await wait_until_settled(gateway)
        (spent,) = await gateway.store.read(costs.list_sums, "user")

        def limit(db: Db) -> None:
            budgets.put(
                db, BudgetScope(BudgetScopeKind.USER, ADA), Period.DAY, spent.micro, "owner", gateway.clock.now()
            )

        assert (spent.key, spent.calls) == (ADA, 3)
        await gateway.store.write(limit)
        assert (await channel.say("please", sender=ADA)).state == "held"
    keys = [request.headers["x-api-key"] for request in endpoint.calls]
    assert keys == ["sk-of-ada", "sk-of-ada", "sk-of-all"]  # what the agent asks for has the group's key


@pytest.mark.slow
@walled
async def test_stranger_11_each_persons_message_is_sent_with_their_own_key_and_booked_on_them(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with ModelEndpoint(SCRIPT) as endpoint, with_a_model(tmp_path / "h", channel, endpoint) as gateway:
        for sender in (ADA, BOB, ADA):
            await channel.say(f"hello from {sender}", sender=sender)
        await channel.wait_for(3)
        await wait_until_settled(gateway)
        sums = {each.key: each.calls for each in await gateway.store.read(costs.list_sums, "user")}

    newest = [[line.text for line in request.lines if line.role == "user"][-1] for request in endpoint.calls]
    keys = [request.headers["x-api-key"] for request in endpoint.calls]
    assert [ADA in text for text in newest] == [True, False, True]
    assert keys == ["sk-of-ada", "sk-of-bob", "sk-of-ada"]
    assert sums == {ADA: 2, BOB: 1}


async def test_stranger_09_and_10_a_message_that_an_agent_injects_has_the_limits_of_who_asked(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        row = AclRow(id=0, principal=ADA, action="mcp:send", effect=AclEffect.DENY)
        await gateway.store.write(grant_changes.add_row, row, gateway.clock.now())
        gateway.events.tools(None)
        script = (
            ScriptBuilder().turn("^please$").call("inject_message", content="on your own").say("passed on: {result}")
        )
        script.turn("on your own").call("send", text="what was denied").say("sent: {result}")
        script.write(gateway.home.group("home"))

        await channel.say("please", sender=ADA)
        sent = await channel.wait_for(lambda sent: any("sent: " in each.message.text for each in sent))
        await wait_until_settled(gateway)

        texts = [each.message.text for each in sent]
        assert any('"injected":true' in text for text in texts)
        assert "a rule of this gateway forbids it" in texts[-1] and "what was denied" not in texts
        (session,) = await gateway.store.read(sessions.list_open, "home")
        first, second = await gateway.store.read(turns.list_for_session, session.id, 2**62, 10)
        assert [await gateway.store.read(costs.find_payer, turn.id) for turn in (first, second)] == [ADA, ADA]
        assert (await gateway.store.read(origins.get_for_turn, second.id)).depth == 1


@pytest.mark.slow
async def test_stranger_11_people_with_budgets_of_their_own_have_turns_of_their_own(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)

        def limit(db: Db) -> None:
            budgets.put(db, BudgetScope(BudgetScopeKind.USER, BOB), Period.DAY, 1_000_000, "owner", gateway.clock.now())

        await gateway.store.write(limit)
        for sender in (ADA, BOB, BOB, ADA, ADA, BOB):
            await channel.say("hello", sender=sender)
        await channel.wait_for(6)
        await wait_until_settled(gateway)

        (session,) = await gateway.store.read(sessions.list_open, "home")
        for turn in await gateway.store.read(turns.list_for_session, session.id, 2**62, 10):
            payer = await gateway.store.read(costs.find_payer, turn.id)
            assert await gateway.store.read(inbox.list_senders, turn.id) == [payer]


# Runs inside, after the turn in which it was started: waits until it is told to go on, and uses a tool.
BEHIND = r"""
import json, os, socket, sys, time
router, tool = sys.argv[1:]
while not os.path.exists("go"):
    time.sleep(0.02)
line = socket.socket(socket.AF_UNIX)
line.connect(router)
told = line.makefile("rw")
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
for number, (method, params) in enumerate((("initialize", hello), ("tools/call", json.loads(tool)))):
    told.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    told.flush()
    answer = told.readline()
with open("answer.part", "w") as file:
    file.write(answer)
os.rename("answer.part", "answer")
"""


@pytest.mark.slow
async def test_stranger_10_a_process_that_outlives_its_turn_may_no_more_than_the_turn_did(
    tmp_path: Path, channel: FakeChannel
) -> None:
    add_looker(tmp_path / "h")
    given: dict[str, Any] = {"sessions__provider": "looker"}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        row = AclRow(id=0, principal=ADA, action="mcp:send", effect=AclEffect.DENY)
        await gateway.store.write(grant_changes.add_row, row, gateway.clock.now())
        gateway.events.tools(None)
        group = gateway.home.group("home")
        (group / "behind.py").write_text(BEHIND)
        tool = {"name": "send", "arguments": {"text": "what was denied", "chatJid": ROOM}}
        start = f"[sys.executable, 'behind.py', str(place.router), {json.dumps(json.dumps(tool))}]"
        await channel.say(f"run answer = subprocess.Popen({start}, cwd=place.agent) and 'started'", sender=ADA)
        await channel.wait_for(1)
        await wait_until_settled(gateway)

        (group / "go").touch()
        await until(lambda: (group / "answer").exists(), "the process behind the turn")
        assert "a rule of this gateway forbids it" in (group / "answer").read_text()
        assert [each.message.text for each in channel.sent] == ["started"]


@pytest.mark.slow
async def test_what_a_person_is_denied_stays_denied_in_the_turn_that_hears_her_answer(tmp_path: Path) -> None:
    channel = FakeChannel()
    given: dict[str, Any] = {"questions__wait_s": 0.05}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)

        def deny(db: Db) -> None:
            now = gateway.clock.now()
            users.add(db, ADA, "", now)
            users.add_member(db, ADA, "home", "test", now)
            acl.put(
                db,
                AclRow(
                    id=0, principal=ADA, action="mcp:send", scope="**", effect=AclEffect.DENY, granted_by=acl.OPERATOR
                ),
                now,
            )

        await gateway.store.write(deny)
        gateway.events.tools()
        script = (
            ScriptBuilder().turn("ask me").call("ask_user_question", questions=[{"question": "Which?"}]).say("asked")
        )
        script = script.turn("try it").call("send", text="sent at once").say("tried")
        script = script.turn(kind="system").call("send", text="sent later").say("and then")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("try it", sender=ADA)
        await wait_until_settled(gateway)
        await channel.say("ask me", sender=ADA)
        await wait_until_settled(gateway)
        (request,) = await gateway.store.read(waiting_requests.list_pending)
        await channel.say(f"/answer {request.id} that one", sender=ADA)
        await channel.wait_for(lambda sent: any(each.message.text == "and then" for each in sent))
        await wait_until_settled(gateway)
        assert not {"sent at once", "sent later"} & {*channel.texts(ROOM)}
