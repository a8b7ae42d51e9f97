"""One agent put back: its folder and its rows, whatever interrupts it, and no byte of anybody else's."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from gatepost.access.policy import GroupHold
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import read_rules
from gatepost.flow.requests.choices import ALLOW_ONCE
from gatepost.flow.requests.decide import decide
from gatepost.flow.schedule.held_texts import HeldText, hold_text
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.backups.archive import write_archive
from gatepost.serve.backups.group_restoring import PLACE, begin, describe, finish, forget, lay_out
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rights.requests import Request, RequestState
from gatepost.store.schedule import firings, tasks
from gatepost.store.schedule.firings import FiringState
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, Task
from gatepost.store.sessions import groups, pinned_rules, sessions
from gatepost_testing.clock import FixedClock

CLOCK = FixedClock()
KILLED = KeyboardInterrupt


class Place:
    """A home with two agents, one below the other's folder, and a backup of it as it was."""

    def __init__(self, home: Home, store: SqliteStore, backup: Path) -> None:
        self.home, self.store, self.backup = home, store, backup

    async def lay_out(self, folder: str = "acme") -> None:
        begin(self.home, await lay_out(self.home, self.store, CLOCK, folder, self.backup))

    async def finish(self) -> None:
        await finish(self.home, self.store, ChannelInstances({}), Config(), CLOCK)

    async def show(self, folder: str) -> list[str]:
        rules = await self.store.read(pinned_rules.list_for_group, folder)
        names = [each for each in os.listdir(self.home.group(folder)) if each != "eng"]
        return sorted([*(each.text for each in rules), *names])


def write_rows(db: Db, word: str) -> None:
    for folder in ("acme", "acme/eng", "beta"):
        groups.add(db, folder, folder, "", CLOCK.now())
        pinned_rules.add(db, folder, "", word, "ann", CLOCK.now())


async def fill(home: Home, store: SqliteStore, word: str) -> None:
    await store.write(write_rows, word)
    for folder in ("acme", "acme/eng", "beta"):
        home.group(folder).mkdir(parents=True, exist_ok=True)
        (home.group(folder) / word).write_text(word)
        (home.group(folder) / f"{word}.d").mkdir()
        (home.group(folder) / f"{word}.d" / "inner").symlink_to("/etc/passwd")


@pytest.fixture
async def place(home: Home, empty_store: Path, tmp_path: Path) -> AsyncIterator[Place]:
    shutil.copy(empty_store, home.store)
    store = SqliteStore(home.store, readers=1)
    await fill(home, store, "then")
    session = await store.write(sessions.find_or_add, "shared", "acme", "fake", "fake:1", "", CLOCK.now())
    state = home.sessions / session.id / ".claude"
    state.mkdir(parents=True)
    (state / "conversation").write_text("then")
    write_archive(home, tmp_path / "b.tar.gz")
    (state / "conversation").write_text("now")
    await fill(home, store, "now")
    (home.group("acme") / "then").unlink()
    yield Place(home, store, tmp_path / "b.tar.gz")
    store.close()


THEN = ["then", "then", "then.d"]
NOW = ["now", "now", "now.d", "then", "then.d"]  # one of its files was removed


async def test_an_agent_comes_back_and_nobody_else_is_touched(place: Place) -> None:
    others = [await place.show(each) for each in ("acme/eng", "beta")]
    await place.lay_out()
    await place.finish()
    assert await place.show("acme") == THEN
    assert [await place.show(each) for each in ("acme/eng", "beta")] == others
    (session,) = place.home.sessions.iterdir()
    assert (session / ".claude" / "conversation").read_text() == "then"
    assert not (place.home.path / PLACE).exists()
    await place.finish()  # there is nothing to do
    assert await place.show("acme") == THEN


async def test_what_is_laid_out_and_not_begun_changes_nothing_and_is_forgotten(place: Place) -> None:
    plan = await lay_out(place.home, place.store, CLOCK, "acme", place.backup)
    assert "not touched: acme/eng" in "\n".join(describe(plan))
    await place.finish()
    assert await place.show("acme") == NOW
    forget(place.home)
    assert not (place.home.path / PLACE).exists()


async def test_whatever_step_is_the_last_the_next_start_ends_with_the_old_agent_made_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each move is the last one once; the next begins where that one ended."""
    real, interrupted = os.rename, 0
    await place.lay_out()

    def rename_once(*args: object, **options: object) -> None:
        if left.pop():
            raise KILLED
        real(*args, **options)

    while (place.home.path / PLACE).exists():
        left = [True, False]  # one step is done, and then it is over
        monkeypatch.setattr(os, "rename", rename_once)
        try:
            await place.finish()
        except KILLED:
            interrupted += 1
        monkeypatch.setattr(os, "rename", real)
        with (
            pytest.raises(SetupError, match="was interrupted") if (place.home.path / PLACE).exists() else nullcontext()
        ):
            await lay_out(place.home, place.store, CLOCK, "beta", place.backup)
            forget(place.home)
    assert interrupted > 5 and await place.show("acme") == THEN


async def test_what_it_had_in_flight_is_held_and_that_of_others_goes_on(place: Place) -> None:
    await place.store.write(queue_messages)
    await place.lay_out()
    await place.finish()
    states = await place.store.read(list_states)
    assert states == [("acme", "held"), ("beta", "queued")]


def queue_messages(db: Db) -> None:
    for number, folder in enumerate(("acme", "beta")):
        session = sessions.find_or_add(db, "shared", folder, "fake", "fake:1", "", CLOCK.now())
        db.run(
            "INSERT INTO messages (instance, address, direction, platform_id, kind, sender, text, at, accepted_at)"
            " VALUES ('fake', 'fake:1', 'in', ?, 'chat', 'ann', 'hello', 1, 1)",
            (str(number),),
        )
        row = db.row("SELECT MAX(id) FROM messages")
        assert row is not None
        db.run(
            "INSERT INTO inbox (message_id, session_id, folder, state, next_at, created_at, updated_at)"
            " VALUES (?, ?, ?, 'queued', 1, 1, 1)",
            (row[0], session.id, folder),
        )


def list_states(db: Db) -> list[tuple[str, str]]:
    return [(str(row[0]), str(row[1])) for row in db.rows("SELECT folder, state FROM inbox ORDER BY folder")]


async def test_nobody_decides_any_more_about_a_text_in_whose_place_another_came(place: Place) -> None:
    """The card shows the words of now, and those of then would be said."""
    task = await place.store.write(add_text)
    write_archive(place.home, place.backup.with_name("c.tar.gz"))
    place.backup = place.backup.with_name("c.tar.gz")
    await place.store.write(lambda db: db.run("UPDATE tasks SET text = 'Good morning.' WHERE id = ?", (task.id,)))
    request = await place.store.write(hold, task.id)
    await place.lay_out()
    await place.finish()
    decision = await place.store.write(decide, ChannelInstances({}), request.id, ALLOW_ONCE, OPERATOR, CLOCK.now())
    assert decision.request.state is RequestState.WITHDRAWN and not decision.decided
    [firing] = [run.firing for run in await place.store.read(firings.list_for_task, task.id, 10)]
    assert firing.state is FiringState.CANCELLED
    assert await place.store.read(lambda db: db.rows("SELECT key FROM outbox WHERE key LIKE 'task/%'")) == []


def add_text(db: Db) -> Task:
    new = NewTask(
        folder="acme",
        instance="fake",
        address="fake:1",
        text="The password is 1234.",
        kind=ScheduleKind.EVERY,
        schedule="1h",
        every=3_600_000_000,
        next_at=CLOCK.now() + 3_600_000_000,
        created_by="agent:acme",
    )
    return tasks.add(db, new, (), 0, CLOCK.now())


def hold(db: Db, task_id: str) -> Request:
    task = tasks.get(db, task_id)
    assert task is not None
    held = HeldText((GroupHold("acme", "hold send", False, 1),), read_rules(Config()))
    hold_text(db, ChannelInstances({}), task, (CLOCK.now(),), held, CLOCK.now())
    [request] = waiting_requests.list_pending(db)
    return request


async def test_an_agent_with_files_whose_names_are_no_text_comes_back(place: Place) -> None:
    (place.home.group("acme") / os.fsdecode(b"\xff\xfe")).write_text("now")
    await place.lay_out()
    await place.finish()
    assert await place.show("acme") == THEN


async def test_an_agent_that_the_backup_has_not_is_said(place: Place) -> None:
    with pytest.raises(Invalid, match="there is no agent gamma"):
        await lay_out(place.home, place.store, CLOCK, "gamma", place.backup)
    assert await place.show("acme") == NOW


async def test_a_link_that_an_agent_put_in_the_way_leads_nobody_out(place: Place, tmp_path: Path) -> None:
    """The folder of `acme/eng` lies in that of `acme`, who may put a link in its place."""
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(place.home.group("acme/eng"))
    place.home.group("acme/eng").symlink_to(outside)
    with pytest.raises((Invalid, SetupError)):
        await place.lay_out("acme/eng")
        await place.finish()
    assert list(outside.iterdir()) == []
