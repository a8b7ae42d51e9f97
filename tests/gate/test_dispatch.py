"""The one gate: who may call what, on which room, and what is written down about it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.access.grants import parse
from gatepost.access.tiers import Tier
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, SetupError, Unavailable, Unsupported
from gatepost.core.registry import Registry, load_package
from gatepost.gate.aliases import ALIASES
from gatepost.gate.call_audit import FIRST_ALLOWED, FIRST_REFUSED, MOST_WAITING, WINDOW
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import LARGEST_ANSWER, LARGEST_PASSED, make_failure
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions, turns
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.sessions.turns import Turn
from gatepost.tools.call import Caller, ToolCall
from gatepost.tools.contract import Body, ForwardedResult, Tool, tool
from gatepost_testing.clock import FixedClock
from gatepost_testing.gate_agent import PLATFORM, ROOM, GateAgent, is_invalid

load_package("gatepost.tools")


SMALL: Registry[Tool] = Registry("tool")
OTHER = "fake:room/2"


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def echo(call: ToolCall, text: Body, times: int = 1) -> str:
    """Say it again."""
    return text * times


@tool(tier=Tier.WORLD, group="x", effects=(), registry=SMALL)
async def rule(call: ToolCall) -> str:
    """Rule the world."""
    return "ruled"


@tool(tier=Tier.WORKER, group="x", effects=(), scoped_by="chatJid", registry=SMALL)
async def where(call: ToolCall, chatJid: str | None = None) -> str:
    """Tell the place."""
    place = call.place
    return f"{place.instance} {place.address} {place.thread}"


@tool(tier=Tier.WORKER, group="x", effects=(), scoped_by="folder", registry=SMALL)
async def visit(call: ToolCall, folder: str | None = None) -> str:
    """Go to a group."""
    return folder or "here"


@tool(tier=Tier.WORKER, group="x", effects=(), held=True, registry=SMALL)
async def launch(call: ToolCall) -> str:
    """Launch it."""
    raise AssertionError("a held tool must not run")


@tool(tier=Tier.WORKER, group="x", effects=(), registry=SMALL)
async def burst(call: ToolCall) -> str:
    """Break."""
    raise RuntimeError("secret detail")


@tool(tier=Tier.WORKER, group="x", read_only=True, registry=SMALL)
async def peek(call: ToolCall) -> str:
    """Look."""
    return "seen"


@asynccontextmanager
async def writing_behind(dispatch: Dispatch) -> AsyncIterator[None]:
    task = asyncio.create_task(dispatch.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def details(store: SqliteStore) -> list[dict[str, Any]]:
    rows = await store.read(audit.list_latest, 100)
    return [json.loads(row[5]) for row in reversed(rows)]


@pytest.mark.slow
async def test_unknown_and_forbidden_look_alike_to_the_caller_and_differ_in_the_audit(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme/eng", tools=SMALL)
    async with writing_behind(agent.dispatch):
        forbidden, unknown = await agent.call("rule"), await agent.call("nule")
    assert forbidden.text.replace("rule", "nule") == unknown.text
    assert forbidden.code == unknown.code == INVALID_PARAMS
    assert await agent.audited() == [("rule", "refused"), ("*", "unknown")]
    said = (await details(store))[-1]
    assert said["tool"] == "nule", "which is nobody's word in the chain itself, and can be erased"


async def test_a_gateway_out_of_contact_runs_only_what_reads(tmp_path: Path, store: SqliteStore) -> None:
    in_contact = False
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, may_act=lambda: in_contact)
    async with writing_behind(agent.dispatch):
        refused = await agent.call("echo", text="a")
        seen = await agent.call("peek")
        in_contact = True
        done = await agent.call("echo", text="a")
    assert refused.failed and "lost touch with the database" in refused.text and "try again" in refused.text
    assert (seen.failed, seen.text) == (False, "seen")
    assert (done.failed, done.text) == (False, "a")
    assert [verdict for _, verdict in await agent.audited()] == ["failed", "allowed", "allowed"]


async def test_bad_arguments_are_named(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    async with writing_behind(agent.dispatch):
        missing = await agent.call("echo")
        wrong = await agent.call("echo", text=7)
        unknown = await agent.call("echo", text="a", tex="b")
    for answer, field in ((missing, "`text`"), (wrong, "$.text"), (unknown, "`tex`")):
        assert is_invalid(answer)
        assert field in answer.text
    assert [verdict for _, verdict in await agent.audited()] == ["invalid"] * 3


@pytest.mark.parametrize("raw", [b"", b"[", b"null", b'{"text":"\xff"}', b'{"text":' + b"[" * 100_000, b"1"])
async def test_arguments_that_are_no_object_are_refused(raw: bytes, tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    answer = await agent.dispatch.call(agent.caller, "echo", raw, "1")
    assert is_invalid(answer)


async def test_the_audit_names_the_turn_and_keeps_no_words(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    async with writing_behind(agent.dispatch):
        await agent.call("echo", call_id="c.1", text="my secret", times=2)
    (kept,) = await details(store)
    assert kept["session"] == agent.session.id
    assert str(kept["turn"]).startswith("t-")
    assert kept["call"] == "c.1"
    assert len(str(kept["args_hash"])) == 64
    arguments = kept["args"]
    assert isinstance(arguments, dict)
    assert arguments["times"] == 2
    assert arguments["text"]["length"] == 9
    assert "my secret" not in json.dumps(kept)


async def test_the_turn_is_taken_from_who_runs_the_session_if_it_tells(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    turn = await store.read(turns.find_open, agent.session.id)
    asked: list[int] = []

    def running() -> Turn | None:
        asked.append(1)
        return turn

    told = Caller(agent.caller.folder, agent.session.id, "scripted", running)
    assert told == Caller(agent.caller.folder, agent.session.id, "scripted")
    assert (await agent.dispatch.call(told, "where", b"{}", "1")).text == f"{PLATFORM} {ROOM} "
    assert asked == [1]


async def test_without_a_turn_the_audit_says_so(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, turn=False)
    async with writing_behind(agent.dispatch):
        await agent.call("echo", text="x")
    (kept,) = await details(store)
    assert kept["turn"] is None


async def test_a_held_tool_is_refused_and_recorded(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    async with writing_behind(agent.dispatch):
        answer = await agent.call("launch")
    assert answer.failed
    assert "approval" in answer.text
    assert await agent.audited() == [("launch", "refused")]


async def test_a_tool_that_breaks_says_nothing_about_its_inside(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    async with writing_behind(agent.dispatch):
        answer = await agent.call("burst")
    assert answer.failed
    assert "internal error" in answer.text
    assert answer.outcome.startswith("It failed: ") and "secret" not in answer.outcome
    assert "secret detail" not in answer.text
    assert await agent.audited() == [("burst", "broken")]


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("the channel 'secret'", "secret"),
        Unsupported("secret", "secret", "secret"),
        NotFound("secret", "secret"),
        Invalid("secret", "secret"),
        Refused("secret", "secret", "secret"),
        SetupError("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_call_fails_with_there_is_a_sentence_for_people_that_says_nothing_of_it(
    error: GatepostError,
) -> None:
    answer = make_failure(error)
    assert answer.failed and "secret" in answer.text
    assert re.fullmatch(r"It failed: [a-z ]+\.|", answer.outcome) and "secret" not in answer.outcome
    assert bool(answer.outcome) is not isinstance(error, SetupError)  # who tells people has words for those


async def test_a_room_left_out_is_the_room_of_the_turn(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    assert (await agent.call("where")).text == f"{PLATFORM} {ROOM} "
    assert (await agent.call("where", chatJid=ROOM)).text == f"{PLATFORM} {ROOM} "


async def test_without_a_turn_it_is_the_room_of_the_session_unless_that_spans_rooms(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, turn=False)
    assert (await agent.call("where")).text == f"{PLATFORM} {ROOM} "
    spanning = await GateAgent.create(
        tmp_path, store, "acme/all", tools=SMALL, turn=False, mode=SessionMode.AGENT_SHARED
    )
    answer = await spanning.call("where")
    assert answer.failed
    assert "chatJid" in answer.text


async def test_a_room_of_another_group_is_refused_as_one_that_is_not_there(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)

    def elsewhere(db: Db) -> None:
        sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/ops", PLATFORM, OTHER, "", 1)

    await GateAgent.create(tmp_path, store, "acme/ops", tools=SMALL)
    await store.write(elsewhere)
    foreign, nowhere = await agent.call("where", chatJid=OTHER), await agent.call("where", chatJid="fake:room/9")
    assert foreign.failed and nowhere.failed
    assert foreign.text.replace(OTHER, "fake:room/9") == nowhere.text


async def test_a_destination_is_reached_by_name_and_by_address(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "7", 1)
    assert (await agent.call("where", chatJid="ops")).text == f"{PLATFORM} {OTHER} 7"
    assert (await agent.call("where", chatJid=OTHER)).text == f"{PLATFORM} {OTHER} 7"


async def test_a_room_with_a_live_session_of_this_group_is_reached(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)

    def other(db: Db) -> str:
        return sessions.find_or_add(db, SessionMode.PER_THREAD, "acme/eng", PLATFORM, OTHER, "", 1).id

    session_id = await store.write(other)
    assert not (await agent.call("where", chatJid=OTHER)).failed
    await store.write(sessions.close, session_id, 2)
    assert (await agent.call("where", chatJid=OTHER)).failed


async def test_a_group_outside_the_callers_part_of_the_tree_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    assert (await agent.call("visit")).text == "here"
    assert (await agent.call("visit", folder="acme/eng/sre")).text == "acme/eng/sre"
    assert (await agent.call("visit", folder="acme")).failed
    assert (await agent.call("visit", folder="acme/english")).failed
    root = await GateAgent.create(tmp_path, store, "root", tools=SMALL)
    assert not (await root.call("visit", folder="acme")).failed


async def test_rules_hide_show_and_scope_and_stand_in_the_description(tmp_path: Path, store: SqliteStore) -> None:
    rules = (parse("!echo"), parse("rule"), parse("!where(jid=fake:room/1)"))
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, rules=rules)
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    listed = {each["name"]: each["description"] for each in json.loads(await agent.dispatch.listed_for(agent.caller))}
    assert "echo" not in listed
    assert "!where(jid=fake:room/1)" in listed["where"]
    assert (await agent.call("rule")).text == "ruled"
    assert (await agent.call("echo", text="x")).code == INVALID_PARAMS
    assert (await agent.call("where")).failed
    assert not (await agent.call("where", chatJid="ops")).failed


async def test_what_is_visible_is_looked_up_anew_when_the_bell_rings(tmp_path: Path, store: SqliteStore) -> None:
    known: Registry[Tool] = Registry("tool")
    agent = await GateAgent.create(tmp_path, store, tools=known)
    assert await agent.dispatch.visible_to(agent.caller) == ()
    known.add("echo", SMALL["echo"], "here")
    agent.deps.events.tools(None)
    assert [tool.name for tool in await agent.dispatch.visible_to(agent.caller)] == ["echo"]


async def test_a_flood_of_calls_waits_for_the_audit_and_loses_none_of_it(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    for number in range(MOST_WAITING + 5):  # of as many sessions: of one alone they would be counted
        await agent.dispatch.call(Caller("acme/eng", f"s-{number}"), "nothing", b"{}", str(number))
    rows, broken = await store.read(audit.verify)
    assert rows >= MOST_WAITING
    assert broken is None


async def flood(agent: GateAgent, number: int) -> None:
    for each in range(number):
        await agent.dispatch.call(agent.caller, f"made-up-{each}", b"{}", f"u{each}")
        await agent.dispatch.call(agent.caller, "echo", b'{"txt": 1}', f"i{each}")
        await agent.dispatch.call(agent.caller, "where", b'{"chatJid": "fake:room/9"}', f"r{each}")


@pytest.mark.slow
async def test_stranger_07_refused_calls_are_few_rows_and_one_with_their_number(
    tmp_path: Path, store: SqliteStore
) -> None:
    clock = FixedClock()
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, clock=clock)
    await flood(agent, 1000)
    clock.advance(WINDOW / SECOND)
    await agent.dispatch.call(agent.caller, "rule", b"{}", "later")
    await agent.dispatch.audit.flush()

    found = await agent.audited()
    assert len(found) == 3 * FIRST_REFUSED + 3 + 1
    sums = [each for each in await details(store) if "repeated" in each]
    assert [each["repeated"] for each in sums] == [1000 - FIRST_REFUSED] * 3
    assert await store.read(audit.count_repeated) == 3 * (1000 - FIRST_REFUSED)
    assert (await store.read(audit.verify))[1] is None
    assert found[-3:] == [("*", "unknown"), ("echo", "invalid"), ("where", "refused")]


async def test_stranger_07_what_was_counted_is_written_when_the_gate_ends(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, clock=FixedClock())
    async with writing_behind(agent.dispatch):
        await flood(agent, 50)
    assert await store.read(audit.count_repeated) == 3 * (50 - FIRST_REFUSED)


@pytest.mark.slow
async def test_stranger_07_calls_that_only_read_are_counted_too_and_effects_never(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, clock=FixedClock())
    for _ in range(FIRST_ALLOWED + 50):
        assert not (await agent.call("get_work")).failed
        assert not (await agent.call("set_work", content="x")).failed
    await agent.dispatch.audit.flush(last=True)
    found = await agent.audited()
    assert found.count(("get_work", "allowed")) == FIRST_ALLOWED + 1
    assert found.count(("set_work", "allowed")) == FIRST_ALLOWED + 50


async def test_sessions_and_minutes_are_counted_apart(tmp_path: Path, store: SqliteStore) -> None:
    clock = FixedClock()
    agent = await GateAgent.create(tmp_path, store, tools=SMALL, clock=clock)
    for session in ("s-1", "s-2", "s-1"):
        for _ in range(FIRST_REFUSED):
            await agent.dispatch.call(Caller("acme/eng", session), "nothing", b"{}", "1")
        clock.advance(WINDOW / SECOND)
    await agent.dispatch.audit.flush()
    assert len(await agent.audited()) == 3 * FIRST_REFUSED


async def test_a_caller_without_a_session_has_no_turn_and_no_room(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=SMALL)
    operator = Caller("acme/eng")
    assert (await agent.dispatch.call(operator, "echo", b'{"text":"x"}', "1")).text == "x"
    assert (await agent.dispatch.call(operator, "where", b"{}", "2")).failed


@pytest.mark.parametrize("steps", range(1, 12))
@pytest.mark.parametrize(("name", "given"), [("send", {"text": "hi"}), ("set_work", {"content": "new"})])
async def test_a_cancelled_call_has_one_row_that_says_whether_it_happened(
    name: str, given: dict[str, str], steps: int, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    calling = asyncio.create_task(agent.call(name, **given))
    for _ in range(steps):
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait((calling,))
    await agent.dispatch.audit.flush()
    sent = await store.read(lambda db: db.rows("SELECT 1 FROM outbox"))
    happened = sent or (agent.deps.home.group(agent.caller.folder) / "work.md").exists()
    rows = [verdict for action, verdict in await agent.audited() if action == name]
    assert rows == ["allowed"] if happened else rows in (["cancelled"], [])


@pytest.mark.sqlite(reason="a trigger of SQLite refuses the row")
async def test_what_was_cancelled_while_its_commit_failed_is_said_to_be_cancelled(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    refuse = "CREATE TRIGGER full BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'no room'); END"
    await store.write(lambda db: db.run(refuse))
    calling = asyncio.create_task(agent.call("send", text="hi"))
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait((calling,))
    await agent.dispatch.audit.flush()
    assert [each for each in await agent.audited() if each[0] == "send"] == [("send", "cancelled")]


LARGE: Registry[Tool] = Registry("tool")


class Many(msgspec.Struct):
    texts: list[str]


@tool(tier=Tier.WORKER, group="x", registry=LARGE, read_only=True)
async def words(call: ToolCall, size: int) -> str:
    """Say a lot."""
    return "x" * size


@tool(tier=Tier.WORKER, group="x", registry=LARGE, read_only=True)
async def texts(call: ToolCall, number: int, size: int, sign: str = "x") -> Many:
    """Say a lot in a structure."""
    return Many([sign * size] * number)


@tool(tier=Tier.WORKER, group="x", effects=(), registry=LARGE)
async def passed(call: ToolCall, text: int = 0, image: int = 0, structure: int = 0) -> ForwardedResult:
    """Pass on what another server said."""
    blocks = [{"type": "text", "text": "x" * text}, {"type": "image", "data": "x" * image, "mimeType": "image/png"}]
    return ForwardedResult(blocks, {"text": "x" * structure} if structure else None)


@tool(tier=Tier.WORKER, group="x", effects=(), registry=LARGE)
async def complain(call: ToolCall, size: int) -> str:
    """Complain a lot."""
    raise Invalid("size", "x" * size)


@pytest.mark.parametrize(
    ("name", "fits", "not_"),
    [
        ("words", {"size": LARGEST_ANSWER}, {"size": LARGEST_ANSWER + 1}),
        ("texts", {"number": 250, "size": 1000}, {"number": 300, "size": 1000}),
        ("texts", {"number": 1, "size": 120_000, "sign": "\\"}, {"number": 1, "size": 140_000, "sign": "\\"}),
        ("texts", {"number": 10_000, "size": 1}, {"number": 1_000_000, "size": 0}),
        ("passed", {"text": 250_000}, {"text": 300_000}),
        ("passed", {"structure": 250_000}, {"structure": 300_000}),
        ("passed", {"image": LARGEST_PASSED - 1000}, {"image": LARGEST_PASSED}),
    ],
)
async def test_stranger_new_no_answer_of_any_tool_is_larger_than_the_bound(
    name: str, fits: dict[str, Any], not_: dict[str, Any], tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=LARGE)
    answer = await agent.call(name, **fits)
    assert not answer.failed and not answer.code

    refused = await agent.call(name, **not_)
    assert refused.failed and f"{name}: the answer has more than" in refused.text and "Ask for less" in refused.text
    assert ("The call itself was made" in refused.text) is (name == "passed")
    assert len(refused.text) < 500 and refused.structured is None and refused.content is None


async def test_stranger_new_an_error_is_not_larger_than_the_bound(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=LARGE)
    answer = await agent.call("complain", size=1_000_000)
    assert answer.failed and answer.text.startswith("size: xxx") and len(answer.text) < 9000


async def test_stranger_new_who_manages_agents_reads_more(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, tools=LARGE)
    manager = Caller("acme/eng")
    assert not (await agent.dispatch.call(manager, "words", b'{"size": 9000000}', "1")).failed
    assert (await agent.dispatch.call(manager, "words", b'{"size": 11000000}', "2")).failed


@pytest.mark.parametrize("old", sorted(ALIASES))
async def test_a_tool_that_waits_waits_under_its_older_names_too(old: str, tmp_path: Path, store: SqliteStore) -> None:
    """A call that is taken for a quick one runs without a task, where nothing can time out."""
    agent = await GateAgent.create(tmp_path, store)
    named = ALIASES[old].tool
    assert not agent.dispatch.is_quick(agent.caller, named)  # nothing is known of the caller yet
    reads = agent.dispatch.only_reads
    assert await reads(agent.caller, old, b"{}") is await reads(agent.caller, named, b"{}")
    assert agent.dispatch.is_quick(agent.caller, old) is agent.dispatch.is_quick(agent.caller, named)
    assert not agent.dispatch.is_quick(agent.caller, "send_message")
