"""Sessions of a whole gateway over their life: resting, waking, making way, what they are given and what they cannot do
to the rest of it."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gatepost.flow.sessions.session_ending import Ending
from gatepost.messages.inbound import Attachment
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.store.money import ledger
from gatepost.store.sessions import groups, sessions
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import until

from .conftest import ROOM, add_looker

ROOMS = tuple(f"fake:room/{number}" for number in (1, 2, 3))
needs_socat = pytest.mark.skipif(shutil.which("socat") is None, reason="socat is not installed: apt install socat")
needs_bwrap = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")
kinds = pytest.mark.parametrize("kind", ["process", pytest.param("bubblewrap", marks=needs_bwrap)])


async def test_nanoclaw_20_a_session_that_rested_is_woken_with_the_same_conversation(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__idle_s=0.2) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("first")
        await channel.wait_for(1)
        (session,) = await gateway.store.read(sessions.list_open, "home")
        before = await gateway.store.read(sessions.get_conversation, session.id, "scripted")
        await until(lambda: gateway.sessions.awake == [], "the session to rest")

        await channel.say("second")
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert channel.texts() == ["echo: first", "echo: second"]
        assert before and await gateway.store.read(sessions.get_conversation, session.id, "scripted") == before
        held = gateway.home.session(session.id) / "state" / "scripted" / f"{before}.jsonl"
        assert [json.loads(line)["text"] for line in held.read_text().splitlines()] == ["first", "second"]


@pytest.mark.slow
async def test_nanoclaw_43_with_one_place_three_rooms_are_all_answered_and_never_two_awake(
    tmp_path: Path, channel: FakeChannel
) -> None:
    most = 0

    async def count() -> None:
        nonlocal most
        while True:
            most = max(most, len(gateway.sessions.awake))
            await asyncio.sleep(0.001)

    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__most_awake=1) as gateway:
        for room in ROOMS:
            await open_room(gateway, "fake", room)
        counting = asyncio.create_task(count())
        await asyncio.gather(*(channel.say("hello", address=room) for room in ROOMS))
        await channel.wait_for(3)  # those that rest make way at once: nobody waits to be idle
        await asyncio.gather(*(channel.say("again", address=room) for room in ROOMS))
        await channel.wait_for(6)
        account = await wait_until_settled(gateway)
        counting.cancel()

        assert [channel.texts(room) for room in ROOMS] == [["echo: hello", "echo: again"]] * 3
        assert most == 1
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_38_a_provider_that_was_switched_and_switched_back_goes_on_with_its_own_conversation(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        named = []
        for number, provider in enumerate(("scripted", "looker", "scripted"), start=1):
            await gateway.store.write(groups.update, "home", {"provider": provider})
            await channel.say(f"run answer = {number}")
            await channel.wait_for(number)
            await wait_until_settled(gateway)
            (session,) = await gateway.store.read(sessions.list_open, "home")
            named.append(await gateway.store.read(sessions.get_conversation, session.id, provider))
            gateway.sessions.awake[0].kill(Ending("its group was changed"))
            await until(lambda: gateway.sessions.awake == [], "the old provider to be gone")

        assert channel.texts() == ["echo: run answer = 1", "2", "echo: run answer = 3"]
        assert named[0] == named[2] and named[1] == "c-1" and named[0] != named[1]
        held = gateway.home.session(session.id) / "state" / "scripted" / f"{named[0]}.jsonl"
        took = [json.loads(line) for line in held.read_text().splitlines()]
        # In its own conversation, and told once what was said while the other one spoke.
        assert [(line["kind"], line["text"]) for line in took] == [
            ("chat", "run answer = 1"),
            ("chat", "run answer = 3"),
            ("system", ""),
        ]


@pytest.mark.slow
@kinds
async def test_an_attachment_can_be_read_where_the_prompt_says_and_stays_after_the_turn(
    tmp_path: Path, channel: FakeChannel, kind: str
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    settings: dict[str, Any] = {"sessions__provider": "looker", "sandbox__kind": kind}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room(gateway, "fake", ROOM)
        look = r"run answer = open(re.findall(r'saved as ([^\]]+)\]', prompt)[-1], 'rb').read().hex()"
        data = bytes(range(256))
        await channel.say(look, attachments=(Attachment(name="odd name.bin", data=data),))
        (answer,) = await channel.wait_for(1)
        await wait_until_settled(gateway)

        assert answer.message.text == data.hex()
        (session,) = await gateway.store.read(sessions.list_open, "home")
        files = gateway.home.session(session.id) / "in" / "files"
        await channel.say("run answer = 'next'")
        await channel.wait_for(2)
        assert [each.read_bytes() for each in files.rglob("*") if each.is_file()] == [data]


BRIDGE = """
import gatepost.inside.bridge
lines = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "send", "arguments": {"text": "by hand"}}},
]
import json
given = "".join(json.dumps(line) + chr(10) for line in lines)
ways = {
    "bridge": [sys.executable, "-I", "-S", gatepost.inside.bridge.__file__, "--socket", str(place.router)],
    "socat": ["socat", "-t5", "-", f"UNIX-CONNECT:{place.router}"],
}
done = subprocess.run(ways[WAY], input=given, capture_output=True, text=True, timeout=20)
answer = json.dumps([done.returncode, done.stdout.splitlines(), done.stderr])
"""


@pytest.mark.slow
@needs_bwrap
@pytest.mark.parametrize("way", ["bridge", pytest.param("socat", marks=needs_socat)])
async def test_the_bridge_and_socat_reach_the_tools_from_inside_a_live_session(
    tmp_path: Path, channel: FakeChannel, way: str
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    settings: dict[str, Any] = {"sessions__provider": "looker", "sandbox__kind": "bubblewrap"}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say(f"run WAY = {way!r}{BRIDGE}")
        first, second = await channel.wait_for(2)
        await wait_until_settled(gateway)

        code, lines, said = json.loads(second.message.text)
        assert (first.message.text, code, said) == ("by hand", 0, "")
        assert [json.loads(line)["id"] for line in lines] == [1, 2, 3]
        assert {"send", "reply"} <= {tool["name"] for tool in json.loads(lines[1])["result"]["tools"]}


@pytest.mark.slow
@needs_bwrap
async def test_an_endless_outbound_file_ends_its_session_and_hurts_nobody_else(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    settings: dict[str, Any] = {"sessions__provider": "looker", "sandbox__kind": "bubblewrap", "sandbox__disk_mb": 8}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        for room in ROOMS[:2]:
            await open_room(gateway, "fake", room)
        flood = (
            "run for name in ('outbound.db', 'more', 'still more'):\n"
            "    open(place.workspace / 'out' / name, 'ab', 0).write(bytes(6 << 20))\n"
            "time.sleep(60)"
        )
        receipt = await channel.say(flood)
        await channel.say("run answer = 'fine'", address=ROOMS[1])
        await channel.wait_for(lambda sent: any(each.address == ROOMS[1] for each in sent))
        account = await wait_until_settled(gateway, 40)

        assert channel.texts(ROOMS[1]) == ["fine"]
        life = await gateway.store.read(ledger.trace_message, receipt.message_id)
        assert "take more than 8 MB of the disk" in str(life)
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_19_a_runner_that_goes_silent_in_a_turn_is_ended_and_its_turn_settled(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    settings: dict[str, Any] = {"sessions__provider": "looker", "sessions__silence_s": 1.5}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room(gateway, "fake", ROOM)
        receipt = await channel.say("run time.sleep(600)")
        account = await wait_until_settled(gateway)
        await channel.say("run answer = 'here again'")
        await channel.wait_for(1)

        life = await gateway.store.read(ledger.trace_message, receipt.message_id)
        assert "the agent went silent" in str(life)
        assert channel.texts() == ["here again"]
        assert account.unaccounted == 0


@pytest.mark.slow
@needs_bwrap
async def test_a_lock_kept_on_the_mailbox_ends_its_session_and_the_message_is_not_lost(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    add_looker(home)
    settings: dict[str, Any] = {"sessions__provider": "looker", "sandbox__kind": "bubblewrap"}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **settings) as gateway:
        await open_room(gateway, "fake", ROOM)
        hold = (
            "run import apsw\n"
            "place.held = apsw.Connection(f'file:{place.workspace}/in/inbound.db?mode=ro', "
            "flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)\n"
            "c = place.held.execute('BEGIN; SELECT * FROM messages_in'); next(c, None)\n"
            "import gatepost; gatepost.held = (place.held, c)\n"
            "answer = 'held'"
        ).replace("place.held", "held")
        await channel.say(hold)
        await channel.wait_for(1)
        for number in range(3):
            await channel.say(f"run answer = {number}")
        await channel.wait_for(4)
        account = await wait_until_settled(gateway)

        assert channel.texts() == ["held", "0", "1", "2"]
        assert account.unaccounted == 0


IN_ANOTHER_ZONE = (
    "tests/flow/sessions/test_session_ending.py",
    "tests/flows/test_sessions.py::test_nanoclaw_20_a_session_that_rested_is_woken_with_the_same_conversation",
    "tests/flows/test_crashes.py::"
    "test_nanoclaw_17_a_sandbox_that_dies_before_the_provider_has_the_batch_is_retried_and_answers_once",
)


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/St_Johns"])
@pytest.mark.slow
def test_nanoclaw_21_in_a_zone_other_than_utc_nothing_is_ended_earlier_or_later(zone: str) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *IN_ANOTHER_ZONE],
        cwd=root,
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout
