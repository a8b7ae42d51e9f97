"""Which files a conversation keeps."""

from typing import Any

import msgspec
import pytest

from gatepost.messages.inbound import Direction
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.messages import Message
from gatepost.store.port import Db
from gatepost.store.schedule import retention
from gatepost.store.sessions import groups, session_files, sessions
from gatepost.store.sessions.session_files import ConversationFiles
from gatepost.store.sessions.sessions import SessionMode
from gatepost_testing.arrivals import add_arrival

ROOM = "fake:room/1"


def add_session(db: Db, thread: str = "") -> str:
    if groups.get(db, "acme") is None:
        groups.add(db, "acme", "Acme", "", 1)
    return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme", "fake", ROOM, thread, 1).id


def send(db: Db, session_id: str, name: str, size: int = 10, quotes: int = 0) -> tuple[int, Message]:
    """A message with a file, or one that quotes another; its row and itself."""
    content: dict[str, Any] = {"text": ""}
    if name:
        content["attachments"] = [{"name": name, "path": f"in/f-{name}/{name}", "size": size}]
    if quotes:
        content["replyTo"] = {"id": "x", "text": "", "message": quotes, "files": [{"name": "a"}]}
    ident = add_arrival(db, 1, platform_id=f"{name}-{quotes}", content=msgspec.json.encode(content).decode())
    row_id = inbox.enqueue(db, ident, session_id, "acme", "member", 1)
    found = messages.get(db, ident)
    assert found is not None and found.direction is Direction.IN
    return row_id, found


def list_names(files: ConversationFiles) -> dict[int, list[str]]:
    return {row_id: [each.name for each in listed] for row_id, listed in files.rows.items()}


async def test_the_oldest_files_make_way_and_the_row_that_needed_their_space_tells(store: SqliteStore) -> None:
    def run(db: Db) -> None:
        session_id = add_session(db)
        rows = [send(db, session_id, name) for name in ("a", "b", "c")]
        (first, second, third) = (row_id for row_id, _ in rows)
        for row in rows:
            session_files.keep(db, session_id, [row], 20)
            session_files.keep(db, session_id, [row], 20)  # as after a restart
        found = session_files.load(db, session_id, rows)

        assert list_names(found) == {second: ["b"], third: ["c"]}
        assert found.dropped == {third: ["a"]}
        large = send(db, session_id, "large", 1000)
        session_files.keep(db, session_id, [large], 20)
        assert list_names(session_files.load(db, session_id)) == {large[0]: ["large"]}, "it has just come"
        assert first < second

    await store.write(run)


async def test_a_reply_brings_back_the_file_of_what_it_quotes_to_the_same_path(store: SqliteStore) -> None:
    def run(db: Db) -> None:
        session_id = add_session(db)
        first, second = send(db, session_id, "a"), send(db, session_id, "b")
        session_files.keep(db, session_id, [first, second], 10)
        assert list_names(session_files.load(db, session_id)) == {second[0]: ["b"]}
        reply = send(db, session_id, "", quotes=first[1].id)
        session_files.keep(db, session_id, [reply], 10)
        found = session_files.load(db, session_id, [reply])

        assert list_names(found) == {first[0]: ["a"]} and found.quoted == {reply[0]: first[0]}
        assert found.dropped == {reply[0]: ["b"]}
        other = add_session(db, "elsewhere")
        assert session_files.load(db, other, [reply]).quoted == {}, "a conversation that never had it"

    await store.write(run)


async def test_a_fork_has_the_files_and_they_go_with_their_message_and_with_a_new_beginning(store: SqliteStore) -> None:
    def add(db: Db) -> tuple[str, str, list[tuple[int, Message]]]:
        parent, child = add_session(db), add_session(db, "side")
        rows = [send(db, parent, "a"), send(db, parent, "b")]
        session_files.keep(db, parent, rows, 100)
        session_files.inherit(db, parent, child)
        return parent, child, rows

    parent, child, ((first, message), (second, _)) = await store.write(add)
    assert list_names(await store.read(session_files.load, child)) == {first: ["a"], second: ["b"]}
    await store.write(retention.remove_message, message.id)
    assert list_names(await store.read(session_files.load, child)) == {second: ["b"]}
    await store.write(sessions.remove_conversations, child, 2)
    assert list_names(await store.read(session_files.load, child)) == {}
    assert list_names(await store.read(session_files.load, parent)) == {second: ["b"]}


async def test_files_of_a_group_that_is_sealed_are_not_kept_by_those_who_watched_it(store: SqliteStore) -> None:
    """What its siblings were not shown yet they never are: neither the words nor the file."""

    def run(db: Db) -> None:
        for folder in ("acme", "acme/a", "acme/b"):
            groups.add(db, folder, folder, "", 1)
        groups.update(db, "acme/a", {"open": True})
        groups.add_watcher(db, "acme/b", "acme/a", "test", 1)
        session_id = sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/b", "fake", ROOM, "", 1).id
        content = msgspec.json.encode({"attachments": [{"name": "plan", "path": "in/f-1/plan", "size": 1}]}).decode()
        ident = add_arrival(db, 1, platform_id="1", content=content)
        row_id = inbox.observe(db, ident, session_id, "acme/b", "member", 1, watched="acme/a")
        found = messages.get(db, ident)
        assert found is not None
        session_files.keep(db, session_id, [(row_id, found)], 100)
        own = send(db, session_id, "own")
        session_files.keep(db, session_id, [own], 100)
        groups.update(db, "acme/a", {"open": False})

        assert list_names(session_files.load(db, session_id)) == {own[0]: ["own"]}

    await store.write(run)


async def test_a_conversation_remembers_no_more_files_than_it_may_keep(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each further file would cost as much as all that ever came."""
    monkeypatch.setattr(session_files, "MOST", 3)

    def run(db: Db) -> None:
        session_id = add_session(db)
        rows = [send(db, session_id, f"file{number}") for number in range(20)]
        for row in rows:
            session_files.keep(db, session_id, [row], 20)
        found = session_files.load(db, session_id, rows[-1:])

        assert list_names(found) == {rows[-2][0]: ["file18"], rows[-1][0]: ["file19"]}
        assert found.dropped[rows[-1][0]] == ["file17"]
        assert len(session_files.SESSION_FILES.list(db, "")) == 6

    await store.write(run)
