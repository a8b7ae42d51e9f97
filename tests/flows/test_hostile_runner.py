"""A runner that lies: whatever it says on its line, its turn may fail, and nothing else does. The host neither stops
nor follows, and the next message of the same room is answered."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.store.messages import inbox, outbox
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.sessions import sessions, turn_claims, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S

ROOM = "fake:room/1"

# Runs inside: says on the runner's own line what a message tells it to, and echoes everything else.
LIAR = r"""
import gc, json
from gatepost.inside.gateway_socket import GatewaySocket
from gatepost.inside.providers.contract import TurnResult, Text, provider


@provider("liar")
class Liar:
    takes_pushes = False

    def __init__(self, place):
        self.place = place

    async def query(self, batch, resume):
        link = next(each for each in gc.get_objects() if type(each) is GatewaySocket)
        for item in batch.items:
            if item.kind == "system":
                continue
            if item.text.startswith("say "):
                frame = item.text[4:].replace("@TURN@", batch.turn)
                for _ in range(item.text.count("@MANY@") * 199 + 1):
                    link._writer.write(frame.replace("@MANY@", "").encode() + b"\n")
                await link.flush()
            else:
                yield Text("echo: " + item.text, item.seq)
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


def frame(kind: str, **fields: Any) -> str:
    return "say " + json.dumps({"type": kind, "id": 900, "turn": "@TURN@", "epoch": 1, **fields})


LIES = {
    "files that are not there": frame("result", attempt=1, part=7, text="x", files=["nope"]),
    "a path for a turn": frame("result", turn="/tmp/escaped/deep", attempt=1, part=1, text="x", files=["f"]),
    "a way up for a turn": frame("result", turn="../../escaped", attempt=1, part=1, text="x", files=["f"]),
    "an attempt beyond every number": frame("result", attempt=2**64, part=1, text="x"),
    "an epoch beyond every number": frame("begun", epoch=2**63, rows=[1]),
    "a row beyond every number": frame("begun", rows=[2**63]),
    "more rows that were begun than a turn has": frame("claim", rows=[], begun=list(range(1001))),
    "rows of nobody that were begun": frame("claim", turn="", rows=[], begun=[1, 2, 10**9]),
    "an answer that nobody asked for": frame("flushed", seen=True),
    "a wait beyond every age": frame("submit_turn", status="error", error_class="retryable", retry_after=1e300),
    "a negative part": frame("result", attempt=1, part=-1, text="x"),
    "no JSON at all": "say this is not JSON",
    "an unknown word": frame("whatever"),
    "two hundred statuses": frame("status", text="busy @MANY@"),
    "two hundred drafts": frame("draft", text="soon @MANY@"),
    "a draft longer than any": frame("draft", text="x" * 20_001),
    "a draft that keeps what was never written": frame("draft", text="x", kept=19_999),
    "two hundred troubles": frame("trouble", what="inbound", why="@MANY@"),
}


@pytest.fixture
async def liar(tmp_path: Path) -> tuple[Path, FakeChannel]:
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "liar.py").write_text(LIAR)
    return tmp_path / "h", FakeChannel()


async def echoes(channel: FakeChannel, text: str) -> None:
    await channel.say(text)
    await channel.wait_for(lambda sent: any(each.message.text == f"echo: {text}" for each in sent))


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES.values(), ids=[name.replace(" ", "-") for name in LIES])
async def test_a_lie_harms_its_own_turn_at_most(liar: tuple[Path, FakeChannel], lie: str) -> None:
    home, channel = liar
    given: dict[str, Any] = {"sessions__provider": "liar", "sessions__tries": 1}
    async with running_gateway(home, {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await echoes(channel, "before")
        await channel.say(lie)
        await wait_until_settled(gateway)
        await echoes(channel, "after")
        account = await wait_until_settled(gateway)

        assert account.unaccounted == 0
        assert not await gateway.store.read(turns.list_open)
        assert not Path("/tmp/escaped").exists() and not (home.parent / "escaped").exists()
        assert not any((gateway.home.media / "out").glob("*"))
        assert len(channel.tried) < 30


@pytest.mark.slow
async def test_a_session_cannot_speak_in_another_ones_turn(liar: tuple[Path, FakeChannel]) -> None:
    home, channel = liar
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="liar") as gateway:
        for room in (ROOM, "fake:room/2"):
            await open_room(gateway, "fake", room)
        victim = await _turn_in(gateway)
        for lie in (
            frame("status", turn=victim, text="forged"),
            frame("result", turn=victim, attempt=1, part=3, text="forged"),
            frame("submit_turn", turn=victim, status="success"),
        ):
            await channel.say(lie, address="fake:room/2")
        await channel.say("done", address="fake:room/2")
        await channel.wait_for(lambda sent: any(each.message.text == "echo: done" for each in sent))

        found = await gateway.store.read(turns.get, victim)
        assert found is not None and found.ended_at is None
        assert await gateway.store.read(outbox.list_for_turn, victim) == []
        assert not [each for each in channel.sent if each.message.text == "forged"]


async def _turn_in(gateway: Gateway) -> str:
    """A turn of another session, which somebody works on."""
    now = gateway.clock.now()

    def begin(db: Db) -> str:
        session = sessions.find_or_add(db, SessionMode.PER_THREAD, "home", "fake", ROOM, "", now)
        message_id = add_arrival(db, now, address=ROOM, text="hi", platform_id="v")
        inbox.enqueue(db, message_id, session.id, "home", "member", now)
        claim = turn_claims.claim(db, session.id, "liar", "somebody", now, 3_600_000_000, 1, ready=True)
        assert claim is not None
        return claim.turn.id

    return await gateway.store.write(begin)


async def test_a_turn_that_nobody_works_on_any_more_is_taken_up_again(liar: tuple[Path, FakeChannel]) -> None:
    """However it came to be left behind: the next look at its session settles it."""
    home, channel = liar
    async with running_gateway(home, {"fake": (channel.kind, channel)}, sessions__provider="liar") as gateway:
        await open_room(gateway, "fake", ROOM)
        left_behind = await _turn_in(gateway)
        await echoes(channel, "next")
        await wait_until_settled(gateway)

        found = await gateway.store.read(turns.get, left_behind)
        assert found is not None and found.ended_at is not None
        assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0


# Runs inside: hands over a file of so many bytes as part 50 of its turn, again and again.
GIVER = LIAR.replace('@provider("liar")', '@provider("giver")').replace(
    'frame = item.text[4:].replace("@TURN@", batch.turn)',
    """pass
                folder = self.place.workspace / "out" / "files" / f"{batch.turn}-1-50"
                for size in item.text[4:].split():
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / "f").write_bytes(b"x" * int(size))
                    said = {"type": "result", "id": 900, "turn": batch.turn, "epoch": 1, "attempt": 1, "part": 50}
                    link._writer.write(json.dumps({**said, "text": "x", "files": ["f"]}).encode() + b"\\n")
                    await link.flush()
                    await __import__("asyncio").sleep(1)
                frame = '{"type": "ping"}'""",
)


@pytest.mark.slow
async def test_stranger_new_a_part_said_again_frees_no_allowance(tmp_path: Path) -> None:
    """Neither a smaller file for the same part nor a copy that fails makes room for others."""
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "giver.py").write_text(GIVER)
    channel = FakeChannel()
    given: dict[str, Any] = {"sessions__provider": "giver", "sessions__tries": 1}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("say 100000 1 1")
        await wait_until_settled(gateway)
        assert [len(each.message.files) for each in channel.sent if each.message.files] == [1]
        rows = await gateway.store.read(lambda db: db.rows("SELECT bytes FROM given_files"))
        assert [each[0] for each in rows] == [100_000]


# Runs inside: says results of so many bytes under new numbers, whatever it is answered, and never ends its turn.
TALKER = LIAR.replace('@provider("liar")', '@provider("talker")').replace(
    'frame = item.text[4:].replace("@TURN@", batch.turn)',
    """pass
                for part in range(100, 200):
                    said = {"type": "result", "id": 900 + part, "turn": batch.turn, "epoch": 1, "attempt": 1}
                    text = f"{part} " + "x" * 1000
                    link._writer.write(json.dumps({**said, "part": part, "text": text}).encode() + b"\\n")
                    await link.flush()
                await __import__("asyncio").Event().wait()
                frame = '{"type": "ping"}'""",
)


@pytest.mark.slow
async def test_stranger_new_a_turn_that_says_too_many_bytes_is_ended_and_people_are_told(tmp_path: Path) -> None:
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "talker.py").write_text(TALKER)
    channel = FakeChannel()
    given: dict[str, Any] = {"sessions__provider": "talker", "sessions__most_result_bytes": 20_000}
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, **given) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("say much")
        await channel.wait_for(
            lambda sent: any("20,000 bytes" in each.message.text for each in sent), timeout=PATIENCE_S
        )
        await wait_until_settled(gateway)

        rows = await gateway.store.read(
            lambda db: db.rows("SELECT SUM(LENGTH(m.text)) FROM outbox o JOIN messages m ON m.id = o.message_id")
        )
        assert 15_000 < rows[0][0] < 21_000
        assert not await gateway.store.read(turns.list_open)
        assert len([each for each in channel.sent if "20,000 bytes" in each.message.text]) == 1
        await echoes(channel, "after")
