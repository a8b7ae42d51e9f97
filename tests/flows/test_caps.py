"""Caps on a whole gateway: an agent that runs in circles ends at the limit of one answer, and a conversation at its
own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.keyring import Keyring
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind, CapSpan
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import secrets, waiting_requests
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint

ROOM, HOME = "fake:room/1", BudgetScope(BudgetScopeKind.GROUP, "home")
DEAR = {"input": 1000, "output": 2000}  # tokens: three cents with claude-sonnet-4-5
SCRIPT: dict[str, Any] = {
    "tools": True,
    "turns": [
        {"when": "circle", "do": [{"call": "get_work", "usage": DEAR}]},  # again and again
        {"when": "hello", "do": [{"say": "here", "usage": DEAR}]},
    ],
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed"),
]


@asynccontextmanager
async def a_gateway(path: Path, channel: FakeChannel, endpoint: ModelEndpoint) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    given: dict[str, Any] = {"sessions__provider": "anthropic", "anthropic__base_url": endpoint.anthropic}
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.update, "home", {"model": "claude-sonnet-4-5"})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        owner, name = SecretOwner(), secrets.ANTHROPIC_API_KEY
        await gateway.store.write(secrets.put, keyring, owner, name, "sk-very-secret-000", now)
        await open_room(gateway, "fake", ROOM)
        yield gateway


async def limit(gateway: Gateway, span: CapSpan, micro: int) -> None:
    await gateway.store.write(budgets.put, HOME, span, micro, "test", gateway.clock.now())


def add_member(db: Db) -> None:
    users.add(db, "fake:user/1", "Eve", 1)
    users.add_member(db, "fake:user/1", "home", "test", 1)


async def sum_costs(gateway: Gateway) -> int:
    return sum(each.micro for each in await gateway.store.read(costs.list_sums, "group"))


async def test_an_agent_in_circles_ends_at_the_limit_of_its_answer_and_the_next_one_begins_anew(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await limit(gateway, CapSpan.TURN, 200_000)
        receipt = await channel.say("go in a circle")
        await wait_until_settled(gateway)
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert entry.state == "failed" and "The limit of one answer has no room for this call" in entry.reason
        said = "This answer reached its limit of $0.20. Write again to go on: the next one has a limit of its own."
        assert [sent.message.text for sent in channel.sent] == [said]
        assert 0 < await sum_costs(gateway) <= 200_000

        await channel.say("hello")
        await wait_until_settled(gateway)
        assert channel.sent[-1].message.text == "here"


async def test_a_conversation_at_its_limit_waits_and_goes_on_when_it_is_begun_anew(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint) as gateway:
        await gateway.store.write(add_member)
        await channel.say("hello")
        await wait_until_settled(gateway)
        await limit(gateway, CapSpan.SESSION, await sum_costs(gateway))
        receipt = await channel.say("hello again")
        assert receipt.state == "held"
        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        assert asked.input["budget"] == "The limit of a conversation of home"

        await channel.say("/new")
        await channel.wait_for(4)
        await wait_until_settled(gateway)
        told = [sent.message.text for sent in channel.sent]
        assert told[0] == "here" and told[-1] == "here"
        assert "/new starts a new one. Your message waits" in told[1]
        assert await gateway.store.read(waiting_requests.list_pending) == []
