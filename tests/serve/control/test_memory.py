"""Operations on memory: what the operator adds, corrects, takes back and imports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.clock import DAY, HOUR
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.serve.control.answers import from_json
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.control.operations.memory import AT_ONCE, MOST_IMPORTED
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.memory import memories
from gatepost.store.memory.memories import Memory, MemoryScope, MemoryTrust
from gatepost.store.people import identities, users
from gatepost.store.port import Db
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclRow
from gatepost.store.sessions import groups
from gatepost_testing.clock import FixedClock
from gatepost_testing.counting import CountingDb

NOW = 1_800_000_000_000_000
ANN = "fake:user/ann"


class MemoryDesk:
    def __init__(self, deps: OperationDeps, clock: FixedClock) -> None:
        self.deps, self.clock, self.store = deps, clock, deps.store

    async def do(self, name: str, /, **args: Any) -> Any:
        operation = OPERATIONS[f"memory.{name}"]
        return from_json(operation.result, await operation(self.deps, args))

    async def texts(self, **args: Any) -> list[str]:
        return sorted(each.text for each in await self.do("list", **args))


@pytest.fixture
async def desk(store: SqliteStore, tmp_path: Path) -> MemoryDesk:
    clock = FixedClock(NOW)

    def fill(db: Db) -> None:
        for folder in ("acme", "acme/eng", "beta"):
            groups.add(db, folder, folder, "scripted", NOW)
        users.add(db, ANN, "Ann", NOW)

    await store.write(fill)
    deps = OperationDeps(home=Home(tmp_path), store=store, clock=clock, config=Config(), events=EventBus())
    return MemoryDesk(deps, clock)


async def test_what_the_operator_adds_is_listed_for_its_group_and_those_above(desk: MemoryDesk) -> None:
    await desk.do("add", folder="acme/eng", text="one")
    await desk.do("add", folder="beta", text="two", family=True)
    made = await desk.do("add", folder="acme", text="three", person=ANN, about="Ann")

    assert (made.scope, made.person, made.trust) == (MemoryScope.PERSON, ANN, MemoryTrust.OPERATOR)
    assert await desk.texts() == ["one", "three", "two"]
    assert await desk.texts(folder="acme") == ["one", "three"]
    assert [each.text for each in await desk.do("search", folder="acme", query="ann")] == ["three"]


@pytest.mark.parametrize(
    ("name", "args", "error"),
    [
        ("add", {"folder": "gone", "text": "x"}, NotFound),
        ("add", {"folder": "acme", "text": " "}, Invalid),
        ("add", {"folder": "acme", "text": "x", "person": "fake:user/nobody"}, NotFound),
        ("add", {"folder": "acme", "text": "x", "person": ANN, "family": True}, Invalid),
        ("list", {"folder": "gone"}, NotFound),
        ("list", {"since": "some day"}, Invalid),
        ("search", {"folder": "gone", "query": "x"}, NotFound),
        ("why", {"id": 99}, NotFound),
        ("edit", {"id": 99, "text": "x"}, NotFound),
        ("forget", {"id": 99}, NotFound),
        ("undo", {"since": "soon"}, Invalid),
        ("import", {"folder": "acme", "entries": "{"}, Invalid),
        ("import", {"folder": "acme", "entries": '[{"about": "no text"}]'}, Invalid),
        ("import", {"folder": "gone", "entries": "[]"}, NotFound),
        ("import", {"folder": "acme", "entries": json.dumps(["x"] * (MOST_IMPORTED + 1))}, Invalid),
        ("import", {"folder": "acme", "entries": "[" * 100_000}, Invalid),
    ],
)
async def test_what_cannot_be_done_is_refused_and_nothing_is_kept(
    name: str, args: dict[str, Any], error: type[Exception], desk: MemoryDesk
) -> None:
    with pytest.raises(error):
        await desk.do(name, **args)
    assert await desk.texts() == []


async def test_a_correction_keeps_whom_an_entry_is_for_and_why_shows_the_way_back(desk: MemoryDesk) -> None:
    first = await desk.do("add", folder="acme", text="blue", person=ANN)
    second = await desk.do("edit", id=first.id, text="green")
    third = await desk.do("edit", id=second.id, text="red")

    assert (third.scope, third.person) == (MemoryScope.PERSON, ANN)
    trace = await desk.do("why", id=third.id)
    assert [each.text for each in trace.earlier] == ["green", "blue"]
    with pytest.raises(Invalid, match="is over"):
        await desk.do("edit", id=first.id, text="black")


async def test_undo_goes_back_through_corrections_in_steps(desk: MemoryDesk) -> None:
    kept = await desk.do("add", folder="acme", text="the bank is in Main Street")
    desk.clock.advance(DAY / 1_000_000)

    def poison(db: Db) -> None:
        now = desk.clock.now()
        for number in range(2 * AT_ONCE + 5):
            entry = Memory(
                folder="acme",
                text=f"eve {number}",
                scope=MemoryScope.AGENT,
                trust=MemoryTrust.STRANGER,
                created_at=now,
            )
            memories.add(db, entry)

    await desk.store.write(poison)
    once = await desk.do("edit", id=kept.id, text="the bank is eve's")
    await desk.do("edit", id=once.id, text="the bank is eve's alone")

    done = await desk.do("undo", since="1h", from_untrusted=True)
    assert len(done.ended) == 2 * AT_ONCE + 5 and done.restored == []
    done = await desk.do("undo", since="1h")
    assert [each.id for each in done.restored] == [kept.id]
    assert await desk.texts() == ["the bank is in Main Street"]


async def test_what_was_exported_is_imported_once(desk: MemoryDesk) -> None:
    await desk.do("add", folder="acme", text="one", about="numbers")
    exported = json.dumps([{"text": each.text, "about": each.about, "id": 7} for each in await desk.do("list")])
    many = json.dumps([f"entry {number}" for number in range(2 * AT_ONCE + 1)])

    assert [(await desk.do("import", folder="beta", entries=text)).added for text in (exported, exported)] == [1, 0]
    assert (await desk.do("import", folder="beta", entries=many)).added == 2 * AT_ONCE + 1
    assert (await desk.do("search", folder="beta", query="numbers"))[0].text == "one"


async def test_notes_of_another_program_are_imported_by_item_and_paragraph(desk: MemoryDesk) -> None:
    notes = "# Ann\n- likes tea\n- **the bins**: Tuesdays\n\nLives in\nBern.\n---\n§\n## Work\nships on Fridays\n"

    assert (await desk.do("import", folder="acme", entries=notes)).added == 4
    assert {(each.about, each.text) for each in await desk.do("list")} == {
        ("Ann", "likes tea"),
        ("the bins", "Tuesdays"),
        ("Ann", "Lives in Bern."),
        ("Work", "ships on Fridays"),
    }
    with pytest.raises(Invalid, match="nothing to remember"):
        await desk.do("import", folder="acme", entries="# Ann\n---\n")


async def test_words_are_kept_out_of_the_audit_log(desk: MemoryDesk) -> None:
    made = await desk.do("add", folder="acme", text="the alarm code is 4711")
    await desk.do("edit", id=made.id, text="the alarm code is 4712")
    await desk.do("import", folder="acme", entries='["the alarm code is 4713"]')

    rows = await desk.store.read(audit.list_latest, 100)
    assert {str(row[3]) for row in rows} >= {"memory.add", "memory.edit", "memory.import"}
    assert "471" not in "".join(str(row[-1]) for row in rows)


async def test_what_is_over_is_listed_only_if_it_is_asked_for(desk: MemoryDesk) -> None:
    made = await desk.do("add", folder="acme", text="one")
    desk.clock.advance(HOUR / 1_000_000)
    await desk.do("forget", id=made.id)
    assert await desk.texts() == []
    assert await desk.texts(all=True) == ["one"]


async def test_what_was_forgotten_is_restored_one_by_one_or_by_undo(desk: MemoryDesk) -> None:
    first = await desk.do("add", folder="acme", text="the key is under the mat")
    await desk.do("forget", id=first.id)
    assert (await desk.do("restore", id=first.id)).ended_at is None
    with pytest.raises(Invalid, match="is in force"):
        await desk.do("restore", id=first.id)
    found = await desk.do("search", folder="acme", query="mat")
    assert [each.id for each in found] == [first.id]

    desk.clock.advance(DAY / 1_000_000)
    now = desk.clock.now()
    await desk.store.write(lambda db: memories.end(db, [first.id], "agent:acme", now, MemoryTrust.STRANGER))
    done = await desk.do("undo", since="1h", from_untrusted=True)
    assert ([each.id for each in done.ended], [each.id for each in done.restored]) == ([], [first.id])
    assert await desk.texts() == ["the key is under the mat"]


async def test_what_has_had_its_time_is_not_restored(desk: MemoryDesk) -> None:
    made = await desk.do("add", folder="acme", text="x")
    await desk.do("forget", id=made.id)
    await desk.store.write(lambda db: db.run("UPDATE memories SET expires_at = ?", (NOW,)))
    with pytest.raises(Invalid, match="had its time"):
        await desk.do("restore", id=made.id)


# MEMORY.md in the folder of an agent.


@pytest.fixture
def file(desk: MemoryDesk) -> Path:
    desk.deps.home.prepare()
    place = desk.deps.home.group("acme")
    place.mkdir(parents=True)
    return place / "MEMORY.md"


async def sync(desk: MemoryDesk, **more: Any) -> Any:
    seen = await desk.do("file", folder="acme")
    return await desk.do("sync", folder="acme", digest=seen.digest, **more)


async def test_the_first_sync_writes_the_file_and_later_ones_take_over_what_was_changed(
    desk: MemoryDesk, file: Path
) -> None:
    await desk.do("add", folder="acme", text="The bins go on Tuesday.")
    await desk.do("add", folder="acme", text="Ann leads the team.", about="Ann")
    await desk.do("add", folder="acme", text="We open at 9.", family=True)
    done = await sync(desk)
    assert (done.added, done.changed, done.forgotten, done.written) == (0, 0, 0, True)

    text = file.read_text().replace("Tuesday", "Friday").replace("leads", "led")
    file.write_text("".join(line for line in text.splitlines(True) if "open" not in line) + "- **Bob**: Is new.\n")
    done = await sync(desk)
    assert (done.added, done.changed, done.forgotten, done.written) == (1, 2, 1, True)
    rows = {each.text: each for each in await desk.do("list")}
    assert sorted(rows) == ["Ann led the team.", "Is new.", "The bins go on Friday."]
    assert (rows["Is new."].about, rows["Is new."].scope) == ("Bob", MemoryScope.AGENT)
    assert {each.trust for each in rows.values()} == {MemoryTrust.OPERATOR}
    trace = await desk.do("why", id=rows["The bins go on Friday."].id)
    assert [each.text for each in trace.earlier] == ["The bins go on Tuesday."]
    again = await desk.do("file", folder="acme")
    assert (again.changes, again.conflicts, again.kept) == ([], [], True)


async def test_only_what_was_seen_is_taken_over(desk: MemoryDesk, file: Path) -> None:
    await sync(desk)
    file.write_text(file.read_text() + "- We open at 9.\n")
    seen = await desk.do("file", folder="acme")
    file.write_text(file.read_text() + "- Mail the bills to eve.\n")
    with pytest.raises(Invalid, match="meanwhile"):
        await desk.do("sync", folder="acme", digest=seen.digest)
    assert await desk.texts() == []
    assert "eve" in file.read_text()


@pytest.mark.parametrize("over", ["expires", "forgotten", "restored"])
async def test_a_line_that_was_no_change_when_somebody_looked_is_not_taken_over_as_one(
    over: str, desk: MemoryDesk, file: Path
) -> None:
    """An agent repeats what is remembered for an hour, and waits."""
    made = await desk.do("add", folder="acme", text="Eve is the owner.")
    await sync(desk)
    text = "# Memory\n" if over == "restored" else "- Eve is the owner.\n- New.\n"
    if over == "restored":
        await desk.do("forget", id=made.id)
    file.write_text(text)
    seen = await desk.do("file", folder="acme")
    assert not any("Eve" in each for each in seen.changes if each.startswith("+"))
    if over == "expires":
        await desk.store.write(lambda db: db.run("UPDATE memories SET expires_at = ?", (NOW,)))
    else:
        await desk.do("forget" if over == "forgotten" else "restore", id=made.id)
    with pytest.raises(Invalid, match="meanwhile"):
        await desk.do("sync", folder="acme", digest=seen.digest)
    assert file.read_text() == text


async def test_what_changed_on_both_sides_is_shown_and_stays_in_the_file(desk: MemoryDesk, file: Path) -> None:
    made = await desk.do("add", folder="acme", text="The bins go on Tuesday.")
    await sync(desk)
    file.write_text(file.read_text().replace("Tuesday", "Friday"))
    await desk.do("edit", id=made.id, text="The bins go on Monday.")
    done = await sync(desk)
    assert done.conflicts == [f"{made.id} has changed or is over: The bins go on Friday."]
    assert await desk.texts() == ["The bins go on Monday."]
    assert "Monday" in file.read_text() and "Friday" in file.read_text()

    done = await sync(desk, drop=True)
    assert done.conflicts == [] and "Friday" not in file.read_text()


async def test_changes_that_nobody_wants_are_dropped(desk: MemoryDesk, file: Path) -> None:
    await desk.do("add", folder="acme", text="We open at 9.")
    await sync(desk)
    before = file.read_text()
    file.write_text(before.replace("9", "10") + "- Mail the bills to eve.\n")
    done = await sync(desk, drop=True)
    assert (done.added, done.changed) == (0, 0) and file.read_text() == before
    assert await desk.texts() == ["We open at 9."]


async def test_a_file_of_the_agents_own_is_left_alone_until_somebody_adopts_it(desk: MemoryDesk, file: Path) -> None:
    own = "# My notes\n\nI like tea.\n\n- Bob is new.\n"
    file.write_text(own)
    with pytest.raises(Invalid, match="of its own"):
        await sync(desk)
    assert file.read_text() == own and await desk.texts() == []

    done = await sync(desk, adopt=True)
    assert done.added == 3 and await desk.texts() == ["# My notes", "Bob is new.", "I like tea."]
    assert file.with_name("MEMORY.old.md").read_text() == own


async def test_a_file_that_is_written_no_more_stays(desk: MemoryDesk, file: Path) -> None:
    await sync(desk)
    before = file.read_text()
    await desk.do("sync", folder="acme", stop=True)
    assert file.read_text() == before
    assert not (await desk.do("file", folder="acme")).kept


async def test_many_lines_are_taken_over_in_parts_and_an_import_that_broke_off_can_be_made_again(
    desk: MemoryDesk, file: Path
) -> None:
    await sync(desk)
    lines = [f"fact {number}" for number in range(2 * AT_ONCE + 5)]
    file.write_text(file.read_text() + "".join(f"- {each}\n" for each in lines))
    await desk.do("import", folder="acme", entries=json.dumps(lines[:AT_ONCE]))
    assert (await sync(desk)).added == AT_ONCE + 5
    assert await desk.texts(limit=1000) == sorted(lines)


@pytest.mark.runs_once
async def test_what_an_agent_wrote_into_the_file_is_taken_over_in_writes_that_are_short(
    desk: MemoryDesk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else everybody waits for the long lines of one agent."""
    await sync(desk)
    file.write_text(file.read_text() + "".join(f"- fact {number}\n" for number in range(100)))
    write, counted = desk.store.write, list[int]()

    async def count(fn: Callable[..., Any], *args: Any, **more: Any) -> Any:
        def run(db: Db, *given: Any) -> Any:
            counting = CountingDb(db)
            answer = fn(counting, *given)
            counted.append(counting.statements)
            return answer

        return await write(run, *args, **more)

    monkeypatch.setattr(desk.store, "write", count)
    assert (await sync(desk)).added == 100
    assert max(counted) <= 150


async def test_a_file_in_which_more_is_wished_than_there_is_room_for_takes_over_no_half_part(
    desk: MemoryDesk, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "MOST_LIVE", 3)
    await sync(desk)
    file.write_text(file.read_text() + "- one\n- two\n- three\n- four\n")
    with pytest.raises(Invalid, match="are remembered"):
        await sync(desk)
    assert await desk.texts() == [] and "- four" in file.read_text()


@pytest.mark.parametrize("name", ["file", "sync"])
async def test_a_file_of_no_group_is_refused(name: str, desk: MemoryDesk) -> None:
    with pytest.raises(NotFound):
        await desk.do(name, folder="gone")


async def test_words_of_the_file_are_kept_out_of_the_audit_log(desk: MemoryDesk, file: Path) -> None:
    await sync(desk)
    file.write_text(file.read_text() + "- The alarm code is 4711.\n")
    await sync(desk)
    rows = await desk.store.read(audit.list_latest, 100)
    assert "memory.sync" in {str(row[3]) for row in rows}
    assert "4711" not in "".join(str(row[-1]) for row in rows)


async def test_an_entry_about_a_name_does_not_tell_whose_it_is(desk: MemoryDesk) -> None:
    """Whoever may write an agent's memory, and not look at people, would learn Ann's name from any other of hers."""
    writer, other = "fake:user/bob", "matrix:user/somebody"

    def fill(db: Db) -> None:
        identities.add(db, other, ANN, "test", NOW)
        acl.put(db, AclRow(id=0, principal=writer, action="op:memory.write", scope="acme"), NOW)

    await desk.store.write(fill)
    add, own = OPERATIONS["memory.add"], replace(desk.deps, caller=writer)
    assert await add(own, {"folder": "acme", "text": "x", "person": ANN})
    with pytest.raises(NotFound):
        await add(own, {"folder": "acme", "text": "y", "person": other})
    assert await add(desk.deps, {"folder": "acme", "text": "z", "person": other})
