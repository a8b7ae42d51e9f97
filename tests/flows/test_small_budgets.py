"""A budget that is too small for the first step of an answer, and a model without a price: the message waits, a card
asks, and it goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import Period
from gatepost.core.keyring import Keyring
from gatepost.http_apps import make_operation_deps
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.serve.control.contract import OPERATIONS
from gatepost.store.messages import inbox
from gatepost.store.money import budgets, costs
from gatepost.store.money.budgets import BudgetScope, BudgetScopeKind
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import secrets, waiting_requests
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import groups
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.models import ModelEndpoint

ROOM, DIRECT, ANN = "fake:room/1", "fake:room/ann", "fake:user/ann"
HOME = BudgetScope(BudgetScopeKind.GROUP, "home")
SCRIPT: dict[str, Any] = {"turns": [{"when": "hello", "do": [{"say": "here"}]}]}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed"),
]


def add_owner(db: Db) -> None:
    users.add(db, ANN, "Ann", 1)
    users.add_role(db, ANN, UserRole.OWNER, "", "test", 1)
    direct_rooms.add(db, ANN, "fake", DIRECT, 1)


@asynccontextmanager
async def a_gateway(path: Path, channel: FakeChannel, endpoint: ModelEndpoint, model: str) -> AsyncIterator[Gateway]:
    path.parent.chmod(0o711)
    path.mkdir()
    (path / "gatepost.toml").write_text(f'[anthropic]\nbase_url = "{endpoint.anthropic}"\n')  # read anew with a price
    given: dict[str, Any] = {
        "sessions__provider": "anthropic",
        "anthropic__base_url": endpoint.anthropic,
        "approvals__settle_s": 0.0,
    }
    async with running_gateway(path, {"fake": (channel.kind, channel)}, **given) as gateway:
        await gateway.store.write(groups.update, "home", {"model": model})
        keyring, now = Keyring(gateway.home), gateway.clock.now()
        owner, name = SecretOwner(), secrets.ANTHROPIC_API_KEY
        await gateway.store.write(secrets.put, keyring, owner, name, "sk-very-secret-000", now)
        await gateway.store.write(add_owner)
        await open_room(gateway, "fake", ROOM)
        await open_room(gateway, "fake", DIRECT)
        yield gateway


def list_texts(channel: FakeChannel, address: str) -> list[str]:
    return [sent.message.text for sent in channel.sent if sent.address == address]


async def test_a_budget_too_small_for_the_first_step_asks_for_more_and_the_message_goes_on(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        a_gateway(tmp_path / "h", channel, endpoint, "claude-sonnet-4-5") as gateway,
    ):
        await gateway.store.write(budgets.put, HOME, Period.DAY, 1_000, "test", gateway.clock.now())
        receipt = await channel.say("hello", address=ROOM)
        await channel.wait_for(2)
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert entry.state == "held" and await gateway.store.read(costs.list_sums, "group") == []
        (told,) = list_texts(channel, ROOM)
        assert told.startswith("Today's budget of home is too small for the next step: $0.00 of $0.001 are spent")
        assert "Your message waits" in told
        (card,) = list_texts(channel, DIRECT)
        assert "too small for the next step, and messages wait" in card and "more" in card

        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        await channel.say(f"/approve {asked.id}", address=DIRECT, sender=ANN)
        await wait_until_settled(gateway)
        assert list_texts(channel, ROOM)[-1] == "here"


async def test_a_small_budget_has_room_for_a_small_answer(tmp_path: Path) -> None:
    """What is set aside for a call is near to what it can cost, whatever the list of tools weighs in bytes."""
    channel = FakeChannel()
    async with (
        ModelEndpoint(SCRIPT) as endpoint,
        a_gateway(tmp_path / "h", channel, endpoint, "claude-sonnet-4-5") as gateway,
    ):
        await gateway.store.write(budgets.put, HOME, Period.DAY, 100_000, "test", gateway.clock.now())
        await channel.say("hello", address=ROOM)
        await wait_until_settled(gateway)
        assert list_texts(channel, ROOM) == ["here"]
        (spent,) = await gateway.store.read(costs.list_sums, "group")
        assert 0 < spent.micro < 20_000


async def find_waiting(gateway: Gateway, channel: FakeChannel, model: str) -> str:
    """The request about a model without a price, once its card is shown."""
    await channel.say("hello", address=ROOM)
    await channel.wait_for(2)
    (told,) = list_texts(channel, ROOM)
    assert told.startswith(f"The model {model} has no price yet") and "Your message waits" in told
    (card,) = list_texts(channel, DIRECT)
    assert "A model has no price, and messages wait: what does it cost?" in card and model in card
    (asked,) = await gateway.store.read(waiting_requests.list_pending)
    return asked.id


async def test_a_model_without_a_price_gets_one_on_the_card_and_the_message_goes_on(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint, "my-model") as gateway:
        asked = await find_waiting(gateway, channel, "my-model")
        for words in ("", " whatever", " 0.5"):  # none of these is a price
            await channel.say(f"/approve {asked}{words}", address=DIRECT, sender=ANN)
        assert len(await gateway.store.read(waiting_requests.list_pending)) == 1
        await channel.say(f"/approve {asked} 0.5/1.5", address=DIRECT, sender=ANN)
        await wait_until_settled(gateway)
        assert list_texts(channel, ROOM)[-1] == "here"
        assert '["my-model"]\ninput = 0.5\noutput = 1.5' in (tmp_path / "h" / "prices.toml").read_text()
        assert [each.key for each in await gateway.store.read(costs.list_sums, "model")] == ["my-model"]


async def test_a_price_that_is_set_by_command_ends_the_card(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint, "my-model") as gateway:
        await find_waiting(gateway, channel, "my-model")
        await OPERATIONS["price.set"](make_operation_deps(gateway), {"model": "my-model", "price": "0"})
        await wait_until_settled(gateway)
        assert list_texts(channel, ROOM)[-1] == "here"
        assert await gateway.store.read(waiting_requests.list_pending) == []


async def test_a_model_that_nobody_prices_is_refused_and_not_asked_about_again(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with ModelEndpoint(SCRIPT) as endpoint, a_gateway(tmp_path / "h", channel, endpoint, "my-model") as gateway:
        asked = await find_waiting(gateway, channel, "my-model")
        await channel.say(f"/deny {asked}", address=DIRECT, sender=ANN)
        await wait_until_settled(gateway)
        assert "was given no price" in list_texts(channel, ROOM)[-1]
        await channel.say("hello", address=ROOM)
        await wait_until_settled(gateway)
        assert "gatepost price set my-model" in list_texts(channel, ROOM)[-1]
        assert await gateway.store.read(waiting_requests.list_pending) == [] and endpoint.calls == []
