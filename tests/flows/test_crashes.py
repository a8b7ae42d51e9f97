"""Things that die in the middle: the sandbox, the provider, the daemon. Nothing is lost and nothing is said twice."""

import asyncio
import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.clock import SystemClock
from gatepost.core.errors import Unavailable
from gatepost.flow.sessions import trial
from gatepost.flow.sessions.trial import TrialRequest
from gatepost.serve.control.client import ControlClient
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.sessions import sessions, turn_claims, turns
from gatepost_testing.channel import FakeChannel
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.waiting import PATIENCE_S, block_until

from .conftest import make_room

ROOM = "fake:room/1"


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def script(gateway: Gateway, text: str) -> None:
    """What the agent of `home` does, in its folder."""
    path = gateway.home.group("home") / "script.json"
    path.write_text(text)
    path.chmod(0o644)


async def texts(channel: FakeChannel) -> list[str]:
    return [sent.message.text for sent in channel.sent]


async def states(gateway: Gateway, message_id: int) -> list[str]:
    return [entry.state for entry in await gateway.store.read(inbox.list_for_message, message_id)]


@pytest.mark.slow
async def test_nanoclaw_17_a_sandbox_that_dies_before_the_provider_has_the_batch_is_retried_and_answers_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(gateway, '{"crash_on_start": 2}')
        receipt = await channel.say("hello")
        await channel.wait_for(1)
        account = await wait_until_settled(gateway)

        assert await texts(channel) == ["echo: hello"]
        assert await states(gateway, receipt.message_id) == ["answered"]
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        assert entry.tries == 2
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_17_and_d10_and_arizuko_42_a_provider_that_always_crashes_fails_and_the_sender_is_told_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, sessions__tries=2) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(gateway, '{"crash_on_start": 99}')
        receipt = await channel.say("hello")
        await channel.wait_for(1)
        account = await wait_until_settled(gateway)

        assert await states(gateway, receipt.message_id) == ["failed"]
        (notice,) = await texts(channel)
        assert notice.startswith("Sorry, I could not answer your message")
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_18_a_sandbox_that_dies_after_the_provider_had_the_batch_is_continued_and_nothing_is_said_twice(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(
            gateway,
            '{"turns": [{"when": "go", "do": [{"say": "one"}, {"call": "send", "with": {"text": "two"}},'
            ' {"crash": "once"}, {"say": "three"}]}]}',
        )
        receipt = await channel.say("go")
        await channel.wait_for(3)
        account = await wait_until_settled(gateway)

        assert await texts(channel) == ["one", "two", "three"]
        assert await states(gateway, receipt.message_id) == ["answered"]
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        turn = await gateway.store.read(turns.get, entry.turn_id or "")
        assert turn is not None and turn.attempt == 2
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_a_turn_that_breaks_twice_after_it_had_begun_fails_and_the_sender_is_told(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(gateway, '{"turns": [{"when": "go", "do": [{"say": "one"}, {"crash": "always"}]}]}')
        receipt = await channel.say("go")
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        said = await texts(channel)
        assert said[0] == "one" and said[1].startswith("Sorry") and len(said) == 2
        assert await states(gateway, receipt.message_id) == ["failed"]
        life = await gateway.store.read(ledger.trace_message, receipt.message_id)
        assert life is not None and "interrupted" in life.entries[0].reason


@pytest.mark.slow
async def test_nanoclaw_27_a_follow_up_is_answered_although_the_sandbox_died_before_the_turn_ended(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(
            gateway,
            '{"turns": [{"when": "slow", "do": [{"say": "slowly"}, {"wait_for_message": true}, {"crash": "once"},'
            ' {"say": "done"}]}]}',
        )
        await channel.say("slow")
        await channel.wait_for(1)
        await channel.say("and me")
        await channel.wait_for(3)
        await wait_until_settled(gateway)

        assert Counter(await texts(channel)) == Counter(["slowly", "done", "echo: and me"])


@pytest.mark.slow
async def test_nanoclaw_16_two_hundred_messages_in_a_moment_are_all_answered_in_order(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        for number in range(200):
            await channel.say(f"m{number}")
        await channel.wait_for(200, timeout=60)
        account = await wait_until_settled(gateway)

        assert await texts(channel) == [f"echo: m{number}" for number in range(200)]
        assert account.unaccounted == 0


@pytest.mark.slow
async def test_a_full_disk_in_the_middle_of_a_turn_loses_nothing_once_there_is_room_again(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        long = "x" * 20_000
        steps = [{"say": "one"}, {"wait_for": "go"}, {"say": f"two {long}"}, {"say": "three"}]
        script(gateway, json.dumps({"turns": [{"when": "go", "do": steps}]}))
        await channel.say("go")
        await channel.wait_for(1)
        await gateway.store.write(lambda db: db.rows("PRAGMA max_page_count = 1"))
        with pytest.raises(Unavailable, match="full"):
            for number in range(50):
                await channel.say(f"{number} {long}", address="fake:room/2")
        (live,) = [each for each in gateway.sessions.awake if each.session.address == ROOM]
        (gateway.home.group("home") / "go").touch()
        await asyncio.wait_for(live.gone.wait(), PATIENCE_S)  # there was no room for its answer
        await make_room(gateway)
        await channel.wait_for(lambda sent: any(each.message.text == "three" for each in sent))
        account = await wait_until_settled(gateway)

        said = [text for text in await texts(channel) if not text.startswith("echo")]
        assert said == ["one", f"two {long}", "three"]
        assert account.unaccounted == 0


@pytest.mark.slow
@pytest.mark.parametrize("begun", [True, False])
async def test_a_trial_that_the_daemon_was_killed_in_is_over_and_the_groups_own_agent_does_not_continue_it(
    tmp_path: Path, begun: bool
) -> None:
    async with running_gateway(tmp_path / "h") as gateway:
        home = gateway.home
    store, clock, wish = (
        SqliteStore(home.store),
        SystemClock(),
        TrialRequest(id="trial-1", folder="home", provider="openai"),
    )
    session, message_id = await store.write(trial.start_trial_session, wish, clock.now())
    if begun:
        claim = await store.write(turn_claims.claim, session.id, "openai", "killed", clock.now(), 60_000_000, 20)
        assert claim is not None
        await store.write(turns.begin, claim.turn.id, claim.turn.epoch, claim.rows, clock.now())
    store.close()
    home.session(session.id).mkdir()

    async with running_gateway(tmp_path / "h") as gateway:
        assert gateway.sessions.awake == [] and not home.session(session.id).exists()
        ended = await gateway.store.read(sessions.get, session.id)
        assert ended is not None and ended.closed_at is not None
        (entry,) = await gateway.store.read(inbox.list_for_message, message_id)
        assert (entry.state, entry.reason) == ("cancelled", trial.OVER)
        assert await gateway.store.read(turns.find_open, session.id) is None
        assert (await wait_until_settled(gateway)).unaccounted == 0


@pytest.mark.slow
async def test_nanoclaw_22_two_wakes_at_once_for_a_session_start_one_sandbox(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await asyncio.gather(*(channel.say(f"m{number}") for number in range(5)))
        for live in gateway.sessions.awake:
            gateway.events.session(live.session.id)
        await channel.wait_for(5)
        assert len(gateway.sessions.awake) == 1


@pytest.mark.slow
async def test_a_deleted_or_corrupted_inbound_file_is_rebuilt_with_the_same_numbers(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        await channel.say("first")
        await channel.wait_for(1)
        (live,) = gateway.sessions.awake
        path = gateway.home.session(live.session.id) / "in" / "inbound.db"
        path.write_bytes(b"this is no database at all" * 100)
        second = await channel.say("second")
        await channel.wait_for(2)
        path.unlink()
        await channel.say("third")
        await channel.wait_for(3)
        await wait_until_settled(gateway)

        assert await texts(channel) == ["echo: first", "echo: second", "echo: third"]
        (entry,) = await gateway.store.read(inbox.list_for_message, second.message_id)
        assert entry.seq == 3  # first, its answer, second


@pytest.mark.slow
async def test_stop_ends_a_turn_that_ignores_everything_and_says_so(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(gateway, '{"turns": [{"when": "hang", "do": [{"say": "starting"}, {"hang": true}, {"say": "never"}]}]}')
        receipt = await channel.say("hang")
        await channel.wait_for(1)
        (live,) = gateway.sessions.awake
        assert await gateway.sessions.stop(live.session.id, "fake:user/1")
        await channel.wait_for(2)
        await wait_until_settled(gateway)

        assert await texts(channel) == ["starting", "Stopped."]
        assert await states(gateway, receipt.message_id) == ["cancelled"]
        await channel.say("again")
        await channel.wait_for(3)
        assert (await texts(channel))[-1] == "echo: again"


def send_all(home: Path, control: ControlClient, count: int) -> None:
    """Write every message until it is accepted, across the daemon's death: sent twice, accepted once."""
    for number in range(count):
        while True:
            try:
                control.post("/v1/chat", {"text": f"m{number}", "id": f"key-{number}"})
                break
            except Unavailable:
                time.sleep(0.05)


def test_kill_9_of_the_daemon_in_the_middle_of_200_messages_loses_none_and_answers_each_once(tmp_path: Path) -> None:
    daemon = DaemonProcess(
        tmp_path / "h", sandbox_kind="process", sessions_provider="scripted", sessions_retry_s="0.05"
    )
    daemon.start()
    control = ControlClient(daemon.home / "run" / "control.sock")
    writer = threading.Thread(target=send_all, args=(daemon.home, control, 200))
    writer.start()
    try:
        wait_for_answers(daemon, 60)
        daemon.kill()
        daemon.start()
        writer.join(60)
        wait_for_answers(daemon, 200)
        account = daemon.json("ledger", "check")
        rows = daemon.json("ledger", "list", "--limit", "1000")
    finally:
        daemon.stop()
    answers = Counter(row["text"] for row in rows if row["direction"] == "out" and row["state"] == "sent")
    assert answers == Counter(f"echo: m{number}" for number in range(200))
    assert account["unaccounted"] == 0


def wait_for_answers(daemon: DaemonProcess, count: int, timeout: float = 90.0) -> None:
    """Until so many answers were sent; bounded."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        rows = daemon.json("ledger", "list", "--state", "sent", "--limit", "1000")
        if len(rows) >= count:
            return
        time.sleep(0.1)
    raise AssertionError(f"only {len(rows)} of {count} answers came: {daemon.stderr()[-2000:]}")


def is_running(pid: int) -> bool:
    """A process that nobody has reaped yet does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_nanoclaw_d20_no_sandbox_outlives_a_daemon_that_was_killed(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "h", sandbox_kind="process", sessions_provider="scripted")
    daemon.start()
    assert daemon.gatepost("chat", "-m", "hello", "--wait").returncode == 0
    children = [int(each) for each in Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()]
    assert children
    daemon.kill()
    daemon.start()
    try:
        assert daemon.gatepost("chat", "-m", "again", "--wait").returncode == 0
        block_until(lambda: not any(map(is_running, children)), "the end of runners whose line is gone")
    finally:
        daemon.stop()


@pytest.mark.slow
async def test_stranger_e_clean_down_and_up_again_is_a_restart_for_the_agent(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script(gateway, '{"turns": [{"when": "go", "do": [{"say": "one"}, {"wait": 600}]}]}')
        receipt = await channel.say("go")
        await channel.wait_for(1)
        script(gateway, '{"turns": [{"when": "go", "do": [{"say": "one"}, {"say": "two"}]}]}')
    again = FakeChannel()
    async with running_gateway(tmp_path / "h", {"fake": (again.kind, again)}) as gateway:
        await again.wait_for(1)
        await wait_until_settled(gateway)
        (entry,) = await gateway.store.read(inbox.list_for_message, receipt.message_id)
        told = [message for _, message in await gateway.store.read(inbox.list_for_turn, entry.turn_id or "")]

    assert await texts(again) == ["two"]
    (note,) = [message.content for message in told if message.kind == "system"]
    assert (note["event"], note["cause"], note["reason"]) == ("continued", "restart", turns.GATEWAY_STOPPED)
