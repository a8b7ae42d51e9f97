"""A file that could not be sent at once is sent whole with the next try."""

from pathlib import Path

import pytest

from gatepost.messages.outbound import Outbound
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM = "fake:room/1"


class ReadingChannel(FakeChannel):
    """Reads the files that it is given with each try, as a platform does while it sends."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[str, list[bytes]]] = []

    async def send(self, address: str, message: Outbound) -> str:
        self.read.append((message.text, [Path(file.path).read_bytes() for file in message.files]))
        return await super().send(address, message)


@pytest.mark.parametrize("failures", [1, 3])
async def test_arizuko_d24_a_file_is_sent_again_with_its_bytes_and_not_as_its_caption_alone(
    tmp_path: Path, failures: int
) -> None:
    channel = ReadingChannel()
    channel.script(*[SendFault.UNAVAILABLE] * failures)
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("plan").write_file("plan.txt", "step one")
        script.call("send_file", filepath="plan.txt", caption="the plan").write(gateway.home.group("home"))
        await channel.say("the plan, please")
        await channel.wait_for(1)
        await wait_until_settled(gateway)
    assert channel.read == [("the plan", [b"step one"])] * (failures + 1)
    assert channel.texts(ROOM) == ["the plan"]
