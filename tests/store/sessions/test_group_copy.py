"""One agent's rows, put back from an older store: its own as they were, and nobody else's touched."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Direction
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.memory import memories
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import NewMessage
from gatepost.store.people import identities, users
from gatepost.store.port import Db, Store
from gatepost.store.rooms import routes
from gatepost.store.rooms.routes import Route
from gatepost.store.schedule import retention, scheduled_texts, tasks
from gatepost.store.schedule.tasks import NewTask, ScheduleKind, Task, TaskState
from gatepost.store.sessions import group_copy, groups, pinned_rules, sessions
from gatepost.store.sessions.group_copy import GroupCopy, list_below, put_back, read_copy

ANN, BOB, CID = "web:user/ann", "web:user/bob", "web:user/cid"
NOW, HOUR = 1_800_000_000_000_000, 3600_000_000
AGENTS = ("acme", "acme/eng", "acmeandmore", "beta")
TABLES = ("groups", "routes", "pinned_rules", "memories", "memory_words", "tasks", "sessions")


def seed(db: Db) -> None:
    for folder in AGENTS:
        groups.add(db, folder, folder, "scripted", NOW)
        remember(db, folder, f"{folder} likes figs")
        pinned_rules.add(db, folder, "", f"Be {folder}.", "ann", NOW)
        routes.add(db, Route(seq=1, match="room=x", target=folder, folder=folder, created_by="ann", created_at=NOW))
        plan(db, folder, NOW + HOUR)
        session = sessions.find_or_add(db, "shared", folder, "fake", "fake:1", "", NOW)
        sessions.set_conversation(db, session.id, "claude", f"{folder} then", NOW)


def remember(db: Db, folder: str, text: str) -> Memory:
    new = Memory(folder=folder, text=text, scope=MemoryScope.AGENT, trust=MemoryTrust.MEMBER, created_at=NOW)
    return memories.add(db, new)


def plan(db: Db, folder: str, next_at: int, text: str = "Good morning.") -> str:
    new = NewTask(
        folder=folder,
        instance="fake",
        address="fake:1",
        text=text,
        kind=ScheduleKind.EVERY,
        schedule="1h",
        every=HOUR,
        next_at=next_at,
        created_by="ann",
    )
    return tasks.add(db, new, (), 0, NOW).id


def add_people(db: Db) -> None:
    """Ann wrote to the agent by a further name of hers, Bob is somebody of whom it remembers something, and Cid has
    nothing to do with it."""
    for person in (ANN, BOB, CID):
        users.add(db, person, person, NOW)
    identities.add(db, "fake:user/anna", ANN, "test", NOW)
    session = next(each for each in sessions.list_open(db) if each.folder == "acme")
    said = NewMessage(
        instance="fake",
        address="fake:1",
        direction=Direction.IN,
        platform_id="1",
        sender="fake:user/anna",
        text="x",
        at=NOW,
    )
    message = messages.accept(db, said, NOW)
    assert message is not None
    inbox.enqueue(db, message, session.id, "acme", "member", NOW)
    for folder, person in (("acme", BOB), ("beta", CID)):
        about = {"scope": MemoryScope.PERSON, "person": person, "trust": MemoryTrust.MEMBER, "created_at": NOW}
        memories.add(db, Memory(folder=folder, text=f"of {person}", **about))  # type: ignore[arg-type]


def spoil(db: Db, folder: str) -> None:
    groups.update(db, folder, {"name": "spoilt"})
    db.run("UPDATE memories SET text = 'spoilt' WHERE folder = ?", (folder,))
    db.run("DELETE FROM pinned_rules WHERE folder = ?", (folder,))
    db.run("UPDATE routes SET match = 'spoilt' WHERE folder = ?", (folder,))
    remember(db, folder, "spoilt and more")
    plan(db, folder, NOW + HOUR, "spoilt")
    for session in sessions.list_open(db):
        if session.folder == folder:
            sessions.set_conversation(db, session.id, "claude", "spoilt", NOW)


def show(db: Db, folder: str, tables: tuple[str, ...] = TABLES) -> dict[str, list[object]]:
    return {name: sorted(map(repr, db.rows(f"SELECT * FROM {name} WHERE folder = ?", (folder,)))) for name in tables}


def list_rows(db: Db, sql: str) -> list[tuple[object, ...]]:
    return db.rows(sql)


def list_states(db: Db) -> list[tuple[str, str]]:
    rows = db.rows("SELECT id, state FROM tasks WHERE folder = 'acme' AND state <> 'active'")
    return [(str(row[0]), str(row[1])) for row in rows]


def get_task(db: Db) -> Task:
    (found,) = [each for each in tasks.list_page(db, "acme", "", 10) if each.folder == "acme"]
    return found


def show_conversations(db: Db) -> list[tuple[object, ...]]:
    return sorted(
        db.rows("SELECT s.folder, c.conversation FROM conversations c JOIN sessions s ON s.id = c.session_id")
    )


@pytest.fixture
async def copy(store: Store, tmp_path: Path, empty_store: Path) -> GroupCopy:
    """Of a store that went on: both have what was there when it was copied."""
    await store.write(seed)
    await store.write(add_people)
    return await make_copy(store, tmp_path, empty_store)


async def make_copy(store: Store, tmp_path: Path, empty_store: Path) -> GroupCopy:
    path = Path(shutil.copy(empty_store, tmp_path / "then.db"))
    connection = connect(path)
    then = SqliteDb(connection)
    connection.execute("PRAGMA foreign_keys=OFF")
    for name in (*TABLES, "conversations", "users", "identities", "messages", "inbox"):
        columns = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")]
        for row in await store.read(list_rows, f"SELECT {', '.join(columns)} FROM {name}"):
            then.run(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    connection.close()
    return read_copy(path, "acme")


async def test_an_agent_is_as_it_was_and_every_other_as_it_is(store: Store, copy: GroupCopy) -> None:
    before = await store.read(show, "acme")
    for folder in AGENTS:
        await store.write(spoil, folder)
    others = [await store.read(show, folder) for folder in AGENTS[1:]]
    added = {each.id for each in await store.read(tasks.list_page, "acme", "", 10)}
    await store.write(put_back, copy, NOW)
    after = await store.read(show, "acme")
    for name in ("groups", "routes", "pinned_rules", "memories", "memory_words"):
        assert after[name] == before[name], name
    assert [await store.read(show, folder) for folder in AGENTS[1:]] == others
    assert await store.read(show_conversations) == [
        ("acme", "acme then"),
        *((folder, "spoilt") for folder in AGENTS[1:]),
    ]
    found = dict(await store.read(list_states))
    assert sorted(found.values()) == [TaskState.CANCELLED] and found.keys() < added
    await store.write(put_back, copy, NOW)
    assert await store.read(show, "acme") == after  # done again, it changes nothing


async def test_how_an_agent_runs_stays_as_people_have_it_now(store: Store, copy: GroupCopy) -> None:
    """Else a feature of a model comes back that was taken away since, or a limit is gone."""
    now = {"provider": "openai", "model": "small", "options": {"egress": "refuse"}, "limits": {"memory_mb": 64}}
    await store.write(groups.update, "acme", {**now, "name": "renamed"})
    await store.write(put_back, copy, NOW)
    found = await store.read(groups.get, "acme")
    assert found is not None and found.name == "acme"
    assert {name: getattr(found, name) for name in now} == now


async def test_an_agent_that_was_removed_comes_back_closed_and_without_rights(store: Store, copy: GroupCopy) -> None:
    await store.write(groups.update, "acme", {"mounts": []})
    await store.write(groups.remove, "acme")
    await store.write(put_back, copy, NOW)
    found = await store.read(groups.get, "acme")
    assert found is not None and not found.open and found.name == "acme"
    assert (await store.read(show_conversations))[0] == ("acme", "acme then")
    assert len((await store.read(show, "acme"))["tasks"]) == 1


async def test_a_task_that_went_on_keeps_its_time_and_one_that_would_be_due_at_once_waits(
    store: Store, copy: GroupCopy
) -> None:
    task = await store.read(get_task)
    later = NOW + 10 * HOUR
    await store.write(lambda db: db.run("UPDATE tasks SET next_at = ? WHERE id = ?", (later + HOUR, task.id)))
    await store.write(put_back, copy, later)
    same = await store.read(get_task)
    assert (same.state, same.next_at) == (TaskState.ACTIVE, later + HOUR)
    await store.write(tasks.set_state, task.id, TaskState.COMPLETED, "", None, later)
    await store.write(put_back, copy, later)
    held = await store.read(get_task)
    assert (held.state, held.reason) == (TaskState.PAUSED, group_copy.REASON)


@pytest.mark.parametrize(
    ("change", "agreed"),
    [("text = 'Buy now!'", 0), ("address = 'fake:2'", 0), ("thread = 't'", 0), ("title = 'Offers'", 1)],
)
async def test_nobody_agreed_to_words_of_a_task_that_come_back(
    store: Store, copy: GroupCopy, change: str, agreed: int
) -> None:
    """What was agreed to is the text of now, in the room of now."""
    task = await store.read(get_task)
    await store.write(lambda db: db.run(f"UPDATE tasks SET {change} WHERE id = ?", (task.id,)))
    await store.write(scheduled_texts.add_agreed, task.id, [("acme", "hold send")])
    await store.write(put_back, copy, NOW)
    assert (await store.read(get_task)).text == "Good morning."
    assert len(await store.read(scheduled_texts.list_agreed, task.id)) == agreed


@pytest.mark.parametrize(("now", "wanted"), [("plan", "plan"), (None, "")])
async def test_a_conversation_gets_no_mode_back_in_which_it_asked_nobody(
    store: Store, tmp_path: Path, empty_store: Path, now: str | None, wanted: str
) -> None:
    """`now`: the mode of now; None: the conversation is gone."""

    def list_modes(db: Db) -> list[str]:
        return [str(row[0]) for row in db.rows("SELECT permission_mode FROM sessions WHERE folder = 'acme'")]

    await store.write(seed)
    await store.write(lambda db: db.run("UPDATE sessions SET permission_mode = 'bypassPermissions'"))
    copy = await make_copy(store, tmp_path, empty_store)
    await store.write(lambda db: db.run("UPDATE sessions SET permission_mode = ?", (now or "",)))
    if now is None:
        await store.write(groups.remove, "acme")
    await store.write(put_back, copy, NOW)
    assert await store.read(list_modes) == [wanted]


async def test_a_limit_that_a_task_was_given_since_stays(store: Store, copy: GroupCopy) -> None:
    await store.write(lambda db: db.run("UPDATE tasks SET max_cost = 5, title = 'new' WHERE folder = 'acme'"))
    await store.write(put_back, copy, NOW)
    task = await store.read(get_task)
    assert (task.max_cost, task.title) == (5, "")


async def test_rows_whose_numbers_are_another_agents_by_now_are_refused_whole(store: Store, copy: GroupCopy) -> None:
    """As they are after the whole store was restored, and others were made since."""
    await store.write(lambda db: db.run("UPDATE memories SET folder = 'beta' WHERE folder = 'acme'"))
    before = await store.read(show, "acme")
    with pytest.raises(Invalid, match="does not fit"):
        await store.write(put_back, copy, NOW)
    assert await store.read(show, "acme") == before


async def test_what_a_memory_was_said_in_is_named_only_if_it_is_the_same_message(store: Store, copy: GroupCopy) -> None:
    rows = copy.tables["memories"]
    at = rows.columns.index("message_id")
    stray = [(*row[:at], 4711, *row[at + 1 :]) for row in rows.rows]
    tables = {**copy.tables, "memories": group_copy.CopiedRows(rows.columns, stray)}
    await store.write(put_back, GroupCopy("acme", tables, copy.below), NOW)
    assert {each.message_id for each in await store.read(memories.list_chosen, memories.MemoryFilter(), NOW)} == {None}


async def test_agents_below_are_those_whose_folders_lie_in_its_own(store: Store, copy: GroupCopy) -> None:
    assert copy.below == await store.read(list_below, "acme") == ("acme/eng",)


@pytest.mark.parametrize("person", [ANN, BOB])
async def test_nothing_of_somebody_who_was_forgotten_since_comes_back(
    store: Store, copy: GroupCopy, person: str
) -> None:
    def forget(db: Db) -> None:
        db.run("DELETE FROM identities WHERE person = ?", (person,))
        db.run("DELETE FROM users WHERE id = ?", (person,))
        db.run("DELETE FROM memories WHERE person = ?", (person,))

    await store.write(forget)
    before = await store.read(show, "acme")
    with pytest.raises(Invalid, match="forgotten since"):
        await store.write(put_back, copy, NOW)
    assert await store.read(show, "acme") == before


STRANGER = "fake:user/stranger"


def add_words(db: Db, sender: str, folder: str, number: int) -> int:
    said = NewMessage(
        instance="fake",
        address="fake:1",
        direction=Direction.IN,
        platform_id=str(number),
        sender=sender,
        text="x",
        at=NOW,
    )
    message = messages.accept(db, said, NOW)
    assert message is not None
    session = next(each for each in sessions.list_open(db) if each.folder == folder)
    inbox.enqueue(db, message, session.id, folder, "guest", NOW)
    return message


@pytest.mark.parametrize(
    ("forgotten", "older", "refused"),
    [("acme", True, True), ("beta", True, False), ("acme", False, False)],
)
async def test_the_words_of_a_stranger_who_was_forgotten_since_do_not_come_back(
    store: Store, tmp_path: Path, empty_store: Path, forgotten: str, older: bool, refused: bool
) -> None:
    """Nobody knows a stranger, before and after. `older`: there are messages of before theirs; else all of then were
    removed because they were old."""
    await store.write(seed)
    earlier = await store.write(add_words, "fake:user/other", "beta", 1)
    ids = {
        folder: await store.write(add_words, f"{STRANGER}/{folder}", folder, 2 + at)
        for at, folder in enumerate(("acme", "beta"))
    }
    copy = await make_copy(store, tmp_path, empty_store)
    gone = [ids[forgotten], *([] if older else [earlier])]
    for each in gone:
        await store.write(retention.remove_message, each)
    with pytest.raises(Invalid, match="forgotten since") if refused else nullcontext():
        await store.write(put_back, copy, NOW)


async def test_somebody_else_who_was_forgotten_and_somebody_who_was_joined_hinder_nothing(
    store: Store, copy: GroupCopy
) -> None:
    def change(db: Db) -> None:
        db.run("DELETE FROM users WHERE id = ?", (CID,))
        identities.add(db, BOB, ANN, "test", NOW)

    await store.write(change)
    await store.write(put_back, copy, NOW)


@pytest.mark.parametrize("name", ["s-of-beta/out", "..", ".", "a\nb"])
async def test_a_backup_in_foreign_hands_names_no_conversation_so_that_it_lies_in_anothers_folder(
    store: Store, copy: GroupCopy, tmp_path: Path, name: str
) -> None:
    connection = connect(tmp_path / "then.db")
    connection.execute("PRAGMA foreign_keys=OFF")
    connection.execute("UPDATE sessions SET id = ? WHERE folder = 'acme'", (name,))
    connection.close()
    with pytest.raises(Invalid, match="as none of ours is"):
        read_copy(tmp_path / "then.db", "acme")
