"""Trouble that passes costs nobody an answer: it is waited out by time, however many messages arrive meanwhile."""

from collections.abc import Callable
from pathlib import Path

from gatepost.app import Gateway
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.sandboxes.contract import SANDBOXES, Sandbox, SandboxKind, SandboxPlan
from gatepost.store.messages import inbox
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import until


class Outage:
    """A kind of sandbox that starts nothing while the host lacks descriptors."""

    isolated = True

    def __init__(self, config: Config) -> None:
        self._kind = SANDBOXES["process"](config)
        self.away, self.starts = True, 0

    def trouble(self) -> str | None:
        return None

    async def start(self, plan: SandboxPlan) -> Sandbox:
        self.starts += 1
        if self.away:
            raise Unavailable("the sandbox", "Too many open files")
        return await self._kind.start(plan)

    def sweep(self, prefix: str) -> int:
        return 0


def use(gateway: Gateway, kind: SandboxKind) -> None:
    registry: Registry[Callable[[Config], SandboxKind]] = Registry("sandbox")
    registry.add("process", lambda _: kind, "test")
    gateway.sessions.deps = replace(gateway.sessions.deps, sandboxes=registry)


async def test_stranger_20_an_outage_of_15_s_with_eleven_arrivals_fails_none(tmp_path: Path) -> None:
    channel, clock = FakeChannel(), FixedClock()
    given = {"sessions__retry_s": 5.0, "sessions__look_s": 0.02}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock, **given) as gateway:
        kind = Outage(gateway.config)
        use(gateway, kind)
        await open_room(gateway, "fake", "fake:room/1")
        receipts = [await channel.say("first")]
        await until(lambda: kind.starts == 1 and not gateway.sessions.awake)
        receipts += [await channel.say(f"another {number}") for number in range(10)]
        clock.advance(5)
        await until(lambda: kind.starts == 2 and not gateway.sessions.awake)
        clock.advance(5)
        kind.away = False
        clock.advance(5)
        await channel.wait_for(11)
        await wait_until_settled(gateway)

        entries = [
            entry for each in receipts for entry in await gateway.store.read(inbox.list_for_message, each.message_id)
        ]
        assert [entry.state for entry in entries] == ["answered"] * 11
        assert kind.starts == 3
        assert max(entry.tries for entry in entries) == 2
