"""`gatepost user forget`: whatever was seeded, no file of the home has a trace of it. And refused messages live."""

import asyncio
import json
import signal
import socket
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from gatepost.access.acl import list_valid_rows
from gatepost.app import Gateway
from gatepost.core.errors import Invalid
from gatepost.flow import grant_changes
from gatepost.flow.people.person_erasure import PersonErasure
from gatepost.messages.inbound import Quote
from gatepost.store import search
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox
from gatepost.store.money import ledger
from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db, Store
from gatepost.store.rights import acl, audit
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.store.rights.audit import AuditRecord
from gatepost_testing import fork_server
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel
from gatepost_testing.clock import FixedClock
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.gateway import open_room, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, block_until

MARK = "zebramarker"
HER, PHONE, BOB = f"stub:user/{MARK}", f"stub:user/{MARK}-phone", "stub:user/bob"
ROOM, OTHER_ROOM, DIRECT = "stub:room/1", "stub:room/2", f"stub:direct/{MARK}"

# A channel of the test's own: each line of its socket is an event, and the answer says what became of it.
CHANNEL = """
import asyncio, json
from gatepost.channels.contract import channel
from gatepost.messages.inbound import Attachment, Inbound, Quote
from gatepost.store.rooms.rooms import RoomPolicy


@channel("stub", always=True, policy=RoomPolicy.PUBLIC)
class Stub:
    def __init__(self, around):
        self.sent = 0

    async def listen(self, receive):
        async def serve(reader, writer):
            while line := await reader.readline():
                given = json.loads(line)
                files = tuple(Attachment(name=n, data=d.encode()) for n, d in given.pop("files", {}).items())
                quote = Quote(**given.pop("quote")) if "quote" in given else None
                got = await receive(Inbound(attachments=files, reply_to=quote, **given))
                writer.write(json.dumps([got.state, got.reason]).encode() + b"\\n")

        async with await asyncio.start_unix_server(serve, SOCKET) as server:
            await server.serve_forever()

    async def send(self, address, message):
        self.sent += 1
        return f"out-{self.sent}"
"""


class Stub:
    """People on that channel."""

    def __init__(self, path: Path) -> None:
        self._path, self._count = path, 0

    def say(self, text: str, sender: str, address: str, **more: Any) -> list[str]:
        self._count += 1
        event = {"address": address, "platform_id": f"in-{self._count}", "sender": sender, "text": text, **more}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(PATIENCE_S)
            line.connect(str(self._path))
            line.sendall(json.dumps(event).encode() + b"\n")
            found: list[str] = json.loads(line.makefile().readline())
            return found


@contextmanager
def started(tmp_path: Path) -> Iterator[tuple[DaemonProcess, Stub]]:
    home = tmp_path / "home"
    (home / "plugins" / "channels").mkdir(parents=True)
    path = tmp_path / "stub.sock"
    (home / "plugins" / "channels" / "stub.py").write_text(CHANNEL.replace("SOCKET", repr(str(path))))
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted", sandbox_least_free_mb="0") as daemon:
        block_until(path.exists, "the channel listens")
        script = ScriptBuilder().turn("ask (.*)").call("send", text="{1}").say("asked for {1}")
        script = script.turn("wonder").call("ask_user_question", questions=[{"question": "Which one?"}]).say("thanks")
        script = script.turn("(.*)").say("{1}!")
        script.write(home / "groups" / "home").chmod(0o644)
        yield daemon, Stub(path)


def settle(daemon: DaemonProcess) -> None:
    block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "nothing is in flight")


def seed(daemon: DaemonProcess, stub: Stub) -> None:
    """The marker in every place that the gateway has for what people say."""
    done = daemon.gatepost("user", "add", HER, "--name", MARK)
    assert done.returncode == 0, done.stderr
    for command in (
        ("user", "member", HER, "home"),
        ("user", "role", HER, "admin", "--folder", "home"),
        ("grant", "allow", HER, "interact", "--scope", "home"),
        ("budget", "set", "--user", HER, "--daily", "5"),
        ("grant", "add", "home", "hold send"),
    ):
        done = daemon.gatepost(*command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    code = daemon.json("pair", HER)["code"]
    assert stub.say(code, PHONE, DIRECT, sender_name=MARK, direct=True)[0] == "answered"
    stub.say(f"my {MARK}", HER, DIRECT, sender_name=MARK, direct=True, files={f"{MARK}.txt": MARK}, room_name=MARK)
    stub.say(f"hello {MARK}", HER, ROOM, sender_name=MARK)
    quote = {"platform_id": "in-3", "sender": MARK, "text": f"hello {MARK}"}
    stub.say("I agree", BOB, ROOM, sender_name="bob", quote=quote)
    settle(daemon)
    stub.say(f"ask {MARK}", HER, ROOM, sender_name=MARK)
    settle(daemon)
    call_unknown_tool(daemon, stub)
    (daemon.home / "logs" / "gatepost.log").open("a").write(json.dumps({"event": "seen", "sender": HER}) + "\n")
    (waits,) = daemon.json("permit", "ls")
    assert MARK in json.dumps(waits), waits
    waits = waits.get("request", waits)
    assert (
        stub.say(f"/deny {waits['id']} because {MARK}", PHONE, DIRECT, sender_name=MARK, direct=True)[0] == "answered"
    )
    settle(daemon)
    assert stub.say(f"/pin {MARK} as well", HER, ROOM, sender_name=MARK)[0] == "answered"
    stub.say("wonder", BOB, ROOM, sender_name="bob")
    block_until(lambda: daemon.json("permit", "ls"), "the question waits")
    (asked,) = daemon.json("permit", "ls")
    answer = f"/answer {asked.get('request', asked)['id']} the {MARK} one"
    assert stub.say(answer, HER, ROOM, sender_name=MARK)[0] == "answered"
    settle(daemon)


def call_unknown_tool(daemon: DaemonProcess, stub: Stub) -> None:
    """An agent takes the person's words for the name of a tool, and the audit has them."""
    folder = daemon.home / "groups" / "home"
    usual = (folder / "script.json").read_bytes()
    ScriptBuilder().turn("conjure").call(f"{MARK}_tool").say("there is none").write(folder).chmod(0o644)
    stub.say("conjure", HER, OTHER_ROOM, sender_name=MARK)
    settle(daemon)
    assert MARK in json.dumps([row for row in daemon.json("audit", "list") if row["verdict"] == "unknown"])
    (folder / "script.json").write_bytes(usual)


def index(home: Path) -> None:
    connection = connect(home / "gatepost.db")
    with connection:
        search.index(SqliteDb(connection))
    connection.execute("PRAGMA wal_checkpoint")  # in the file and in its log
    connection.close()


def find_traces(home: Path, word: bytes = MARK.encode()) -> list[str]:
    """Every file of the home that has the word, byte for byte, or whose name has it."""
    found = []
    for path in sorted(home.rglob("*")):
        named = word.decode() in str(path.relative_to(home)).lower()
        if named or (path.is_file() and word in path.read_bytes().lower()):
            found.append(str(path.relative_to(home)))
    return found


@pytest.mark.slow
def test_nothing_of_a_person_is_left_in_any_file_of_the_home(tmp_path: Path) -> None:
    with started(tmp_path) as (daemon, stub):
        seed(daemon, stub)
        index(daemon.home)
        before = find_traces(daemon.home)
        assert {"gatepost.db", "gatepost.db-wal"} <= {*before} and "logs/gatepost.log" in before
        assert any(each.startswith("media/") for each in before)
        assert any(each.startswith("sessions/") for each in before)

        listed = daemon.json("user", "forget", PHONE)
        assert listed["identities"] == [HER, PHONE] and not listed["erased"]
        assert listed["counts"]["messages"] >= 4 and listed["counts"]["files"] == 1
        assert find_traces(daemon.home) == before

        done = daemon.json("user", "forget", HER, "--yes", "--export", str(tmp_path / "her.zip"))
        assert done["erased"] and done["counts"]["messages"] >= 4, done
        assert find_traces(daemon.home) == []

        checked = daemon.json("audit", "verify")
        assert checked["whole"], checked
        assert daemon.json("ledger", "check")["unaccounted"] == 0
        assert MARK not in json.dumps(daemon.json("audit", "list")) + json.dumps(daemon.json("ledger", "list"))
        assert stub.say("still there", BOB, ROOM, sender_name="bob")[0] == "queued"
        settle(daemon)
        assert "still there!" in json.dumps(daemon.json("ledger", "list"))
    assert find_traces(daemon.home) == []
    with zipfile.ZipFile(tmp_path / "her.zip") as archive:
        assert MARK in archive.read("messages.jsonl").decode() and MARK in archive.read("person.json").decode()
        assert [archive.read(each) for each in archive.namelist() if each.endswith(f"{MARK}.txt")] == [MARK.encode()]


@pytest.mark.slow
def test_refused_messages_are_followed_as_they_come(tmp_path: Path) -> None:
    with started(tmp_path) as (daemon, stub):
        assert daemon.gatepost("user", "block", BOB).returncode == 0
        stub.say("before", BOB, ROOM)
        shown = tmp_path / "shown"
        with shown.open("wb") as out:
            following = fork_server.start(["dropped", "--follow", "--json"], daemon.env, out, out)
        try:
            block_until(lambda: shown.read_bytes().count(b"\n") >= 1, "it shows what was refused before")
            assert stub.say("after", BOB, "stub:room/2")[0] == "refused"
            block_until(lambda: shown.read_bytes().count(b"\n") >= 2, "it shows what is refused now")
        finally:
            following.send_signal(signal.SIGKILL)
            following.wait(PATIENCE_S)
        seen = [json.loads(line) for line in shown.read_text().splitlines()]
        assert [(each["reason"], each["room"], each["sender"]) for each in seen] == [
            ("denied_by_the_access_list", ROOM, BOB),
            ("denied_by_the_access_list", "stub:room/2", BOB),
        ]


class Cut(Exception):
    """The process ends here."""


class EndingStore:
    """A store that takes so many writes and no more."""

    def __init__(self, store: Store, after: int) -> None:
        self._store, self._left = store, after
        self.read, self.truncate_log = store.read, store.truncate_log

    async def write(self, *args: Any, **options: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Cut
        return await self._store.write(*args, **options)


class Chat:
    """A gateway in this process, with two people in a room; one of them is a member."""

    def __init__(self, gateway: Gateway, channel: FakeChannel) -> None:
        self.gateway, self.channel = gateway, channel

    async def say(self, text: str, sender: str = "fake:user/9", **more: Any) -> None:
        await self.channel.say(text, sender=sender, **more)

    @property
    def hooks(self) -> tuple[Any, ...]:
        return self.gateway.sessions.keep_asleep, self.gateway.sessions.end

    async def list_senders(self) -> list[str]:
        def read(db: Db) -> list[str]:
            return [row[0] for row in db.rows("SELECT sender FROM messages WHERE direction = 'in' ORDER BY id")]

        return await self.gateway.store.read(read)


@pytest.fixture
async def chat(tmp_path: Path, channel: FakeChannel) -> AsyncIterator[Chat]:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", "fake:room/1")
        script = ScriptBuilder().turn("wait").wait_for("go").say("done").turn("(.*)").say("{1}!")
        script.write(gateway.home.group("home")).chmod(0o644)
        yield Chat(gateway, channel)


def has_open_turn(db: Db) -> bool:
    return db.row("SELECT 1 FROM turns WHERE ended_at IS NULL") is not None


async def test_what_nobody_has_begun_to_answer_is_withdrawn(chat: Chat) -> None:
    chat.gateway.sessions.halted = True
    await chat.say("number 1")
    assert (await chat.gateway.erasure.erase("fake:user/9", "operator")).counts["messages"] == 1
    chat.gateway.sessions.halted = False
    await wait_until_settled(chat.gateway)
    assert chat.channel.texts() == []


@pytest.mark.slow
async def test_while_an_agent_answers_her_she_is_not_forgotten_and_the_way_out_is_named(chat: Chat) -> None:
    await chat.say("wait")
    async with asyncio.timeout(PATIENCE_S):
        while not await chat.gateway.store.read(has_open_turn):  # noqa: ASYNC110  another process begins it
            await asyncio.sleep(0.02)
    with pytest.raises(Invalid, match="gatepost stop s-"):
        await chat.gateway.erasure.erase("fake:user/9", "operator")
    (chat.gateway.home.group("home") / "go").write_text("")
    await wait_until_settled(chat.gateway)
    assert (await chat.gateway.erasure.erase("fake:user/9", "operator")).counts["messages"] == 1


@pytest.mark.slow
async def test_somebody_whose_name_begins_like_hers_keeps_everything(chat: Chat) -> None:
    await chat.say("from her")
    await chat.say("from him", sender="fake:user/91")
    await wait_until_settled(chat.gateway)
    await chat.gateway.store.write(users.add, "fake:user/91", "Bob", chat.gateway.clock.now())

    await chat.gateway.erasure.erase("fake:user/9", "operator")

    assert await chat.list_senders() == ["fake:user/91"]
    assert await chat.gateway.store.read(users.get, "fake:user/91") is not None
    assert (await chat.gateway.store.read(ledger.check, chat.gateway.clock.now())).unaccounted == 0


@pytest.mark.slow
async def test_a_run_that_was_cut_short_anywhere_is_continued_by_the_next(chat: Chat) -> None:
    store = chat.gateway.store
    await store.write(users.add, "fake:user/9", "Ann", chat.gateway.clock.now())
    for number in range(3):
        await chat.say(f"number {number}")
    await wait_until_settled(chat.gateway)
    runs = 0
    while True:
        ending = EndingStore(store, after=runs)
        erasure = PersonErasure(chat.gateway.home, cast(Store, ending), chat.gateway.clock, *chat.hooks)
        runs += 1
        try:
            await erasure.erase("fake:user/9", "operator")
        except Cut:
            continue
        break
    assert runs > 10, "it has as many units"
    assert await chat.list_senders() == []
    assert await store.read(users.get, "fake:user/9") is None
    assert (await store.read(audit.verify))[1] is None


@pytest.mark.slow
async def test_a_stranger_who_calls_herself_like_a_common_word_takes_nothing_of_others_along(chat: Chat) -> None:
    store, home = chat.gateway.store, chat.gateway.home
    await store.write(audit.append, AuditRecord(1, "operator", "group.add", "done", {"folder": "info"}))
    (home.logs / "gatepost.log").write_text('{"level": "info", "event": "started"}\n')
    await chat.say("hello", sender="fake:user/info")
    await chat.say("me too", sender="fake:user/bob", platform_id="b-1")
    await chat.say("see", sender="fake:user/ann", reply_to=Quote(platform_id="b-1", sender="info", text="me too"))
    await wait_until_settled(chat.gateway)

    await chat.gateway.erasure.erase("fake:user/info", "operator")

    assert "started" in (home.logs / "gatepost.log").read_text()
    rows = await store.read(audit.list_latest, 100)
    assert [row[5] for row in rows if row[3] == "group.add"] == ['{"folder":"info"}']

    def read(db: Db) -> str:
        return str((db.row("SELECT content FROM messages WHERE sender = 'fake:user/ann'") or ("",))[0])

    assert '"me too"' in await store.read(read)


async def test_she_cannot_have_herself_forgotten(chat: Chat) -> None:
    with pytest.raises(Invalid, match="another owner"):
        await chat.gateway.erasure.erase("fake:user/9", "fake:user/9")


@pytest.mark.slow
async def test_a_flood_of_hers_that_was_only_counted_is_not_written_down_later(
    tmp_path: Path, channel: FakeChannel
) -> None:
    clock = FixedClock()
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}, clock=clock) as gateway:
        for _ in range(30):
            assert (await channel.say("psst", sender="fake:user/9")).state == "refused"
        await gateway.erasure.erase("fake:user/9", "operator")
        clock.advance(7200)
        await channel.say("hi", sender="fake:user/8")
        rows = await gateway.store.write(audit.list_latest, 100)
        assert "fake:user/9" not in json.dumps(rows)


async def test_whom_she_blocked_stays_blocked_and_whom_she_let_in_does_not(chat: Chat) -> None:
    store, now = chat.gateway.store, chat.gateway.clock.now()

    def give(db: Db) -> None:
        users.add(db, "fake:user/9", "Ann", now)
        users.add_role(db, "fake:user/9", UserRole.OWNER, "", "test", now)
        for who, effect in (("fake:user/eve", AclEffect.DENY), ("fake:user/bob", AclEffect.ALLOW)):
            grant_changes.add_row(
                db, AclRow(id=0, principal=who, action="interact", effect=effect, granted_by="fake:user/9"), now
            )

    await store.write(give)
    await chat.gateway.erasure.erase("fake:user/9", "operator")

    assert (await chat.channel.say("hi", sender="fake:user/eve")).reason == "denied_by_the_access_list"
    rows = {row.principal: row.granted_by for row in await store.read(acl.list_rows)}
    assert rows == {"fake:user/eve": acl.OPERATOR, "fake:user/bob": "forgotten"}
    valid = list_valid_rows(await store.read(acl.list_rows), await store.read(acl.list_members))
    assert [row.principal for row in valid] == ["fake:user/eve"]


@pytest.mark.slow
async def test_no_unit_of_the_writer_is_large_however_much_she_wrote(chat: Chat) -> None:
    store, now = chat.gateway.store, chat.gateway.clock.now()

    def add(db: Db) -> None:
        for number in range(600):
            message_id = add_arrival(
                db, now, sender="fake:user/9", text=f"a text of {number} words", platform_id=f"p{number}"
            )
            inbox.refuse(db, message_id, "home", "guest", "no_route", now)

    await store.write(add)
    changes: list[int] = []

    class CountingStore(EndingStore):
        async def write(self, fn: Any, *args: Any, **options: Any) -> Any:
            def count(db: SqliteDb, *given: Any) -> Any:
                before = db.connection.total_changes()
                answer = fn(db, *given)
                changes.append(db.connection.total_changes() - before)
                return answer

            return await self._store.write(count, *args, **options)

    counting = cast(Store, CountingStore(store, 0))
    done = await PersonErasure(chat.gateway.home, counting, chat.gateway.clock, *chat.hooks).erase("fake:user/9", "me")

    assert done.counts["messages"] == 600
    assert len(changes) > 600 / 25 and max(changes) < 500, max(changes)
