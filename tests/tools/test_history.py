"""Looking back at rooms: what is shown in which order, pages, what a platform remembers, and who may look."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.channels.contract import MYSELF
from gatepost.core.clock import SECOND, iso
from gatepost.core.errors import Unavailable
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import LARGEST_ANSWER, ToolAnswer
from gatepost.messages.inbound import CLICK, Direction, Inbound
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox, messages, outbox, room_history
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.messages.outbox import OUTBOX, EffectState
from gatepost.store.messages.room_history import Cursor
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rooms import routes
from gatepost.store.search import Subtree
from gatepost.store.sessions import due_sessions, groups, sessions
from gatepost.store.sessions.sessions import SessionMode
from gatepost.tools.contract import TOOLS
from gatepost_testing.arrivals import add_arrival
from gatepost_testing.channel import FakeChannel
from gatepost_testing.counting import CountingDb
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent, is_invalid

load_package("gatepost.tools")

LOOKS: dict[str, dict[str, Any]] = {
    "inspect_messages": {},
    "get_history": {},
    "get_thread": {"topic": ""},
    "fetch_history": {},
}


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found = json.loads(answer.text)
    assert isinstance(found, dict)
    return found


def texts(answer: ToolAnswer) -> list[str]:
    return [each["text"] for each in told(answer)["messages"]]


def _said(db: Db, text: str, at: int, room: str = ROOM, thread: str = "", reason: str = "", folder: str = "") -> int:
    message_id = add_arrival(
        db,
        at,
        instance=PLATFORM,
        address=room,
        thread=thread,
        sender=f"{PLATFORM}:user/2",
        sender_name='Bo <b> "x"',
        text=text,
        platform_id=f"p-{text[:40]}",
        folder=folder,
    )
    inbox.refuse(db, message_id, "", "guest", reason, at, state=InboxState.REFUSED if reason else "silent")
    return message_id


def _talk(db: Db, folder: str, room: str) -> None:
    groups.add(db, folder, folder, "scripted", 1)
    sessions.find_or_add(db, SessionMode.PER_THREAD, folder, PLATFORM, room, "", 1)


@pytest.mark.parametrize("name", sorted(LOOKS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    answer = await agent.call(name, **LOOKS[name])
    if tier <= TOOLS[name].tier:
        assert texts(answer) == ["hello"]
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")


async def test_both_ways_are_shown_oldest_first_with_their_numbers(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await agent.call("reply", text="hi <there>")
    answer = told(await agent.call("inspect_messages"))
    asked, replied = answer["messages"]

    assert (answer["count"], answer["source"], answer["oldest"]) == (2, "local-db", asked["id"])
    assert (asked["text"], asked["seq"], asked["sender"], asked["from_agent"]) == ("hello", 1, "fake:user/1", False)
    assert (replied["text"], replied["seq"], replied["from_me"], replied["state"]) == ("hi <there>", 2, True, "pending")
    first, second = answer["rendered"].split("\n")
    assert first.startswith('<message id="1" sender="Ada" time="') and first.endswith(">hello</message>")
    assert 'id="2" sender="you"' in second and "hi &lt;there&gt;" in second


async def test_what_an_agent_edited_or_deleted_is_shown_and_found_as_people_see_it(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    for text in ("the price is forty", "a secret plum", "it stays"):
        await agent.call("reply", text=text)
    sent = await store.write(_send_all)
    await agent.call("edit", targetId=2, content="the price is fifty")
    await agent.call("delete", targetId=3)
    refused = told(await agent.call("edit", targetId=4, content="nobody sees this"))
    assert len(sent) == 3 and refused
    assert texts(await agent.call("inspect_messages"))[1:3] == ["the price is forty", "a secret plum"], "not yet done"
    await store.write(_send_all, ("nobody sees this",))
    answer = told(await agent.call("inspect_messages"))

    assert [(each["text"], each["changed"]) for each in answer["messages"][1:]] == [
        ("the price is fifty", "edited"),
        ("", "deleted"),
        ("it stays", ""),
    ]
    assert 'changed="deleted"' in answer["rendered"] and "plum" not in answer["rendered"]
    for query, count in (("forty", 0), ("fifty", 1), ("plum", 0), ("nobody", 0), ("stays", 1)):
        assert told(await agent.call("find_messages", query=query))["count"] == count, query


def _send_all(db: Db, refused: tuple[str, ...] = ()) -> list[int]:
    """What waits goes out; what the platform refuses does not."""
    found = []
    for each in OUTBOX.list(db, "WHERE state = 'pending' ORDER BY id"):
        state = EffectState.FAILED if each.payload.get("text") in refused else EffectState.SENT
        outbox.record_outcome(db, each.id, state, "", 2, f"p{each.id}" if each.op == "send" else "")
        found.append(each.id)
    return found


async def test_a_topic_is_named_and_found_as_a_thread(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    await store.write(lambda db: messages.set_topic(db, _said(db, "about plans", SECOND), "plans"))
    await store.write(_said, "about plums", 2 * SECOND)
    (found,) = told(await agent.call("get_thread", topic="plans"))["messages"]

    assert (found["text"], found["topic"]) == ("about plans", "plans")
    assert texts(await agent.call("get_thread", topic="")) == ["about plums"]
    hits = told(await agent.call("find_messages", query="about"))["messages"]
    assert {each["content"].split()[-1]: each["topic"] for each in hits} == {"plans": "plans", "plums": ""}


async def test_names_from_outside_cannot_end_the_block(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    await store.write(_said, "</message> x", SECOND)
    (line,) = told(await agent.call("inspect_messages"))["rendered"].split("\n")
    assert 'sender="Bo &lt;b&gt; &quot;x&quot;"' in line and "&lt;/message&gt; x</message>" in line


@pytest.mark.slow
async def test_a_limit_beyond_its_range_is_brought_to_the_bound(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)

    def fill(db: Db) -> None:
        for number in range(210):
            _said(db, f"m{number}", number * SECOND)

    await store.write(fill)
    assert len(texts(await agent.call("inspect_messages", limit=500))) == 200
    assert len(texts(await agent.call("inspect_messages"))) == 100
    assert texts(await agent.call("inspect_messages", limit=0)) == ["m209"]
    assert texts(await agent.call("inspect_messages", limit=-3)) == ["m209"]
    assert len(texts(await agent.call("get_thread", topic="", limit=500))) == 100
    assert len(texts(await agent.call("get_thread", topic=""))) == 50
    assert len(texts(await agent.call("get_history", limit=500))) == 200


async def test_pages_by_id_by_platform_id_and_by_time_miss_nothing(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    for number, at in enumerate((5, 5, 5, 7, 6)):  # said in one moment, and one that was heard late
        await store.write(_said, f"m{number}", at * SECOND)
    read: list[str] = []
    before: dict[str, Any] = {}
    while page := told(await agent.call("inspect_messages", limit=2, **before))["messages"]:
        read = [each["text"] for each in page] + read
        before = {"before": page[0]["id"]}
    assert read == ["m0", "m1", "m2", "m4", "m3"]
    assert texts(await agent.call("inspect_messages", before="p-m2")) == ["m0", "m1"]
    assert texts(await agent.call("inspect_messages", before=iso(6 * SECOND))) == ["m0", "m1", "m2"]
    assert texts(await agent.call("inspect_messages", before="1970-01-01T01:00:06+01:00")) == ["m0", "m1", "m2"]


@pytest.mark.parametrize("before", ["yesterday", 999, "999", "2026-13-01T00:00:00Z"])
async def test_a_cursor_that_is_none_is_refused(before: object, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    answer = await agent.call("inspect_messages", before=before)
    assert answer.failed and ("RFC" in answer.text or "like 2026" in answer.text or "oldest" in answer.text)


@pytest.mark.parametrize("name", sorted(LOOKS))
@pytest.mark.parametrize("before", [2**64, -(2**64), 2**63, -1])
async def test_a_number_that_no_message_can_have_is_refused_in_the_declaration(
    name: str, before: int, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    assert is_invalid(await agent.call(name, **LOOKS[name], before=before))


async def test_bad_input_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    assert is_invalid(await agent.call("get_thread"))
    assert is_invalid(await agent.call("inspect_messages", limit="many"))
    assert is_invalid(await agent.call("inspect_messages", place=ROOM))
    for name in ("inspect_messages", "get_history", "fetch_history"):
        answer = await agent.call(name, chat_jid="fake:room/9")
        assert answer.failed and "no route to this group" in answer.text


async def test_a_topic_is_shown_alone(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    await store.write(_said, "one", SECOND, ROOM, "a")
    await store.write(_said, "two", SECOND, ROOM, "b")
    assert texts(await agent.call("get_thread", topic="b")) == ["two"]
    assert texts(await agent.call("get_thread", topic="c")) == []


async def test_rooms_below_are_read_and_those_of_others_not(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(_talk, "acme/eng", "fake:room/2")
    await store.write(_talk, "other", "fake:room/3")
    await store.write(_said, "below", SECOND, "fake:room/2")
    assert texts(await agent.call("inspect_messages", chat_jid="fake:room/2")) == ["below"]
    assert (await agent.call("inspect_messages", chat_jid="fake:room/3")).failed


async def test_strangers_and_what_was_put_into_anothers_conversation_are_not_shown(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    await store.write(_said, "let me in", SECOND, ROOM, "", "unknown_sender_strict")
    await store.write(_said, "too dear", SECOND, ROOM, "", "budget_spent")
    await store.write(_said, "for others", SECOND, ROOM, "", "", "other")
    await store.write(_said, "for us", SECOND, ROOM, "", "", "acme/eng")
    assert texts(await agent.call("inspect_messages")) == ["too dear", "for us"]


class Remembering(FakeChannel):
    """A platform that lets a bot look back."""

    def __init__(self, *told: Inbound, fault: Exception | None = None) -> None:
        super().__init__()
        self.told, self.fault = list(told), fault
        self.asked: list[tuple[str, int | None, int]] = []

    async def history(self, address: str, before: int | None, limit: int) -> list[Inbound]:
        self.asked.append((address, before, limit))
        if self.fault is not None:
            raise self.fault
        return self.told


def _earlier(text: str, at: int, sender: str = "fake:user/9", address: str = ROOM) -> Inbound:
    return Inbound(address=address, platform_id=f"old-{text}", sender=sender, sender_name="Cy", text=text, at=at)


async def _with(agent: GateAgent, channel: FakeChannel) -> None:
    agent.deps = replace(agent.deps, adapters={PLATFORM: channel})
    agent.dispatch = Dispatch(TOOLS, agent.deps)


async def test_what_a_platform_remembers_is_kept_and_wakes_nobody(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    await store.write(_said, "known", 3 * SECOND)
    channel = Remembering(
        _earlier("first", SECOND),
        _earlier("mine", 2 * SECOND, MYSELF),
        Inbound(address=ROOM, platform_id="p-known", sender="fake:user/2", text="known", at=3 * SECOND),
        _earlier("elsewhere", SECOND, address="fake:room/3"),
    )
    await _with(agent, channel)
    woken: list[str] = []
    agent.deps.events.on_session(woken.append)
    for _ in range(2):  # told again, nothing is new
        answer = told(await agent.call("fetch_history", limit=999))
        assert [each["text"] for each in answer["messages"]] == ["first", "mine", "known"]
        assert (answer["source"], answer["cap"], answer["count"]) == ("platform", 200, 3)
        assert [each["from_agent"] for each in answer["messages"]] == [False, True, False]
    assert channel.asked[0] == (ROOM, None, 200)
    assert woken == [] and await store.read(due_sessions.list_waiting_sessions) == []
    now = agent.deps.clock.now()
    account = await store.read(ledger.check, now + 3600 * SECOND)
    assert (account.unaccounted, account.in_flight) == (0, 0)
    mine = await store.read(messages.find, PLATFORM, ROOM, "out", "old-mine")
    assert mine is not None and mine.at == 2 * SECOND
    assert texts(await agent.call("find_messages", query="zzz")) == []
    assert [each["content"] for each in told(await agent.call("find_messages", query="first"))["messages"]] == [
        "«first»"
    ]


async def test_a_sender_whom_a_platform_remembers_is_the_one_who_writes_there(
    tmp_path: Path, store: SqliteStore
) -> None:
    """Ids of such a platform are unique on one server only, and this instance is not named like its kind."""
    agent = await GateAgent.create(tmp_path, store, turn=False)
    kind = replace(FakeChannel(platform="zoo").kind, per_server=True)
    channel = Remembering(_earlier("first", SECOND, "zoo:user/9"), _earlier("mine", 2 * SECOND, MYSELF))
    channels = ChannelInstances({PLATFORM: kind}, {PLATFORM: channel})
    agent.deps = replace(agent.deps, adapters={PLATFORM: channel}, channels=channels)
    agent.dispatch = Dispatch(TOOLS, agent.deps)
    answer = told(await agent.call("fetch_history", limit=9))
    assert answer["messages"][0]["sender"] == f"zoo:{PLATFORM}/user/9"
    assert [each["from_agent"] for each in answer["messages"]] == [False, True]


async def test_a_code_that_a_platform_remembers_is_masked(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    code = "GI-ABCD-EFGH-JKMN-2345"
    old = Inbound(address=ROOM, platform_id="old-1", sender="fake:user/9", text=f"come in: {code}", at=SECOND)
    await _with(agent, Remembering(old))
    answer = told(await agent.call("fetch_history", limit=9))
    assert [each["text"] for each in answer["messages"]] == ["come in: GI-****-****-****-****"]
    assert code not in str(await store.read(lambda db: db.rows("SELECT text, content FROM messages")))


async def test_our_own_words_stay_ours_whoever_the_platform_says_wrote_them(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await agent.call("reply", text="ours")
    number = told(await agent.call("inspect_messages"))["messages"][1]["id"]
    await store.write(messages.set_platform_id, number, "out-1")
    bot = Inbound(address=ROOM, platform_id="out-1", sender="fake:user/bot", text="ours", at=SECOND)
    await _with(agent, Remembering(bot))
    assert texts(await agent.call("fetch_history")) == ["hello", "ours"]


async def test_a_page_of_the_platform_ends_where_it_was_asked_to(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=False)
    channel = Remembering(_earlier("first", SECOND))
    await _with(agent, channel)
    assert texts(await agent.call("fetch_history", before=iso(2 * SECOND), limit=5)) == ["first"]
    assert channel.asked == [(ROOM, 2 * SECOND, 5)]


@pytest.mark.parametrize("fault", [Unavailable("fake", "down"), TimeoutError(), OSError("cut off"), ValueError("junk")])
async def test_a_platform_that_fails_leaves_what_is_known(fault: Exception, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await _with(agent, Remembering(fault=fault))
    answer = told(await agent.call("fetch_history"))
    assert (answer["source"], answer["count"]) == ("cache", 1)


async def test_a_platform_that_cannot_look_back_leaves_what_is_known(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)
    await _with(agent, FakeChannel())
    answer = told(await agent.call("fetch_history"))
    assert (answer["source"], answer["count"], answer["cap"]) == ("cache-only", 1, 100)


@pytest.mark.slow
async def test_a_room_that_is_shared_out_shows_each_its_own(tmp_path: Path, store: SqliteStore) -> None:
    """By every look back, also at what the platform remembers and has not told yet."""
    acme = await GateAgent.create(tmp_path / "a", store, "acme")
    beta = await GateAgent.create(tmp_path / "b", store, "beta")

    def share(db: Db) -> None:
        for sender, folder in (("fake:user/7", "beta"), ("fake:user/8", "acme")):
            match = f"sender={sender}"
            new = routes.Route(seq=1, match=match, target=folder, folder=folder, created_by="operator", created_at=1)
            routes.add(db, new)

    await store.write(share)
    channel = Remembering(
        _earlier("for beta", SECOND, "fake:user/7"),
        _earlier("for acme", 2 * SECOND, "fake:user/8"),
        _earlier("for nobody", 3 * SECOND, "fake:user/9"),
    )
    await _with(acme, channel)
    await _with(beta, channel)
    for agent, own in ((acme, "for acme"), (beta, "for beta")):
        await agent.call("reply", text=f"I am {agent.caller.folder}")
        assert texts(await agent.call("fetch_history"))[:2] == [own, "for nobody"]
    for agent, own in ((acme, "for acme"), (beta, "for beta")):
        expected = [own, "for nobody", "hello", f"I am {agent.caller.folder}"]
        for name, given in LOOKS.items():
            assert texts(await agent.call(name, **given)) == expected, name


async def _pages(agent: GateAgent, name: str, **given: Any) -> list[dict[str, Any]]:
    """Every page, newest first, each within the bound."""
    pages: list[dict[str, Any]] = []
    while not pages or pages[-1]["more"]:
        answer = await agent.call(name, **given, **({"before": pages[-1]["oldest"]} if pages else {}))
        assert answer.structured is not None and len(answer.structured) <= LARGEST_ANSWER, answer.text[:200]
        pages.append(told(answer))
        assert pages[-1]["messages"], "a page that leads nowhere"
    return pages


@pytest.mark.parametrize("sign", ["&", "\\", "ü", "\U0001f600"])
@pytest.mark.parametrize("name", sorted(LOOKS))
async def test_stranger_new_a_look_back_stops_at_the_bound_and_goes_on_from_there(
    name: str, sign: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng")
    for number in range(12):
        await store.write(_said, f"{number:02d}" + sign * 12_000, 10 * SECOND + number)

    pages = await _pages(agent, name, **LOOKS[name])
    assert len(pages) > 1
    found = [each["text"][:5] for page in reversed(pages) for each in page["messages"]]
    assert found == [f"{number:02d}{sign * 3}" for number in range(12)] + ["hello"]
    assert not any("(cut:" in each["text"] for page in pages for each in page["messages"])


async def test_stranger_new_a_text_that_alone_is_too_large_is_cut_and_its_length_named(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng", turn=False)
    await store.write(_said, "older", SECOND)
    await store.write(_said, "&" * 100_000, 2 * SECOND)

    said = [each["text"] for page in reversed(await _pages(agent, "inspect_messages")) for each in page["messages"]]
    assert said[0] == "older" and len(said) == 2
    assert said[1].startswith("&&&") and said[1].endswith("of 100000 characters)") and len(said[1]) > 20_000


async def test_stranger_new_no_more_is_read_than_an_answer_can_hold(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng", turn=False)
    for number in range(60):
        await store.write(_said, f"{number:02d}" + "x" * 30_000, SECOND + number)

    def look(db: Db) -> CountingDb:
        counted = CountingDb(db)
        seen, more = room_history.list_in_room(
            counted, PLATFORM, ROOM, None, Cursor(), 200, Subtree("acme/eng"), agent.session.id, 100_000
        )
        assert len(seen) == 3 and more
        return counted

    counted = await store.read(look)
    assert counted.read_chars < 100_000
    assert counted.read_rows == messages.PAGE + 3  # lengths, and then what is shown


async def test_a_pressed_button_is_no_message(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store)

    def press(db: Db) -> None:
        new = NewMessage(
            instance=PLATFORM,
            address=ROOM,
            direction=Direction.IN,
            sender="fake:user/1",
            text="",
            at=agent.deps.clock.now(),
            platform_id="click-1",
            event=CLICK,
        )
        message_id = messages.accept(db, new, new.at)
        assert message_id is not None
        inbox.refuse(db, message_id, agent.session.folder, "guest", "decided p-1", new.at, inbox.InboxState.ANSWERED)

    await store.write(press)
    assert texts(await agent.call("inspect_messages")) == ["hello"]
