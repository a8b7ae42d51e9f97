"""Memory that no cgroup limits is watched, whatever it is made of."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.flow.sessions.sandbox import sandbox_plan
from gatepost.sandboxes import cgroups
from gatepost.sandboxes.bubblewrap import Bubblewrap, find_bwrap
from gatepost.sandboxes.contract import SANDBOXES
from gatepost.store.money import ledger
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled

from .conftest import ROOM, add_looker

pytestmark = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")

MEMFD = """run pass
kept = [os.memfd_create('a'), os.memfd_create('b')]
for handle in kept:
    for _ in range(100):
        os.write(handle, bytes(1 << 20))
time.sleep(60)
"""
SHARED = """run import mmap
kept = mmap.mmap(-1, 200 << 20)
for page in range(0, 200 << 20, 4096):
    kept[page] = 1
time.sleep(60)
"""
IN_TMP = """run pass
for name in ('/tmp/a', '/dev/shm/b'):
    open(name, 'wb').write(bytes(78 << 20))
time.sleep(60)
"""


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(MEMFD, id="memfd"),
        pytest.param(SHARED, id="shared", marks=pytest.mark.slow),
        pytest.param(IN_TMP, id="tmpfs", marks=pytest.mark.slow),
    ],
)
async def test_stranger_08_memory_without_a_cgroup_is_watched(
    tmp_path: Path, channel: FakeChannel, attack: str
) -> None:
    add_looker(tmp_path / "h")
    channels = {"fake": (channel.kind, channel)}
    settings: dict[str, Any] = {
        "sandbox__kind": "bubblewrap",
        "sessions__provider": "looker",
        "sandbox__memory_mb": 160,
    }
    async with running_gateway(tmp_path / "h", channels, **settings, sessions__tries=1) as gateway:
        kind = sandbox_plan._kind("bubblewrap", gateway.config, SANDBOXES)
        assert isinstance(kind, Bubblewrap)
        kind._bases = cgroups.CgroupBases({}, None)
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say(attack)
        await wait_until_settled(gateway, 40)
        life = str(await gateway.store.read(ledger.trace_message, receipt.message_id))
        assert "takes more than 160 MB of memory" in life
