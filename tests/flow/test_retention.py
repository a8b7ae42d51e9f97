"""The sweep on a real store and real files, with a clock that stands still."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatepost.core.clock import DAY, SECOND
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.flow import retention
from gatepost.flow.retention import Retention
from gatepost.messages.outbound import Op
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import dropped, inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, add
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import requests
from gatepost.store.rights.requests import BoundFile, BoundReads, NewRequest, RequestKind
from gatepost.store.rooms import engagements
from gatepost.store.rooms.engagements import Engagement
from gatepost.store.schedule.retention import RetentionCounts
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.clock import NOON, FixedClock
from gatepost_testing.waiting import until

NEVER = dict.fromkeys(
    (f"keep.{what}_days" for what in ("messages", "steps", "turns", "timeline", "costs", "audit", "media", "sessions")),
    0,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def aged(path: Path, days: int, text: str = "x") -> Path:
    """A file, last changed so many days before NOON; its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = (NOON - days * DAY) / SECOND
    for each in (path, path.parent):
        os.utime(each, (moment, moment))
    return path


def sweeper(home: Home, store: SqliteStore, **days: int) -> Retention:
    given = {**NEVER, **{f"keep.{what}_days": value for what, value in days.items()}}
    return Retention(home, store, FixedClock(), Config(given))


def accept(db: Db, content: str, now: int, *, waits: bool = True) -> None:
    groups.add(db, "acme", "acme", "scripted", now)
    session = sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", now)
    message_id = add_arrival(db, now, text="look", platform_id="1", content=content)
    row = inbox.enqueue(db, message_id, session.id, "acme", "member", now)
    if not waits:
        inbox.set_state(db, row, InboxState.ANSWERED, "", None, now)


def settled(db: Db, now: int) -> None:
    accept(db, "{}", now, waits=False)


async def test_stranger_07_media_over_age_are_removed_and_what_an_open_row_names_is_not(
    home: Home, store: SqliteStore
) -> None:
    old = [
        aged(home.media / "web/aaaa/0", 31),
        aged(home.media / "in/f-2/gone.txt", 31),
        aged(home.media / "voice/x", 31),
    ]
    young = aged(home.media / "web/bbbb/0", 29)
    asked, goes = aged(home.media / "in/f-1/asked.txt", 99), aged(home.media / "out/key/file.txt", 99)
    await store.write(accept, '{"attachments": [{"path": "in/f-1/asked.txt", "name": "asked.txt"}]}', NOON)
    new = NewEffect(
        key="k",
        op=Op.FILE,
        origin=EffectOrigin.TOOL,
        instance="fake",
        address="fake:room/1",
        payload={"files": [{"path": str(goes)}]},
    )
    await store.write(add, new, NOON)
    os.utime(home.media / "voice/x", (1, 1))

    assert await sweeper(home, store, media=30).sweep() == RetentionCounts(media=3)

    assert [path.exists() for path in (*old, young, asked, goes)] == [False, False, False, True, True, True]


async def test_copies_that_an_open_request_needs_stay_whatever_their_age(home: Home, store: SqliteStore) -> None:
    needed, ended = aged(home.media / "held/h-1/0", 99), aged(home.media / "held/h-2/0", 99)
    bound = BoundReads(files=(BoundFile("report.txt", str(needed), 1, "0" * 64),))
    await store.write(requests.add, NewRequest(kind=RequestKind.CALL, name="k", input={}, bound=bound), NOON)

    assert await sweeper(home, store, media=30).sweep() == RetentionCounts(media=1)
    assert (needed.exists(), ended.exists()) == (True, False)


async def test_each_of_two_gateways_removes_the_files_on_its_own_disk_and_keeps_what_either_has_in_use(
    home: Home, store: SqliteStore, tmp_path: Path
) -> None:
    """Rows are swept by one of them. A file lies where it came, and a copy of it where its agent is."""
    other = Home(tmp_path / "other")
    other.prepare()
    gone = [aged(each.media / "in/f-2/gone.txt", 31) for each in (home, other)]
    used = [aged(each.media / "in/f-1/asked.txt", 99) for each in (home, other)]
    await store.write(accept, '{"attachments": [{"path": "in/f-1/asked.txt", "name": "asked.txt"}]}', NOON - 99 * DAY)

    assert (await sweeper(home, store, media=30, messages=40).sweep()).media == 1
    assert [path.exists() for path in gone] == [False, True]  # whoever sweeps the rows does not reach it

    assert await sweeper(other, store, media=30, messages=40).sweep_files() == RetentionCounts(media=1)
    assert not any(path.exists() for path in gone) and all(path.exists() for path in used)


async def test_the_files_of_a_gateway_are_removed_while_another_sweeps_all(
    home: Home, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FIRST_S", 0)
    monkeypatch.setattr(retention, "EVERY_S", 0)
    beside, rests = sweeper(home, store, media=30), True
    file = aged(home.media / "in/f-2/gone.txt", 31)
    looks = 0

    def sweeps_all() -> bool:
        nonlocal looks
        looks += 1
        return rests

    task = asyncio.create_task(beside.run_beside(sweeps_all))
    await until(lambda: looks > 2)
    assert file.exists()
    rests = False
    await until(lambda: not file.exists(), "the file to be removed")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_engagements_that_ended_long_ago_go_whatever_is_kept(home: Home, store: SqliteStore) -> None:
    def engage(db: Db) -> None:
        groups.add(db, "acme", "acme", "scripted", NOON)
        for thread, ends in (("old", NOON - 2 * DAY), ("new", NOON - SECOND), ("never", None)):
            engagements.put(db, Engagement("fake", "fake:room/1", thread, "acme", None, ends, SECOND, NOON - 3 * DAY))

    await store.write(engage)
    await sweeper(home, store).sweep()
    left = [
        bool(await store.read(engagements.list_at, "fake", "fake:room/1", each)) for each in ("old", "new", "never")
    ]
    assert left == [False, True, True]


async def test_with_every_setting_at_0_nothing_is_removed(home: Home, store: SqliteStore) -> None:
    kept = aged(home.media / "web/aaaa/0", 9999)
    await store.write(settled, NOON - 9999 * DAY)

    assert await sweeper(home, store).sweep() == RetentionCounts()
    assert kept.exists()


@pytest.fixture
async def session(home: Home, store: SqliteStore) -> sessions.Session:
    """One that was last used 31 days ago."""

    def make(db: Db) -> sessions.Session:
        groups.add(db, "acme", "acme", "scripted", 1)
        return sessions.find_or_add(db, SessionMode.SHARED, "acme", "fake", "fake:room/1", "", NOON - 31 * DAY)

    made = await store.write(make)
    for name in ("in/inbound.db", "out/outbound.db", "state/conversation"):
        aged(home.session(made.id) / name, 31)
    return made


async def test_stranger_23_as_it_comes_messages_stay_and_steps_files_and_session_folders_go_after_a_month(
    home: Home, store: SqliteStore, session: sessions.Session
) -> None:
    await store.write(settled, NOON - 31 * DAY)
    aged(home.media / "web/aaaa/0", 31)

    swept = await Retention(home, store, FixedClock(), Config({})).sweep()

    assert swept == RetentionCounts(messages=0, steps=2, media=1, sessions=2)
    assert (await store.read(ledger.check, NOON)).unaccounted == 0


async def test_stranger_23_of_a_session_that_may_go_on_only_the_mailbox_is_removed(
    home: Home, store: SqliteStore, session: sessions.Session
) -> None:
    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 2

    assert sorted(each.name for each in home.session(session.id).iterdir()) == ["state"]
    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 0


async def test_stranger_23_the_folder_of_a_closed_session_is_removed_and_a_strangers_link_is_not_followed(
    home: Home, store: SqliteStore, session: sessions.Session, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (home.session(session.id) / "state/link").symlink_to(outside)
    await store.write(sessions.close, session.id, NOON - 31 * DAY)

    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 1

    assert not home.session(session.id).exists()
    assert (outside / "precious").read_text() == "kept"


async def test_a_session_with_work_or_a_young_one_or_an_awake_one_is_left_alone(
    home: Home, store: SqliteStore, session: sessions.Session
) -> None:
    assert (await sweeper(home, store, sessions=32).sweep()).sessions == 0

    @contextmanager
    def awake(session_id: str) -> Iterator[bool]:
        yield False

    config = Config({**NEVER, "keep.sessions_days": 30})
    assert (await Retention(home, store, FixedClock(), config, awake).sweep()).sessions == 0

    def hear(db: Db) -> None:
        message_id = messages.add_system(db, session, "key", {}, NOON)
        assert message_id is not None
        inbox.enqueue(db, message_id, session.id, "acme", "member", NOON - 31 * DAY)

    await store.write(hear)
    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 0
    assert (home.session(session.id) / "in/inbound.db").exists()


async def test_the_folder_of_a_session_that_nobody_knows_is_removed(home: Home, store: SqliteStore) -> None:
    old, young = home.session("s-gone"), home.session("s-new")
    for folder, days in ((old, 31), (young, 1)):
        folder.mkdir()
        os.utime(folder, ((NOON - days * DAY) / SECOND,) * 2)

    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 1
    assert (old.exists(), young.exists()) == (False, True)


async def test_what_a_removal_that_was_cut_short_left_behind_is_removed(home: Home, store: SqliteStore) -> None:
    places = [home.sessions / ".a1.gone", home.groups / ".b2.gone", home.groups / "acme", home.sessions / ".c3.gone"]
    for folder, days in zip(places, (31, 31, 31, 1), strict=True):
        (folder / "deep").mkdir(parents=True)
        os.utime(folder, ((NOON - days * DAY) / SECOND,) * 2)

    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 2
    assert [each.exists() for each in places] == [False, False, True, True]


@pytest.mark.slow
async def test_folders_that_nobody_knows_are_removed_beside_ten_thousand_others(home: Home, store: SqliteStore) -> None:
    for number in range(10_001):
        young = home.sessions / f"s-{number}"
        young.mkdir()
        os.utime(young, (NOON / SECOND,) * 2)
    old = home.session("s-gone")
    old.mkdir()
    os.utime(old, ((NOON - 31 * DAY) / SECOND,) * 2)

    assert (await sweeper(home, store, sessions=30).sweep()).sessions == 1
    assert not old.exists()


async def test_bookings_of_a_running_month_stay_whatever_is_set(home: Home, store: SqliteStore) -> None:
    from gatepost.flow.retention import COSTS, LEAST_COSTS

    assert sweeper(home, store, costs=1).before(COSTS) == NOON - LEAST_COSTS * DAY


def refuse(db: Db, number: int, rights: str, reason: str, now: int) -> None:
    message_id = add_arrival(
        db,
        now,
        sender=f"fake:user/{number}",
        sender_name="Eve",
        text=f"text {number}",
        platform_id=f"p{number}",
        content=f'{{"text": "text {number}"}}',
    )
    inbox.refuse(db, message_id, "acme", rights, reason, now)


def list_texts(db: Db) -> list[tuple[str, str, str]]:
    return [(row[0], row[1], row[2]) for row in db.rows("SELECT text, sender_name, sender FROM messages ORDER BY id")]


@pytest.mark.slow
async def test_texts_of_refused_strangers_go_after_their_days_and_the_refusals_stay(
    home: Home, store: SqliteStore
) -> None:
    old, young = NOON - 31 * DAY, NOON - 29 * DAY
    await store.write(refuse, 1, "guest", "unknown_sender_strict", old)
    await store.write(refuse, 2, "member", "budget_spent", old)
    await store.write(refuse, 3, "member", "denied_by_the_access_list", old)
    await store.write(refuse, 4, "guest", "no_route", young)
    await store.write(settled, NOON - 31 * DAY)
    keeper = Retention(home, store, FixedClock(), Config(NEVER))

    assert await keeper.sweep() == RetentionCounts(refused=2)

    assert await store.read(list_texts) == [
        ("", "", "fake:user/1"),
        ("text 2", "Eve", "fake:user/2"),
        ("", "", "fake:user/3"),
        ("text 4", "Eve", "fake:user/4"),
        ("look", "", "fake:user/1"),
    ]
    assert (await store.read(dropped.count_all, 0)) == 4
    assert await keeper.sweep() == RetentionCounts()
    given = {**NEVER, "people.keep_refused_days": 0}
    assert await Retention(home, store, FixedClock(), Config(given)).sweep() == RetentionCounts()


@pytest.mark.slow
async def test_what_a_request_repeats_of_a_refused_stranger_goes_with_it(home: Home, store: SqliteStore) -> None:
    def ask(db: Db, number: int, state: str, kind: RequestKind = RequestKind.SENDER) -> str:
        asked, _ = requests.add(
            db,
            NewRequest(
                kind=kind,
                name=f"fake:user/{number}",
                folder="acme",
                input={"text": f"let me in {number}"},
            ),
            NOON - 31 * DAY,
        )
        db.run("UPDATE requests SET state = ?, notified_at = asked_at WHERE id = ?", (state, asked.id))
        return asked.id

    denied, allowed = await store.write(ask, 1, "denied"), await store.write(ask, 2, "allowed")
    room, open_room = (
        await store.write(ask, 3, "denied", RequestKind.ROOM),
        await store.write(ask, 4, "allowed", RequestKind.ROOM),
    )
    assert (await Retention(home, store, FixedClock(), Config(NEVER)).sweep()).refused == 2
    found = [await store.read(requests.get, each) for each in (denied, allowed, room, open_room)]
    assert [each.input for each in found if each is not None] == [
        {},
        {"text": "let me in 2"},
        {},
        {"text": "let me in 4"},
    ]
