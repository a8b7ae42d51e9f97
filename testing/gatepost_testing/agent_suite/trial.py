"""An agent for one check: an endpoint that plays a script, and gateways on one home that put the agent to work."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from gatepost.app import Gateway
from gatepost.messages.inbound import Receipt
from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost_testing.agent_profiles import PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint, RecordedRequest

ANN = "fake:user/1"  # who speaks, if nobody else is named
INTERIM = "/status"  # in the key of a line that is taken back
Turn = Mapping[str, Any]  # of a script


class AgentTrial:
    """`note`: to a pass, what the check left out."""

    def __init__(self, agent: AgentProfile, folder: Path, endpoint: ModelEndpoint) -> None:
        self.agent, self.folder, self.endpoint = agent, folder, endpoint
        self.note = ""
        self.channel = FakeChannel()
        self._gateway: Gateway | None = None
        self._ids = count(1)

    @asynccontextmanager
    async def running(self, *turns: Turn, side: str = "A conversation", **options: Any) -> AsyncIterator[Gateway]:
        """A gateway whose agent's model plays these turns; a later one has the same home. `options`: of the group."""
        self.play(*turns, side=side)
        self.channel = FakeChannel()
        prices, agent = self.folder / "prices.toml", self.agent
        if agent.window:  # a local model, which is in no list
            each = [f"[{name}]\ninput = 0.5\noutput = 1.5\n" for name in (agent.model, agent.other_model)]
            prices.write_text("".join(each))
        settings = {"prices__file": str(prices)} if agent.window else {}
        async with run_agent_gateway(
            agent, self.folder / "h", self.channel, self.endpoint, settings=settings, **options
        ) as gateway:
            self._gateway = gateway
            yield gateway

    def play(self, *turns: Turn, side: str = "A conversation") -> None:
        self.endpoint.play({"tools": True, "side": side, "turns": list(turns), "default": [{"say": "I see."}]})

    @property
    def gateway(self) -> Gateway:
        assert self._gateway is not None
        return self._gateway

    # People.

    async def send(self, text: str, **more: Any) -> Receipt:
        return await self.channel.say(text, platform_id=f"said-{next(self._ids)}", **more)

    async def ask(self, text: str, **more: Any) -> list[str]:
        """Say it, and return what is answered, once nothing is in flight any more."""
        before = len(self.channel.sent)
        await self.send(text, **more)
        return await self.settle(before)

    async def settle(self, before: int = 0) -> list[str]:
        """Return what people can read beyond the first `before` effects."""
        account = await wait_until_settled(self.gateway, PATIENCE)
        assert account.unaccounted == 0, f"{account.unaccounted} messages are not accounted for"
        return self.list_answers(before)

    def list_answers(self, before: int = 0) -> list[str]:
        """Return what was said beyond the first `before` effects, but for interim lines."""
        sent = [each.message for each in self.channel.sent[before:]]
        return [each.text for each in sent if each.op is Op.SEND and each.text and INTERIM not in each.key]

    def list_interim_lines(self) -> list[str]:
        sent = [each.message for each in self.channel.sent]
        return [each.text for each in sent if each.text and INTERIM in each.key]

    async def make_owner(self, sender: str = ANN) -> None:
        def add(db: Db) -> None:
            users.add(db, sender, "", 1)
            users.add_role(db, sender, UserRole.OWNER, "", "test", 1)
            users.add_member(db, sender, "home", "test", 1)

        await self.gateway.store.write(add)

    async def wait_until_given(self, receipt: Receipt) -> inbox.InboxEntry:
        """Wait until the agent has the message."""
        async with asyncio.timeout(PATIENCE):
            while True:
                entry = await self.get_entry(receipt)
                if entry.given:
                    return entry
                await asyncio.sleep(0.01)

    async def get_entry(self, receipt: Receipt) -> inbox.InboxEntry:
        (entry,) = await self.gateway.store.read(inbox.list_for_message, receipt.message_id)
        return entry

    # The model.

    @property
    def asked(self) -> list[RecordedRequest]:
        """Return what the model was asked for people, not what names or sums up a conversation."""
        return [call for call in self.endpoint.calls if call.tools]

    async def wait_for_call(self, number: int) -> None:
        await self.endpoint.wait_for(number, PATIENCE)


def expect(said: list[str], wanted: list[str]) -> None:
    """Compare what people read with what they are to read; a failure says both."""
    assert said == wanted, f"{said}, not {wanted}"


@asynccontextmanager
async def try_agent(agent: AgentProfile) -> AsyncIterator[AgentTrial]:
    listed = {"id": agent.model, "max_model_len": agent.window} if agent.window else {}
    with tempfile.TemporaryDirectory(prefix="gatepost-agent-", ignore_cleanup_errors=True) as folder:
        async with ModelEndpoint(window=agent.window, listed=listed) as endpoint:
            yield AgentTrial(agent, Path(folder), endpoint)
