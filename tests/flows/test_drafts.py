"""An answer while it is written, on a whole gateway: a real runner writes, several people watch, and processes die."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.channels.local_channel import LocalChannel
from gatepost.core.home import Home
from gatepost.mailbox import runner_frames
from gatepost.messages.inbound import Inbound
from gatepost.serve import room_events
from gatepost.store.messages import messages
from gatepost.store.money import ledger
from gatepost_testing.gateway import running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.slow_steps import assert_no_slow_steps
from gatepost_testing.waiting import until

ROOM, OTHER = "web:home", "web:people/ann"
WRITTEN, SAID = "The unfinished symp", "The whole symphony."
SCRIPT = ScriptBuilder().turn("play").draft("The").draft(WRITTEN).wait_for("go").say(SAID)
FAILING = ScriptBuilder().turn("play").draft(WRITTEN).wait_for("go").error("no money is left", kind="budget")

# Runs inside: floods its line with drafts, of its own turn and of others, then answers.
FLOODER = r"""
import gc, json
from gatepost.inside.gateway_socket import GatewaySocket
from gatepost.inside.providers.contract import TurnResult, Text, provider


@provider("flooder")
class Flooder:
    def __init__(self, place):
        pass

    async def query(self, batch, resume):
        link = next(each for each in gc.get_objects() if type(each) is GatewaySocket)
        for number in range(1500):
            turn = batch.turn if number % 2 else "t-of-somebody-else"
            text = "x" * 19_000 if number % 10 == 0 else str(number)
            frame = {"type": "draft", "turn": turn, "epoch": 1, "text": text, "kept": number % 7}
            link._writer.write(json.dumps(frame).encode() + b"\n")
            if number % 50 == 0:
                await link.flush()
        yield Text("flooded", batch.items[0].seq)
        yield TurnResult()

    async def push(self, batch):
        raise NotImplementedError

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


class Watcher:
    """Somebody who has a room open (None: all of them)."""

    def __init__(self) -> None:
        self.drafts: list[str] = []
        self.events: list[tuple[str, str]] = []  # kind and text, in their order

    @property
    def said(self) -> list[str]:
        return [text for kind, text in self.events if kind == "said"]

    @property
    def now(self) -> str:
        return self.drafts[-1] if self.drafts else ""


@asynccontextmanager
async def watching(gateway: Gateway, room: str | None = ROOM) -> AsyncIterator[Watcher]:
    watcher, hub = Watcher(), get_hub(gateway)

    async def follow() -> None:
        start = await gateway.store.read(room_events.get_start_cursor, hub, room)
        async for news in room_events.follow_room(gateway.store, hub, room, start, gateway.stopping, drafts=True):
            watcher.events += [("said", each.text) for each in news.seen if each.direction == "out"]
            watcher.drafts += [each.text for each in news.drafts]
            watcher.events += [("draft", each.text) for each in news.drafts]

    task = asyncio.create_task(follow())
    await until(lambda: hub.is_watched(room or ROOM))
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.wait([task])


def get_hub(gateway: Gateway) -> LocalChannel:
    hub = gateway.adapters["web"]
    assert isinstance(hub, LocalChannel)
    return hub


async def write(gateway: Gateway, text: str) -> None:
    hub = get_hub(gateway)
    await until(lambda: hub._receive, "the channel to listen")
    await hub.submit(Inbound(address=ROOM, platform_id=f"m-{text}", sender=hub.owner, text=text, direct=True))


@asynccontextmanager
async def a_gateway(path: Path, script: ScriptBuilder = SCRIPT, **given: Any) -> AsyncIterator[Gateway]:
    script.write(Home(path).group("home")).chmod(0o644)
    async with running_gateway(path, **given) as gateway:
        yield gateway


def let_go(gateway: Gateway) -> None:
    (gateway.home.group("home") / "go").touch()


def find_in_files(home: Path, text: str) -> list[str]:
    """Files of the home that hold this text; the script has it, of course."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "script.json"]
    return [str(path.relative_to(home)) for path in files if text.encode() in path.read_bytes()]


async def check_nothing_is_left(gateway: Gateway) -> None:
    assert get_hub(gateway).drafts_in() == ()
    said = [each.text for each in await gateway.store.read(messages.list_in_room, "web", ROOM, 0, 100)]
    assert said.count(SAID) == 1 and WRITTEN not in said
    assert (await gateway.store.read(ledger.check, gateway.clock.now())).unaccounted == 0
    assert find_in_files(gateway.home.path, WRITTEN) == []


@pytest.mark.slow
async def test_two_who_watch_see_it_grow_and_nobody_in_another_room_does(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway:
        async with watching(gateway) as one, watching(gateway, None) as two, watching(gateway, OTHER) as other:
            await write(gateway, "play")
            await until(lambda: one.now == WRITTEN and two.now == WRITTEN, "the draft")
            assert one.said == two.said == []
            let_go(gateway)
            await until(lambda: SAID in one.said and SAID in two.said, "the answer")
            await until(lambda: one.now == two.now == "", "the end of the draft")
            await wait_until_settled(gateway)
            assert other.events == []
        # It is there before its draft goes.
        assert one.events.index(("said", SAID)) < len(one.events) - 1 - one.events[::-1].index(("draft", ""))
        await check_nothing_is_left(gateway)


async def test_who_comes_in_the_middle_sees_what_is_written_from_then_on(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway:
        await write(gateway, "play")
        await until(lambda: any(live.runner.turn for live in gateway.sessions.awake), "the turn")
        assert get_hub(gateway).drafts_in() == ()
        async with watching(gateway) as late:
            await until(lambda: late.now == WRITTEN, "the draft")
        await until(lambda: get_hub(gateway).drafts_in() == (), "the draft that nobody watches any more to go")
        let_go(gateway)
        await wait_until_settled(gateway)
        await check_nothing_is_left(gateway)


@pytest.mark.slow
async def test_a_runner_that_is_killed_leaves_no_draft_and_answers_once(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway, watching(gateway) as watcher:
        await write(gateway, "play")
        await until(lambda: watcher.now == WRITTEN, "the draft")
        (live,) = gateway.sessions.awake
        assert live.sandbox is not None
        os.kill(live.sandbox.pid, signal.SIGKILL)
        await until(lambda: "" in watcher.drafts, "the draft to go")
        let_go(gateway)
        await until(lambda: SAID in watcher.said, "the answer")
        await wait_until_settled(gateway)
        await until(lambda: watcher.now == "", "the end of the draft")
        await check_nothing_is_left(gateway)


async def test_what_was_on_the_screen_when_it_was_stopped_stays_as_a_message(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway, watching(gateway) as watcher:
        await write(gateway, "play")
        await until(lambda: watcher.now == WRITTEN, "the draft")
        await write(gateway, "/stop")
        await until(lambda: watcher.now == "", "the draft to go")
        await wait_until_settled(gateway)
        assert get_hub(gateway).drafts_in() == ()
        await until(lambda: len(watcher.said) == 2, "what is left")
        assert watcher.said == [WRITTEN, "Stopped."]
        kept = await gateway.store.read(messages.list_in_room, "web", ROOM, 0, 100)
        assert [each.folder for each in kept if WRITTEN in each.text] == ["home"]


@pytest.mark.slow
async def test_what_was_on_the_screen_stays_when_a_button_ends_it(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway, watching(gateway) as watcher:
        await write(gateway, "play")
        await until(lambda: watcher.now == WRITTEN, "the draft")
        (live,) = gateway.sessions.awake
        assert await gateway.sessions.stop(live.session.id, "somebody")
        await wait_until_settled(gateway)
        await until(lambda: len(watcher.said) == 2, "what is left")
        assert watcher.said == [WRITTEN, "Stopped."]


@pytest.mark.slow
async def test_what_was_on_the_screen_stays_when_the_turn_fails_for_good(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h", script=FAILING) as gateway, watching(gateway) as watcher:
        await write(gateway, "play")
        await until(lambda: watcher.now == WRITTEN, "the draft")
        let_go(gateway)
        await wait_until_settled(gateway)
        await until(lambda: len(watcher.said) == 2, "what is left")
        assert watcher.said[0] == WRITTEN and watcher.said[1].startswith("Sorry")


@pytest.mark.slow
async def test_where_nobody_saw_a_draft_a_stop_adds_nothing(tmp_path: Path) -> None:
    async with a_gateway(tmp_path / "h") as gateway:
        await write(gateway, "play")
        await until(lambda: any(live.runner.turn for live in gateway.sessions.awake), "the turn")
        await write(gateway, "/stop")
        await wait_until_settled(gateway)
        said = [each.text for each in await gateway.store.read(messages.list_in_room, "web", ROOM, 0, 100)]
        assert said == ["play", "/stop", "Stopped."] and find_in_files(gateway.home.path, WRITTEN) == []


@pytest.mark.slow
async def test_a_flood_of_drafts_holds_nobody_up_and_shows_nothing_elsewhere(tmp_path: Path) -> None:
    plugins = tmp_path / "h" / "plugins" / "providers"
    plugins.mkdir(parents=True)
    (plugins / "flooder.py").write_text(FLOODER)
    async with (
        running_gateway(tmp_path / "h", sessions__provider="flooder") as gateway,
        watching(gateway) as watcher,
        watching(gateway, OTHER) as other,
    ):
        async with assert_no_slow_steps(gateway):
            await write(gateway, "flood")
            await until(lambda: "flooded" in watcher.said, "the answer")
            await wait_until_settled(gateway)
        assert other.events == []
        assert max(map(len, watcher.drafts), default=0) <= runner_frames.LONGEST_DRAFT
        assert get_hub(gateway).drafts_in() == ()


@pytest.mark.slow
@pytest.mark.parametrize("watched", [True, False])
async def test_a_runner_is_told_of_watchers_only_if_there_are_any(
    tmp_path: Path, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody watches costs no frame in either direction."""
    written: list[runner_frames.Frame] = []
    encode = runner_frames.encode_frame
    monkeypatch.setattr(runner_frames, "encode_frame", lambda frame: (written.append(frame), encode(frame))[1])
    async with a_gateway(tmp_path / "h") as gateway:
        let_go(gateway)
        if watched:
            async with watching(gateway) as watcher:
                await write(gateway, "play")
                await until(lambda: SAID in watcher.said, "the answer")
        else:
            await write(gateway, "play")
            await wait_until_settled(gateway)
    told = [frame.on for frame in written if isinstance(frame, runner_frames.WatchFrame)]
    assert told[:1] == ([True] if watched else [])
