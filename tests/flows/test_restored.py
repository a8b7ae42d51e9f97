"""A restored backup, a copied home and a rolled-back disk: nothing goes out twice by itself, and the owner decides."""

import asyncio
import importlib
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.flow.requests.choices import DROP, SEND, AnswerChoice
from gatepost.flow.requests.decide import decide, follow_decision
from gatepost.flow.store_watch import MARKER
from gatepost.serve.health.findings import Finding
from gatepost.serve.health.store_checks import check_incarnation
from gatepost.store.engine.place import StorePlace
from gatepost.store.engine.sqlite_copy import copy_store
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.gateways import database_lives, incarnations
from gatepost.store.gateways.database_lives import DatabaseLife
from gatepost.store.gateways.incarnations import IncarnationReason
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.money import ledger
from gatepost.store.money.ledger import LedgerStatus
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rights.requests import RequestKind
from gatepost.store.rooms import direct_rooms
from gatepost.store.sessions import turns
from gatepost_testing.channel import FakeChannel, SendFault
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until, until

from .channel_desk import ChannelDesk

ROOM, BOSS, DIRECT = "fake:room/1", "fake:user/boss", "fake:direct/boss"
ANSWERS = 5
T = TypeVar("T")


def add_owner(db: Db, now: int) -> None:
    users.add(db, BOSS, "Boss", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    direct_rooms.add(db, BOSS, "fake", DIRECT, now)


async def prepare(gateway: Gateway) -> None:
    await open_room(gateway, "fake", ROOM)
    await gateway.store.write(add_owner, gateway.clock.now())


def count_pending(db: Db) -> int:
    row = db.row("SELECT COUNT(*) FROM outbox WHERE state IN ('pending', 'sending')")
    return int(row[0]) if row else 0


def read_now(gateway: Gateway, fn: Callable[[Db], T]) -> T:
    assert isinstance(gateway.store, SqliteStore)
    return gateway.store.read_now(fn)


async def answer_while_away(gateway: Gateway, channel: FakeChannel) -> None:
    """The agent has answered, and the platform takes nothing."""
    channel.script(then=SendFault.UNAVAILABLE)
    for number in range(ANSWERS):
        await channel.say(f"number {number}", address=f"fake:room/{number}")

    await until(lambda: read_now(gateway, count_pending) >= ANSWERS, "answers that wait")
    await until(lambda: not read_now(gateway, turns.list_open), "turns to end")


async def make_backup(home: Path, channel: FakeChannel, backup: Path) -> None:
    """A store with answers on their way, which arrive after it was copied."""
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        for number in range(ANSWERS):
            await open_room(gateway, "fake", f"fake:room/{number}")
        await answer_while_away(gateway, channel)
        copy_store(StorePlace(Home(home).store), backup)
        channel.script()
        await channel.wait_for(ANSWERS)
        await wait_until_settled(gateway)


def restore(home: Path, backup: Path) -> None:
    for name in ("gatepost.db", "gatepost.db-wal", "gatepost.db-shm"):
        (home / name).unlink(missing_ok=True)
    shutil.copy(backup, home / "gatepost.db")


def list_answers(channel: FakeChannel) -> list[str]:
    return [text for text in channel.texts() if text.startswith("echo:")]


async def find_card(gateway: Gateway) -> str:
    (waiting,) = await gateway.store.read(waiting_requests.list_pending)
    assert waiting.kind is RequestKind.RESTORED
    return waiting.id


async def check(gateway: Gateway) -> LedgerStatus:
    return await gateway.store.read(ledger.check, gateway.clock.now())


EACH_ONCE = [f"echo: number {number}" for number in range(ANSWERS)]


async def test_a_restored_backup_says_nothing_again_by_itself_and_asks_the_owner_once(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    await make_backup(home, channel, backup)
    restore(home, backup)

    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
        assert sorted(list_answers(channel)) == EACH_ONCE
        (card,) = channel.texts(DIRECT)
        assert "Send them" in card and "Drop them" in card and f"perhaps said before: {ANSWERS}" in card
        assert (await check(gateway)).unaccounted == 0
        assert gateway.life is not None and "gatepost permit ls" in gateway.life.said
        (finding,) = await gateway.store.read(list_restored)
        assert finding.level == "warn" and "held until you decide" in finding.text

    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:  # a further start is none
        await find_card(gateway)
        assert gateway.life is not None and not gateway.life.said
    assert sorted(list_answers(channel)) == EACH_ONCE and len(channel.texts(DIRECT)) == 1


def list_restored(db: Db) -> list[Finding]:
    return [*check_incarnation(db, 0)]


@pytest.mark.parametrize(("choice", "times"), [(SEND, 2), (DROP, 1)])
async def test_the_owner_sends_what_a_restored_store_held_or_drops_it(
    tmp_path: Path, channel: FakeChannel, choice: AnswerChoice, times: int
) -> None:
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    await make_backup(home, channel, backup)
    restore(home, backup)
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        asked = await find_card(gateway)
        now = gateway.clock.now()
        decision = await gateway.store.write(decide, gateway.channels, asked, choice, BOSS, now)
        follow_decision(gateway.events, decision)
        await channel.wait_for(lambda sent: len(list_answers(channel)) == times * ANSWERS)
        account = await wait_until_settled(gateway)

    assert sorted(list_answers(channel)) == sorted(EACH_ONCE * times)
    assert account.unaccounted == 0


async def test_a_message_that_was_worked_on_or_waited_is_held_in_a_restored_store_until_the_owner_decides(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        script = ScriptBuilder().turn("slow").wait_for_message().say("done").otherwise().say("echo: {text}")
        script.write(gateway.home.group("home")).chmod(0o644)
        slow = await channel.say("slow", address=ROOM)
        await until(lambda: read_now(gateway, turns.list_open), "a turn")
        copy_store(StorePlace(Home(home).store), backup)
        await channel.say("go on", address=ROOM)
        await channel.wait_for(2)
        await wait_until_settled(gateway)
    restore(home, backup)
    said = channel.texts(ROOM)

    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
        (entry,) = await gateway.store.read(inbox.list_for_message, slow.message_id)
        asked = await find_card(gateway)
        assert (entry.state, entry.reason, entry.turn_id) == (InboxState.HELD, asked, None)
        assert await gateway.store.read(turns.list_open) == []
        assert (await check(gateway)).unaccounted == 0
        again = await channel.say("hello", address="fake:room/1")  # whoever writes now is answered
        await channel.wait_for(lambda sent: sent[-1].message.text == "echo: hello")
        assert again.new
        decision = await gateway.store.write(decide, gateway.channels, asked, DROP, BOSS, gateway.clock.now())
        follow_decision(gateway.events, decision)
        await wait_until_settled(gateway)
    assert channel.texts(ROOM) == [*said, "echo: hello"]


@pytest.mark.slow
async def test_what_a_turn_had_said_at_the_backup_is_sent_once_when_the_owner_sends_what_was_under_way(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """Its message goes to the agent again, which says only the rest."""
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        group = gateway.home.group("home")
        ScriptBuilder().otherwise().say("one").wait_for("go").say("two").write(group).chmod(0o644)
        channel.script(then=SendFault.UNAVAILABLE)
        await channel.say("hello", address=ROOM)
        await until(lambda: read_now(gateway, count_pending), "the first part of an answer")
        copy_store(StorePlace(Home(home).store), backup)
        channel.script()
        (group / "go").touch()
        await channel.wait_for(2)
        await wait_until_settled(gateway)
    restore(home, backup)
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        asked = await find_card(gateway)
        decision = await gateway.store.write(decide, gateway.channels, asked, SEND, BOSS, gateway.clock.now())
        follow_decision(gateway.events, decision)
        account = await wait_until_settled(gateway)
    assert channel.texts(ROOM) == ["one", "two"] * 2
    assert account.unaccounted == 0


async def test_a_turn_that_runs_while_the_database_fails_over_says_no_more_until_the_owner_decides(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """Its gateway lives on, and so does its sandbox."""
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        group = gateway.home.group("home")
        ScriptBuilder().otherwise().say("one").wait_for("go").say("two").write(group).chmod(0o644)
        await channel.say("hello", address=ROOM)
        await channel.wait_for(1)
        await wait_until_sent(gateway)
        held = await gateway.store.write(incarnations.hold_open, gateway.clock.now())
        await gateway.store.write(add_life, held, gateway.clock.now())
        (group / "go").touch()
        gateway.events.requests()
        await until(lambda: read_now(gateway, waiting_requests.list_pending), "a card")
        assert channel.texts(ROOM) == ["one"]
        asked = await find_card(gateway)
        decision = await gateway.store.write(decide, gateway.channels, asked, SEND, BOSS, gateway.clock.now())
        follow_decision(gateway.events, decision)
        account = await wait_until_settled(gateway)
    assert channel.texts(ROOM) == ["one", "two"]
    assert account.unaccounted == 0


def add_life(db: Db, held: int, now: int) -> None:
    database_lives.add(db, DatabaseLife("1/2", "a", 0, held, now))


async def wait_until_sent(gateway: Gateway) -> None:
    await until(lambda: not read_now(gateway, count_pending), "nothing to be on its way")


@pytest.mark.slow
async def test_a_copy_of_a_running_home_holds_what_the_original_sends(tmp_path: Path, channel: FakeChannel) -> None:
    """As `cp -a` makes it."""
    home, copy, other = tmp_path / "h", tmp_path / "copy", FakeChannel()
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        for number in range(ANSWERS):
            await open_room(gateway, "fake", f"fake:room/{number}")
        await answer_while_away(gateway, channel)
        await asyncio.to_thread(subprocess.run, ["cp", "-a", str(home), str(copy)], check=True)
        async with running_gateway(copy, {"fake": (other.kind, other)}) as copied:
            await find_card(copied)
            await other.wait_for(1)
            assert list_answers(other) == []
            channel.script()
            await channel.wait_for(ANSWERS)
            await wait_until_settled(gateway)
        current = await gateway.store.read(incarnations.get_current)
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:  # the original goes on as it was
        assert await gateway.store.read(incarnations.get_current) is not None and current is not None
        assert gateway.life is not None and not gateway.life.said
    assert sorted(list_answers(channel)) == EACH_ONCE and list_answers(other) == []


async def test_a_moved_home_and_a_killed_gateway_go_on_with_what_was_in_flight(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home, moved = tmp_path / "h", tmp_path / "moved"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        for number in range(ANSWERS):
            await open_room(gateway, "fake", f"fake:room/{number}")
        await answer_while_away(gateway, channel)
    home.rename(moved)
    channel.script()
    async with running_gateway(moved, {"fake": (channel.kind, channel)}) as gateway:
        await channel.wait_for(ANSWERS)
        assert await gateway.store.read(waiting_requests.list_pending) == []
    shutil.rmtree(tmp_path / "state")  # a new machine with the same disk
    async with running_gateway(moved, {"fake": (channel.kind, channel)}) as gateway:
        assert gateway.life is not None and not gateway.life.said
    assert sorted(list_answers(channel)) == EACH_ONCE


async def test_steps_that_were_removed_while_it_was_down_are_no_older_state(
    tmp_path: Path, channel: FakeChannel
) -> None:
    home = tmp_path / "h"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
        await channel.say("hello", address=ROOM)
        await channel.wait_for(1)
        await wait_until_settled(gateway)
    store = SqliteStore(home / "gatepost.db")
    await store.write(lambda db: db.run("DELETE FROM steps"))  # as `gatepost keep run` may, after a long time
    store.close()
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        assert gateway.life is not None and not gateway.life.said


async def test_starts_that_the_store_never_heard_of_are_no_older_state(
    tmp_path: Path, channel: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "h"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)

    def fail(*_: object) -> None:
        raise Unavailable("the store", "the disk is full")

    with monkeypatch.context() as full:
        full.setattr(incarnations, "record_life", fail)
        for _ in range(3):
            with pytest.raises(Unavailable):
                async with running_gateway(home, {"fake": (channel.kind, channel)}):
                    pass
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        assert gateway.life is not None and not gateway.life.said


async def test_a_store_that_was_overwritten_in_place_is_found_where_the_machine_remembers_nothing(
    tmp_path: Path, channel: FakeChannel
) -> None:
    """The file stays the same one, and a new container has no state folder."""
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    await make_backup(home, channel, backup)
    for name in ("gatepost.db-wal", "gatepost.db-shm"):
        (home / name).unlink(missing_ok=True)
    with (home / "gatepost.db").open("r+b") as file:
        file.write(backup.read_bytes())
        file.truncate()
    shutil.rmtree(tmp_path / "state")
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))
        current = await gateway.store.read(incarnations.get_current)
        assert current is not None and current.reason is IncarnationReason.ROLLED_BACK
        (card,) = channel.texts(DIRECT)
        assert (
            "started from an older state of its store (its last change was at " in card
            and "gatepost ledger list --state held" in card
        )
    assert sorted(list_answers(channel)) == EACH_ONCE
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        assert gateway.life is not None and not gateway.life.said


async def test_a_restore_says_so_by_a_file_in_the_home(tmp_path: Path, channel: FakeChannel) -> None:
    home = tmp_path / "h"
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        await prepare(gateway)
    (home / MARKER).write_text("the backup of Monday")
    async with running_gateway(home, {"fake": (channel.kind, channel)}) as gateway:
        current = await gateway.store.read(incarnations.get_current)
        assert current is not None and current.reason is IncarnationReason.RESTORED
        assert gateway.life is not None and "the backup of Monday" in gateway.life.said
        await channel.wait_for(1)
        (told,) = channel.texts(DIRECT)
        assert "the backup of Monday" in told and "nothing was under way" in told
    assert not (home / MARKER).exists()


@pytest.mark.slow
async def test_an_operator_decides_at_the_command_line_what_becomes_of_it(tmp_path: Path, channel: FakeChannel) -> None:
    home, backup = tmp_path / "h", tmp_path / "backup.db"
    await make_backup(home, channel, backup)
    restore(home, backup)

    def decide_by_hand() -> None:
        with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as daemon:
            (waits,) = daemon.json("permit", "ls")
            assert waits["request"]["kind"] == "restored"
            assert "what was under way sent (allow) or dropped (deny)" in daemon.gatepost("permit", "ls").stdout
            assert "held until you decide" in daemon.gatepost("doctor").stdout
            assert daemon.gatepost("permit", "deny", waits["request"]["id"]).returncode == 0
            assert len(daemon.json("ledger", "list", "--state", "cancelled")) == ANSWERS
            assert daemon.json("permit", "ls") == []

    await asyncio.to_thread(decide_by_hand)


EMULATORS = {
    "mastodon": "MastodonPlatform",
    "zulip": "ZulipPlatform",
    "github": "GitHubPlatform",
    "mattermost": "MattermostPlatform",
    "bluesky": "BlueskyPlatform",
    "discord": "DiscordPlatform",
    "slack": "SlackPlatform",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.slow) for each in EMULATORS],
)
def test_a_channel_with_a_cursor_answers_nothing_again_after_a_restore(tmp_path: Path, name: str) -> None:
    made = getattr(importlib.import_module(f"gatepost_testing.platforms.{name}"), EMULATORS[name])
    with made() as platform:
        room = "team" if platform.has_groups else "direct:ann"

        def list_said() -> list[str]:
            with platform.changed:
                shown = [each.text for each in platform.record if each.sender == "bot"]
            return sorted(found[1] for text in shown if (found := re.search(r"echo: (\w+)", text)))

        def ask(*words: str) -> None:
            before = list_said()
            for word in words:
                platform.send(word, room=room)
            block_until(lambda: list_said() == sorted([*before, *words]), f"answers to {words}")

        with ChannelDesk(tmp_path, platform, ScriptBuilder().otherwise().say("echo: {text}")) as desk:
            ask("before")
            desk.run("backup", "create", str(tmp_path / "backup"))
            ask("one", "two", "three")
            desk.daemon.stop()
            desk.run("backup", "restore", str(tmp_path / "backup"), "--replace")
            desk.start()
            ask("after")
        assert list_said() == sorted(["before", "one", "two", "three", "after"])
