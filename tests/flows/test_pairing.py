"""A code of `gatepost pair`, sent in another channel, makes its sender the person, and unpairing ends that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.cli.operation_runner import run_operation
from gatepost.core.errors import Invalid
from gatepost.flow import grant_changes, pairing
from gatepost.store.messages import messages
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_for_shown_card, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, PHONE, DIRECT, EVE = "fake:room/1", "fake:user/phone", "fake:direct/phone", "fake:user/eve"
OWNER = "terminal:owner"


async def run(gateway: Gateway, name: str, **given: Any) -> Any:
    """As the command line does: it calls the gateway that runs."""
    return await asyncio.to_thread(run_operation, gateway.home, name, given)


def hold_send(db: Db, now: int) -> None:
    grant_changes.add_rule(db, "home", "hold send", "test", now)


@asynccontextmanager
async def started(home: Path, channel: FakeChannel) -> AsyncIterator[Gateway]:
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await gateway.store.write(hold_send, gateway.clock.now())
        gateway.events.tools()
        script = ScriptBuilder().turn("go").call("send", text="the plan").say("asked").turn("(.*)").say("got {1}")
        script.write(gateway.home.group("home")).chmod(0o644)
        yield gateway


async def pair(gateway: Gateway, channel: FakeChannel, **where: Any) -> str:
    code = str((await run(gateway, "user.pair"))["code"])
    receipt = await channel.say(code, sender=PHONE, **where)
    assert (receipt.state, receipt.reason) == ("answered", "paired")
    await channel.wait_for(lambda sent: any("Paired: you are Owner" in each.message.text for each in sent))
    return code


async def ask(gateway: Gateway, channel: FakeChannel) -> Request:
    """The agent asks for a call that is held."""
    await channel.say("go")
    await channel.wait_for(lambda sent: any("wants to send" in each.message.text for each in sent))
    await wait_for_shown_card(gateway)
    (request,) = await gateway.store.read(waiting_requests.list_pending)
    return request


async def read_decided(gateway: Gateway, request: Request) -> Request:
    found = await gateway.store.read(requests.get, request.id)
    assert found is not None
    return found


@pytest.mark.slow
async def test_a_stranger_who_sends_the_code_is_the_owner_and_decides(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await pair(gateway, channel, address=DIRECT, direct=True)
        assert await gateway.store.read(identities.list_names, PHONE) == (OWNER, "web:user/owner", PHONE)

        request = await ask(gateway, channel)
        await reply_to_card(gateway, channel, "1", sender=PHONE)
        await channel.wait_for(lambda sent: any(each.message.text == "the plan" for each in sent))
        await wait_until_settled(gateway)
        decided = await read_decided(gateway, request)
        assert (decided.state, decided.answered_by) == (RequestState.ALLOWED, OWNER)


@pytest.mark.slow
async def test_the_first_identity_decides_what_was_asked_on_the_other(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await pair(gateway, channel, address=DIRECT, direct=True)
        request = await ask(gateway, channel)
        await channel.say(f"/approve {request.id}", sender="web:user/owner")
        await channel.wait_for(lambda sent: any(each.message.text == "the plan" for each in sent))
        await wait_until_settled(gateway)
        assert (await read_decided(gateway, request)).answered_by == OWNER


@pytest.mark.slow
async def test_the_code_is_in_no_ledger_and_no_agent_gets_it(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = await pair(gateway, channel)
        await channel.say(f"/pair {code}", sender=EVE)
        await channel.say(code, sender=EVE, event="edit:1")
        await wait_until_settled(gateway)
        texts = [each.text for each in await gateway.store.read(messages.list_in_room, "fake", ROOM, 0, 100)]
        assert "GP-****-****-****" in texts
        assert not any(f"got {code}" in text for text in channel.texts(ROOM))
    plain = code.removeprefix("GP-")
    kept = [path for path in (tmp_path / "h").rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if plain.encode() in path.read_bytes()]


async def test_a_code_that_was_used_is_refused_with_an_answer(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = await pair(gateway, channel)
        again = await channel.say(f"/pair {code}", sender=EVE)
        assert (again.state, again.reason) == ("refused", "pairing_code_used")
        await channel.wait_for(lambda sent: any("was used before" in each.message.text for each in sent))
        assert await gateway.store.read(identities.get_person, EVE) == EVE


@pytest.mark.slow
async def test_unpaired_the_identity_decides_nothing(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        await pair(gateway, channel, address=DIRECT, direct=True)
        request = await ask(gateway, channel)
        assert await run(gateway, "user.unpair", identity=PHONE) == {"identity": PHONE, "person": OWNER}
        await channel.say("1", address=DIRECT, sender=PHONE, direct=True)
        await channel.say(f"/approve {request.id}", address=DIRECT, sender=PHONE, direct=True)
        await channel.wait_for(lambda sent: any("Only an admin" in each.message.text for each in sent))
        assert (await read_decided(gateway, request)).state is RequestState.PENDING


@pytest.mark.slow
async def test_a_guesser_is_limited(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel) as gateway:
        code = (await run(gateway, "user.pair"))["code"]
        for _ in range(30):
            await channel.say("GP-2222-3333-4444", sender=EVE)
        assert (await channel.say(code, sender=EVE)).state == "refused"
        await channel.wait_for(lambda sent: any("too many wrong codes" in each.message.text for each in sent))
        assert len([text for text in channel.texts(ROOM) if "code" in text]) == 5

        def count(db: Db) -> int:
            row = db.row("SELECT COUNT(*) FROM audit WHERE actor = ? AND action = 'user.pair'", (EVE,))
            return int(row[0]) if row else 0

        assert await gateway.store.read(count) == 5
        assert await gateway.store.read(audit.get_head)
        assert (await channel.say(code, sender=PHONE)).state == "answered"


async def test_the_command_without_a_code_is_answered(tmp_path: Path, channel: FakeChannel) -> None:
    async with started(tmp_path / "h", channel):
        assert (await channel.say("/pair", sender=EVE)).reason == "pairing_without_code"
        await channel.wait_for(lambda sent: any("Write /pair and the code" in each.message.text for each in sent))


async def test_in_a_direct_chat_the_command_without_a_code_is_answered_with_a_link(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(
        tmp_path / "h", {"fake": (channel.kind, channel)}, web__url="https://gate.example"
    ) as gateway:
        gateway.page_address = "127.0.0.1:8420"  # the page is served
        receipt = await channel.say("/pair", sender=PHONE, address=DIRECT, direct=True)
        assert (receipt.state, receipt.reason) == ("answered", "pairing_link")
        await channel.wait_for(lambda sent: any("https://gate.example/pair/" in each.message.text for each in sent))
        (text,) = channel.texts(DIRECT)
        token = text.partition("/pair/")[2].split()[0]
        assert await gateway.store.read(identities.get_person, PHONE) == PHONE
        now = gateway.clock.now()
        result, _ = await gateway.store.write(pairing.confirm_link, token, "web:user/owner", now, gateway.channels)
        gateway.events.room("fake", DIRECT)
        await channel.wait_for(lambda sent: any("Paired: you are Owner" in each.message.text for each in sent))
        assert result.paired
        assert (await channel.say("hello", sender=PHONE, address=DIRECT, direct=True)).state == "queued"


@pytest.mark.slow
async def test_the_operators_link_is_for_the_identity_that_is_named(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(
        tmp_path / "h", {"fake": (channel.kind, channel)}, web__url="https://gate.example"
    ) as gateway:
        made = await run(gateway, "user.pair", id=PHONE, link=True)
        assert (made["code"], made["identity"]) == ("", PHONE)
        offer = await gateway.store.read(
            pairing.read_link, made["link"].rpartition("/")[2], "web:user/owner", gateway.clock.now()
        )
        assert (offer.identity, offer.person) == (PHONE, OWNER)
        for given in ({}, {"id": "nonsense"}):
            with pytest.raises(Invalid, match="id"):
                await run(gateway, "user.pair", link=True, **given)
