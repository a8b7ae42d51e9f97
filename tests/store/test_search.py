"""Full text: what is found, how it is shown, who may find it, and that the index follows the messages."""

from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.migrations.old_stores import make_step_by_step

from gatepost.core.clock import DAY, SystemClock
from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Direction, MessageKind
from gatepost.store import search
from gatepost.store.engine.full_text import LOOKED_AT
from gatepost.store.engine.migrate import migrate
from gatepost.store.engine.sqlite_db import AT_ONCE, SqliteDb, connect
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, inbox, messages
from gatepost.store.messages import snippets as snippets_of
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.search import SearchQuery, Subtree
from gatepost.store.sessions import groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival

ROOT = Subtree("root", everything=True)
_ids = count(1)


def say(
    db: Db, text: str, room: str = "fake:room/1", sender: str = "fake:user/1", at: int = 5, folder: str = ""
) -> int:
    message_id = add_arrival(db, at, address=room, sender=sender, text=text, platform_id=str(next(_ids)))
    inbox.refuse(db, message_id, folder, "guest", "", at, state=InboxState.OBSERVED)
    return message_id


def found(db: Db, query: str, part: Subtree = ROOT, **wanted: object) -> list[int]:
    search.index(db)
    return [hit.id for hit in search.find(db, SearchQuery(query=query, part=part, **wanted))]  # type: ignore[arg-type]


def snippets(db: Db, query: str) -> list[str]:
    search.index(db)
    return [hit.snippet for hit in search.find(db, SearchQuery(query=query, part=ROOT))]


def talk(db: Db, folder: str, room: str) -> None:
    groups.add(db, folder, folder, "scripted", 1)
    sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", room, "", 1)


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
def test_arizuko_35_the_syntax_of_a_query(db: Db, query: str, expected: set[int]) -> None:
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
    assert len(shown.split()) <= snippets_of.TOKENS + 1


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


@pytest.mark.slow
def test_arizuko_35_the_limit_is_counted_after_the_rights(db: Db) -> None:
    talk(db, "acme", "fake:room/1")
    own = [say(db, "tea") for _ in range(3)]
    for number in range(500):
        say(db, "tea", f"fake:room/{2 + number % 7}")
    assert set(found(db, "tea", Subtree("acme"), limit=3)) == set(own)
    assert len(found(db, "tea", limit=200)) == 200


def test_many_rooms_are_as_well_guarded_as_few(db: Db) -> None:
    groups.add(db, "acme", "acme", "scripted", 1)
    for number in range(search.MOST_MARKED + 5):
        destinations.add_room(db, "acme", f"r{number}", "fake", f"fake:room/{number}", "", 1)
    own, other = say(db, "tea", "fake:room/3"), say(db, "tea", "fake:elsewhere/1")
    assert found(db, "tea", Subtree("acme")) == [own]
    assert set(found(db, "tea")) == {own, other}


@given(
    said=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["tea", "tea milk", "milk", "茶", "x"])), max_size=12),
    held=st.lists(st.tuples(st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]), st.integers(0, 5)), max_size=6),
    part=st.builds(Subtree, st.sampled_from(["a", "a/b", "a/b/c", "ab", "b"]), st.booleans()),
    query=st.sampled_from(["tea", "milk OR tea", "NOT x", "茶", "x NOT tea", "t*", ") OR (x", '" OR "x']),
    room=st.sampled_from(["", "fake:room/1", "fake:room/4"]),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_no_hit_is_ever_of_a_room_that_the_caller_may_not_read(
    db: Db, said: list[tuple[int, str]], held: list[tuple[str, int]], part: Subtree, query: str, room: str
) -> None:
    for table in ("sessions", "groups", "messages"):
        db.run(f"DELETE FROM {table}")
    for folder, number in held:
        groups.add(db, folder, folder, "scripted", 1)
        sessions.find_or_add(db, SessionMode.PER_THREAD, folder, "fake", f"fake:room/{number}", "", 1)
    for number, text in said:
        say(db, text, f"fake:room/{number}")
    search.index(db)
    own = {
        f"fake:room/{number}"
        for folder, number in held
        if folder == part.folder or (part.below and folder.startswith(part.folder + "/"))
    }
    try:
        hits = search.find(db, SearchQuery(query=query, part=part, room=room))
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
    search.renew(db, first)
    assert found(db, "before") == [second]
    assert found(db, "京") == [first]
    db.run("DELETE FROM messages WHERE id = ?", (second,))
    assert found(db, "before") == []
    waiting = say(db, "short life")
    db.run("DELETE FROM messages WHERE id = ?", (waiting,))
    assert found(db, "life") == [] and not search.is_behind(db)


@pytest.mark.sqlite
def test_the_index_is_written_now_and_then_by_itself(db: Db) -> None:
    for _ in range(search.EVERY + 1):
        say(db, "tea")
    assert search.is_behind(db)
    waiting = db.row("SELECT COUNT(*) FROM unsearched")
    assert waiting == (1,)


def test_a_stranger_whom_nobody_let_in_is_not_found(db: Db) -> None:
    message_id = add_arrival(db, 1, sender="x:1", text="tea")
    inbox.refuse(db, message_id, "", "guest", "unknown_sender_strict", 1)
    assert found(db, "tea") == []


def test_a_store_that_has_messages_is_indexed_when_it_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_step_by_step(path, 9)
    connection = connect(path)
    db = SqliteDb(connection)
    db.run(  # with the columns of that time
        "INSERT INTO messages (instance, address, direction, platform_id, kind, sender, text, at, accepted_at)"
        " VALUES ('fake', 'fake:room/1', 'in', 'p', 'chat', 'fake:user/1', 'an old 会議', 5, 5)"
    )
    ((number,),) = db.rows("SELECT id FROM messages")
    inbox.refuse(db, number, "", "guest", "", 5, state=InboxState.OBSERVED)
    migrate(path, SystemClock())
    assert not search.is_behind(db)
    assert [hit.id for hit in search.find(db, SearchQuery(query="会", part=ROOT))] == [number]
    connection.close()


async def test_a_transaction_that_fails_leaves_nothing_in_the_index(store: SqliteStore) -> None:
    def fail(db: Db) -> None:
        for _ in range(search.EVERY + 3):
            say(db, "tea")
        raise Invalid("x", "stop")

    with pytest.raises(Invalid):
        await store.write(fail)
    number = await store.write(say, "coffee")
    await store.write(search.index)
    assert await store.read(search.find, SearchQuery(query="tea", part=ROOT)) == []
    assert [hit.id for hit in await store.read(search.find, SearchQuery(query="coffee", part=ROOT))] == [number]


def test_a_message_of_one_word_costs_a_bounded_look(db: Db) -> None:
    for _ in range(30):
        say(db, "a " * 32_000)
    search.index(db)
    look = snippets_of.SnippetFinder("a")
    for _ in range(200):
        look.snippet(look.around("a " * 8000))
    assert look.left > -snippets_of.LONGEST  # then it shows beginnings, without a look
    shown = snippets(db, "a")
    assert shown and all(each.count("«a»") == snippets_of.TOKENS and each.endswith("…") for each in shown)


def test_of_a_long_message_the_part_around_the_first_hit_is_ranked(db: Db) -> None:
    far = say(db, "x " * 5000 + "needle " + "y " * 500)
    apart = say(db, "needle " + "x " * 5000 + "thread")
    assert set(found(db, "needle")) == {far, apart}
    assert found(db, "needle AND thread") == [apart]  # which its part alone would not have told
    assert len(snippets_of.SnippetFinder("needle").around("x " * 5000 + "needle")) <= snippets_of.LONGEST
    assert all("«needle»" in each for each in snippets(db, "needle"))


def test_of_a_very_long_message_the_beginning_is_indexed(db: Db) -> None:
    say(db, "start " + "x " * LOOKED_AT + "end")
    assert len(found(db, "start")) == 1 and found(db, "end") == []


@pytest.mark.sqlite
def test_one_transaction_indexes_so_much_and_no_more(db: Db) -> None:
    for _ in range(40):
        say(db, "x" * 60_000)
    done = search.index(db)
    assert done == AT_ONCE // LOOKED_AT
    assert search.is_behind(db)
    while search.index(db):
        pass
    assert not search.is_behind(db) and len(found(db, "x*", limit=50)) == 40


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ('"quick brown"', "the quick brown fox, quick", "the «quick brown» fox, quick"),
        ("quick OR fox", "the Quick brown fox.", "the «Quick» brown «fox»."),
        ("cafe", "un café, merci", "un «café», merci"),
        ("qui*", "quick_quiet (quit)", "«quick»_«quiet» («quit»)"),
        ('"quick bro"*', "quick brown", "«quick brown»"),
        ("NEAR(a c, 5) NOT x", "a b c 5", "«a» b «c» 5"),
        ("会議 AND tea", "明日の会議tea", "明日の«会議»«tea»"),
    ],
)
def test_a_snippet_marks_the_words_and_the_phrases_that_were_asked_for(
    db: Db, query: str, text: str, shown: str
) -> None:
    say(db, text)
    assert snippets(db, query) == [shown]


def test_a_snippet_is_where_most_of_what_was_asked_for_is(db: Db) -> None:
    say(db, "tea " + "x " * 50 + "milk tea " + "y " * 50)
    (shown,) = snippets(db, "tea AND milk")
    assert shown.startswith("…") and "«milk» «tea»" in shown


def test_a_room_that_is_shared_out_shows_each_part_its_own(db: Db) -> None:
    for folder in ("acme", "acme/eng", "beta"):
        talk(db, folder, "fake:room/1")
    given = {}
    for folder in ("acme", "acme/eng", "beta"):
        given[folder] = say(db, "tea", folder=folder)
        new = NewMessage(
            instance="fake",
            address="fake:room/1",
            direction=Direction.OUT,
            kind=MessageKind.CHAT,
            verb="send",
            sender="",
            text="coffee",
            at=5,
            folder=folder,
        )
        said = messages.accept(db, new, 5)
        db.run(
            "INSERT INTO outbox (key, message_id, origin, op, instance, address, payload, state, created_at,"
            " updated_at) VALUES (?, ?, 'tool', 'send', 'fake', 'fake:room/1', '{}', 'sent', 5, 5)",
            (folder, said),
        )
    both = say(db, "tea", folder="beta")
    inbox.refuse(db, both, "acme/eng", "guest", "", 5, state=InboxState.OBSERVED)
    assert set(found(db, "tea", Subtree("acme"))) == {given["acme"], given["acme/eng"], both}
    assert set(found(db, "tea", Subtree("acme/eng"))) == {given["acme/eng"], both}
    assert set(found(db, "tea", Subtree("beta"))) == {given["beta"], both}
    assert len(found(db, "coffee", Subtree("acme"))) == 2 and len(found(db, "coffee", Subtree("beta"))) == 1
    assert len(found(db, "coffee")) == 3
