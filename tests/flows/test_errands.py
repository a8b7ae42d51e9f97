"""Work that one agent gives to another, through whole gateways: from the person down and back, and what may go wrong."""

import json
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.messages.inbound import Direction
from gatepost.store import budgets, errands, groups, outbox, users
from gatepost.store.errands import Errand, ErrandState
from gatepost.store.port import Db
from gatepost.store.users import UserRole
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost.testing.provider import ScriptBuilder

from .conftest import ROOM, add_group, add_route

ANN = "fake:user/1"
CHAIN = ("root", "acme", "acme/eng", "acme/eng/sre")


async def settle(gateway: Gateway, *folders: str) -> None:
    for folder in folders:
        if folder != "root":
            await add_group(gateway, folder)
    await open_room(gateway, "fake", ROOM)
    await gateway.store.write(_add_owner, gateway.clock.now())


def _add_owner(db: Db, now: int) -> None:
    users.add(db, ANN, "Ann", now)
    users.add_role(db, ANN, UserRole.OWNER, "", "test", now)


def list_all(db: Db) -> list[Errand]:
    return errands.ERRANDS.list(db, "ORDER BY id")


def write_chain(gateway: Gateway) -> None:
    """Each gives the question to the next and passes on what comes back; the last one answers."""
    for folder, below in zip(CHAIN, CHAIN[1:], strict=False):
        script = ScriptBuilder()
        if folder == "acme/eng":  # delegate_group is for worlds and root
            script.turn("how many").call("send_to_agent", group=below, text="how many servers?")
        else:
            script.turn("how many").call("delegate_group", group=below, prompt="how many servers?")
        script.turn("", kind="system").say(f"{folder}: {{text}}")
        script.write(gateway.home.group(folder))
    ScriptBuilder().turn("how many").say("seven").write(gateway.home.group(CHAIN[-1]))


async def test_work_goes_down_three_groups_and_comes_back_as_one_answer(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path, {"fake": (channel.kind, channel)}) as gateway:
        await settle(gateway, *CHAIN)
        await add_route(gateway, f"chat_jid={ROOM}", "root")
        write_chain(gateway)
        await channel.say("how many servers do we have?")
        await channel.wait_for(1, 8)
        await wait_until_settled(gateway)
        assert channel.texts(ROOM) == ["root: acme: acme/eng: seven"]
        found = await gateway.store.read(list_all)
        assert [each.state for each in found] == [ErrandState.DONE] * 3
        assert [each.parent for each in found] == ["", found[0].id, found[1].id]
