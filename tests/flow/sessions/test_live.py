"""A session that comes to nothing: whatever keeps it from its work, it is not woken for ever."""

from pathlib import Path

from gatepost.store import inbox
from gatepost.testing.channel import FakeChannel
from gatepost.testing.gateway import open_room, running_gateway, settled

SILENT = """
import time

time.sleep(1000)  # right after the runner has said hello
"""


async def test_a_runner_that_says_hello_and_nothing_more_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    channel = FakeChannel()
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "silent.py").write_text(SILENT)
    given = {"sessions__provider": "silent", "sessions__silence_s": 0.7, "sessions__tries": 1}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        receipt = await channel.say("hello")
        await channel.wait_for(1)
        await settled(gateway)

        (entry,) = await gateway.store.read(inbox.of_message, receipt.message_id)
        assert (entry.state, entry.tries) == ("failed", 2)
        assert "went silent" in entry.reason
        assert channel.sent[0].message.text.startswith("Sorry")
