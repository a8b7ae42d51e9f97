"""Full text: what is found, how it is shown, who may find it, and that the index follows the messages."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.core.clock import DAY, SystemClock
from gatepost.core.errors import Invalid
from gatepost.store import destinations, groups, inbox, messages, migrate, search, sessions
from gatepost.store.messages import NewMessage
from gatepost.store.migrate import all_migrations
from gatepost.store.port import Db
from gatepost.store.search import Part, Wanted
from gatepost.store.writer import Sqlite, SqliteStore, connect

ROOT = Part("root", everything=True)
_ids = count(1)


def say(db: Db, text: str, room: str = "fake:room/1", sender: str = "fake:user/1", at: int = 5) -> int:
    new = NewMessage(
        instance="fake",
        address=room,
        direction="in",
        kind="chat",
        sender=sender,
        text=text,
        at=at,
        platform_id=str(next(_ids)),
    )
    message_id = messages.accept(db, new, at)
    assert message_id is not None
    inbox.refuse(db, message_id, "", "guest", "", at, state="observed")
    return message_id


def found(db: Db, query: str, part: Part = ROOT, **wanted: object) -> list[int]:
    search.index(db)
    return [hit.id for hit in search.find(db, Wanted(query=query, part=part, **wanted))]  # type: ignore[arg-type]


def snippets(db: Db, query: str) -> list[str]:
    search.index(db)
    return [hit.snippet for hit in search.find(db, Wanted(query=query, part=ROOT))]


def talk(db: Db, folder: str, room: str) -> None:
    groups.add(db, folder, folder, "scripted", 1)
    sessions.resolve(db, "per-thread", folder, "fake", room, "", 1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("quick", {1, 2}),
        ('"quick brown"', {1}),
        ("silver OR fox", {1, 2}),
        ("quick AND fox", {1}),
        ("quick fox", {1}),
        ("quick NOT brown", {2}),
        ("sil*", {2}),
        ("NEAR(quick fox, 2)", {1}),
        ("NEAR(the jumps, 1)", set()),
        ("QUICK", {1, 2}),
        ("cafe", {3}),
        ('"..."', set()),
        ("nothing", set()),
    ],
)
def test_the_syntax_of_a_query(db: Db, query: str, expected: set[int]) -> None:
    for text in ("the quick brown fox jumps", "quick silver", "un café, merci"):
        say(db, text)
    assert set(found(db, query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("会議", {1}),
        ("会", {1, 4}),
        ("京タ", {1}),
        ("日本", {2}),
        ("日", {1, 2, 3}),
        ('"東京タワー"', {1}),
        ("東京 AND 明日", {1}),
        ("東京　明日", {1}),
        ("日本 OR foo", {2, 4}),
        ("日 NOT 明日", {2, 3}),
        ("foo会", {4}),
        ("울에", {5}),
        ("서울*", {5}),
        ("中文", set()),
        ("本日", set()),
    ],
)
def test_any_part_of_a_text_without_blanks_is_found(db: Db, query: str, expected: set[int]) -> None:
    for text in ("東京タワーの会議は明日", "私は日本", "日", "foo会bar", "서울에서 만나요"):
        say(db, text)
    assert set(found(db, query)) == expected


def test_a_snippet_marks_what_fits_and_is_short(db: Db) -> None:
    say(db, "明日の会議は東京で")
    say(db, " ".join(f"word{number}" for number in range(200)) + " needle " + "tail " * 50)
    assert snippets(db, "会議") == ["明日の«会議»は東京で"]
    (shown,) = snippets(db, "needle")
    assert "«needle»" in shown and shown.startswith("…") and shown.endswith("…")
    assert len(shown.split()) <= search.TOKENS + 1


def test_the_best_come_first_and_of_equal_ones_the_newest(db: Db) -> None:
    weak = say(db, "fish is one word of a rather long text about all kinds of other things")
    first, second = say(db, "fish soup"), say(db, "fish soup")
    assert found(db, "fish") == [second, first, weak]


@pytest.mark.parametrize(
    "query",
    ['"', "AND", "a OR", "a) OR (b", "(a", "*", "marks : x", "nothing : x", "NEAR(a", "a ^ ^", "", "   ", "x" * 1001],
)
def test_a_malformed_query_says_what_is_wrong(db: Db, query: str) -> None:
    say(db, "a b")
    with pytest.raises(Invalid, match="query"):
        found(db, query)
    assert found(db, "a") == [1]


def test_a_very_deep_query_is_refused_and_does_no_harm(db: Db) -> None:
    say(db, "a b")
    for depth in range(240, 270, 3):
        try:
            found(db, "(" * depth + "a" + ")" * depth)
        except Invalid:
            continue
    assert found(db, "a") == [1]


def test_sender_time_and_room_narrow_a_search(db: Db) -> None:
    old = say(db, "tea", sender="fake:user/1", at=1 * DAY)
    new = say(db, "tea", "fake:room/2", sender="fake:user/2", at=9 * DAY)
    assert found(db, "tea", sender="fake:user/1") == [old]
    assert found(db, "tea", sender="fake:user/") == []
    assert found(db, "tea", since=9 * DAY) == [new]
    assert found(db, "tea", since=9 * DAY + 1) == []
    assert found(db, "tea", room="fake:room/2") == [new]
    assert found(db, "tea", room="fake:room/") == []


def test_what_was_fetched_late_is_dated_by_when_it_was_said(db: Db) -> None:
    for number in range(20):
        say(db, "tea", at=(number + 1) * DAY)
    late = say(db, "tea", at=10 * DAY)
    assert late in found(db, "tea", since=10 * DAY)
    assert len(found(db, "tea", since=10 * DAY)) == 12


def test_arizuko_check_35_the_limit_is_counted_after_the_rights(db: Db) -> None:
    talk(db, "acme", "fake:room/1")
    own = [say(db, "tea") for _ in range(3)]
    for number in range(500):
        say(db, "tea", f"fake:room/{2 + number % 7}")
    assert set(found(db, "tea", Part("acme"), limit=3)) == set(own)
    assert len(found(db, "tea", limit=200)) == 200


def test_many_rooms_are_as_well_guarded_as_few(db: Db) -> None:
    groups.add(db, "acme", "acme", "scripted", 1)
    for number in range(search.MOST_MARKED + 5):
        destinations.add_room(db, "acme", f"r{number}", "fake", f"fake:room/{number}", "", 1)
    own, other = say(db, "tea", "fake:room/3"), say(db, "tea", "fake:elsewhere/1")
    assert found(db, "tea", Part("acme")) == [own]
    assert set(found(db, "tea")) == {own, other}


@given(
    said=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["tea", "tea milk", "milk", "茶", "x"])), max_size=12),
    held=st.lists(st.tuples(st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]), st.integers(0, 5)), max_size=6),
    part=st.builds(Part, st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]), st.booleans()),
    query=st.sampled_from(["tea", "milk OR tea", "NOT x", "茶", "x NOT tea", "t*", ") OR (x", '" OR "x']),
    room=st.sampled_from(["", "fake:room/1", "fake:room/4"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_hit_is_ever_of_a_room_that_the_caller_may_not_read(
    db: Db, said: list[tuple[int, str]], held: list[tuple[str, int]], part: Part, query: str, room: str
) -> None:
    for table in ("sessions", "groups", "messages"):
        db.run(f"DELETE FROM {table}")
    for folder, number in held:
        groups.add(db, folder, folder, "scripted", 1)
        sessions.resolve(db, "per-thread", folder, "fake", f"fake:room/{number}", "", 1)
    for number, text in said:
        say(db, text, f"fake:room/{number}")
    search.index(db)
    own = {
        f"fake:room/{number}"
        for folder, number in held
        if folder == part.folder or (part.below and folder.startswith(part.folder + "/"))
    }
    try:
        hits = search.find(db, Wanted(query=query, part=part, room=room))
    except Invalid:
        return
    assert {hit.address for hit in hits} <= (own & {room} if room else own)
    if query == "tea":
        expected = {f"fake:room/{number}" for number, text in said if "tea" in text}
        assert {hit.address for hit in hits} == expected & (own & {room} if room else own)


def test_the_index_follows_what_is_changed_and_deleted(db: Db) -> None:
    first, second = say(db, "before"), say(db, "before too")
    assert set(found(db, "before")) == {first, second}
    db.run("UPDATE messages SET text = '東京 after' WHERE id = ?", (first,))
    assert found(db, "before") == [second]
    assert found(db, "京") == [first]
    db.run("DELETE FROM messages WHERE id = ?", (second,))
    assert found(db, "before") == []
    waiting = say(db, "short life")
    db.run("DELETE FROM messages WHERE id = ?", (waiting,))
    assert found(db, "life") == [] and not search.is_behind(db)


def test_the_index_is_written_now_and_then_by_itself(db: Db) -> None:
    for _ in range(search.EVERY + 1):
        say(db, "tea")
    assert search.is_behind(db)
    waiting = db.row("SELECT COUNT(*) FROM unsearched")
    assert waiting == (1,)


def test_a_stranger_whom_nobody_let_in_is_not_found(db: Db) -> None:
    new = NewMessage(
        instance="fake", address="fake:room/1", direction="in", kind="chat", sender="x:1", text="tea", at=1
    )
    message_id = messages.accept(db, new, 1)
    assert message_id is not None
    inbox.refuse(db, message_id, "", "guest", "unknown_sender_strict", 1)
    assert found(db, "tea") == []


def test_a_store_that_has_messages_is_indexed_when_it_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, known = tmp_path / "old.db", all_migrations()
    monkeypatch.setattr(migrate, "all_migrations", lambda: [each for each in known if each.number < 10])
    migrate.migrate(path, SystemClock())
    connection = connect(path)
    db = Sqlite(connection)
    number = say(db, "an old 会議")
    monkeypatch.undo()
    migrate.migrate(path, SystemClock())
    assert not search.is_behind(db)
    assert [hit.id for hit in search.find(db, Wanted(query="会", part=ROOT))] == [number]
    connection.close()


async def test_a_transaction_that_fails_leaves_nothing_in_the_index(store: SqliteStore) -> None:
    def fail(db: Db) -> None:
        for _ in range(search.EVERY + 3):
            say(db, "tea")
        raise Invalid("x", "stop")

    with pytest.raises(Invalid):
        await store.write(fail)
    await store.write(say, "coffee")
    await store.write(search.index)
    assert await store.read(search.find, Wanted(query="tea", part=ROOT)) == []
    assert [hit.id for hit in await store.read(search.find, Wanted(query="coffee", part=ROOT))] == [1]
