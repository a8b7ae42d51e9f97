"""Tokens of programs that are adapters: made with their channel, shown once, for that channel alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.errors import GatepostError, Invalid
from gatepost.flow.channel_supervisor import make_token_check
from gatepost.messages.outbound import Feature
from gatepost_testing.gateway import running_gateway
from gatepost_testing.operation_harness import OperationHarness


class Office(OperationHarness):
    async def knows(self, instance: str, token: str) -> bool:
        return await make_token_check(self.gateway.store, self.gateway.clock, instance)(token)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with running_gateway(tmp_path) as gateway:
        yield Office(gateway)


async def test_a_token_makes_its_channel_which_can_do_what_was_said(office: Office) -> None:
    made = await office.run("channel.token", instance="bridge", features=["edit", "keyed"], max_text=500)
    assert made["is_new"] and made["url"].endswith("/channels/bridge") and made["max_text"] == 500
    kind = office.gateway.supervisor._kinds["bridge"]
    assert (kind.name, kind.features, kind.max_text) == ("bridge", {Feature.EDIT, Feature.KEYED}, 500)


@pytest.mark.slow
async def test_a_token_is_for_its_channel_and_until_the_next_one_or_the_channels_end(office: Office) -> None:
    first, other = [(await office.run("channel.token", instance=each))["secret"] for each in ("bridge", "other")]
    assert await office.knows("bridge", first) and not await office.knows("other", first)
    second = await office.run("channel.token", instance="bridge")
    assert (second["is_new"], second["revoked"]) == (False, 1)
    assert not await office.knows("bridge", first) and await office.knows("bridge", second["secret"])
    await office.run("channel.remove", instance="bridge")
    assert not await office.knows("bridge", second["secret"]) and await office.knows("other", other)


async def test_the_token_is_in_no_record(office: Office) -> None:
    secret = (await office.run("channel.token", instance="bridge"))["secret"]
    rows = await office.run("audit.list")
    assert any(each["action"] == "channel.token" for each in rows) and secret not in str(rows)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({"instance": "telegram"}, "name"),
        ({"instance": "web"}, "name"),
        ({"instance": "role"}, "another name"),
        ({"instance": "a b"}, "name"),
        ({"instance": "bridge", "features": ["edits"]}, "edits"),
        ({"instance": "bridge", "features": ["history"]}, "history"),
        ({"instance": "bridge", "max_text": 5}, "max_text"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_made(office: Office, args: dict[str, Any], named: str) -> None:
    before = await office.run("channel.list")
    with pytest.raises(GatepostError, match=named):
        await office.run("channel.token", **args)
    assert len(await office.run("channel.list")) == len(before)


async def test_only_a_program_has_such_a_token(office: Office) -> None:
    with pytest.raises(Invalid, match="kind terminal"):
        await office.run("channel.token", instance="terminal")
