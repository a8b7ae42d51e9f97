"""The message tools: what they put into the outbox, and what they refuse before anything is written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.tiers import Tier
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.gate.dispatch import INVALID_PARAMS, Dispatch
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.messages.outbound import Feature
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import destinations, messages, outbox
from gatepost.store.messages.outbox import OutboxEffect
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.sessions import sessions
from gatepost.tools.contract import TOOLS
from gatepost_testing.gate_agent import FOLDERS, PLATFORM, ROOM, GateAgent, is_invalid

load_package("gatepost.tools")

OTHER = "fake:room/2"
GOOD_ARGUMENTS: dict[str, dict[str, Any]] = {
    "send": {"text": "hi"},
    "reply": {"text": "hi"},
    "edit": {"targetId": 1, "content": "hi"},
    "like": {"targetId": 1, "reaction": "👍"},
    "send_file": {"filepath": "notes.txt"},
}


@pytest.fixture
async def agent(tmp_path: Path, store: SqliteStore) -> GateAgent:
    return await GateAgent.create(tmp_path, store)


async def written(agent: GateAgent) -> list[OutboxEffect]:
    """Every effect of the session, in order."""

    def all_of(db: Db) -> list[OutboxEffect]:
        session = sessions.get(db, agent.session.id)
        assert session is not None
        found = []
        for seq in range(1, session.next_seq):
            message = messages.find_by_seq(db, agent.session.id, seq)
            if message is not None and message.direction == "out":
                found += outbox.list_for_message(db, message.id)
        return found

    return await agent.store.read(all_of)


def seq_of(answer: ToolAnswer) -> int:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    result = json.loads(answer.structured)
    assert result["ok"] is True
    return int(result["seq"])


@pytest.mark.parametrize("name", sorted(GOOD_ARGUMENTS))
@pytest.mark.parametrize("tier", list(Tier))
async def test_each_tool_is_there_for_its_tiers_and_for_no_other(
    name: str, tier: Tier, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, FOLDERS[tier])
    agent.deps.home.group(agent.caller.folder).joinpath("notes.txt").write_text("x")
    if name == "edit":
        said = await agent.call("reply", text="first")
        answer = await agent.call("edit", targetId=seq_of(said), content="better")
    else:
        answer = await agent.call(name, **GOOD_ARGUMENTS[name])
    if tier <= TOOLS[name].tier:
        assert seq_of(answer) > 0
    else:
        assert (answer.code, answer.text) == (INVALID_PARAMS, f"Unknown tool: {name}")
        assert await written(agent) == []


async def test_send_is_a_committed_row_of_the_turn_before_the_call_returns(agent: GateAgent) -> None:
    seq = seq_of(await agent.call("send", call_id="c.1", text="news\x00 for you"))
    (effect,) = await written(agent)
    assert (effect.op, effect.origin, effect.state) == ("send", "tool", "pending")
    assert (effect.instance, effect.address, effect.seq) == (PLATFORM, ROOM, seq)
    assert effect.key == f"{effect.turn_id}/c.1"
    assert effect.payload["text"] == "news for you"
    assert effect.target_id is None
    assert agent.woken == [(PLATFORM, ROOM)]
    assert await agent.audited() == [("send", "allowed")]
    account = await agent.store.read(ledger.check, agent.deps.clock.now())
    assert account.unaccounted == 0


async def test_each_call_is_an_effect_of_its_own_even_with_the_same_text(agent: GateAgent) -> None:
    first, second = await agent.call("send", text="again"), await agent.call("send", text="again")
    assert seq_of(first) != seq_of(second)
    assert len(await written(agent)) == 2


async def test_a_long_text_is_split_and_the_answer_names_its_first_part(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, max_text=100)
    seq = seq_of(await agent.call("send", text="word " * 100))
    effects = await written(agent)
    assert len(effects) > 1
    assert effects[0].seq == seq


async def test_send_to_a_destination_goes_there(agent: GateAgent, store: SqliteStore) -> None:
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    await agent.call("send", text="hi", chatJid="ops")
    (effect,) = await written(agent)
    assert effect.address == OTHER
    assert agent.woken == [(PLATFORM, OTHER)]


async def test_send_to_a_room_of_nobodys_is_refused_and_writes_no_row(agent: GateAgent) -> None:
    answer = await agent.call("send", text="hi", chatJid="fake:room/9")
    assert answer.failed
    assert "acme/eng may not send on fake:room/9" in answer.text
    assert await written(agent) == []


@pytest.mark.parametrize(("name", "field"), [("send", "text"), ("reply", "text"), ("edit", "content")])
@pytest.mark.parametrize("text", ["", "  \n", "\x00"])
async def test_empty_text_is_invalid(name: str, field: str, text: str, agent: GateAgent) -> None:
    answer = await agent.call(name, **{**GOOD_ARGUMENTS[name], field: text})
    assert answer.failed
    assert answer.text == f"{field}: is empty"
    assert await written(agent) == []


async def test_text_that_should_be_a_file_is_refused_with_that_hint(agent: GateAgent) -> None:
    answer = await agent.call("send", text="x" * 100_001)
    assert answer.failed
    assert "send_file" in answer.text


async def test_reply_answers_the_newest_message_of_the_turn(agent: GateAgent, store: SqliteStore) -> None:
    await agent.call("reply", text="yes")
    (effect,) = await written(agent)
    assert effect.target_id is not None
    target = await store.read(messages.get, effect.target_id)
    assert target is not None and target.text == "hello"
    assert effect.payload["in_reply_to"] == 1


async def test_reply_names_a_message_by_number_or_platform_id(agent: GateAgent, store: SqliteStore) -> None:
    seq = await agent.receive("second", platform_id="p-2")
    for named in (seq, str(seq), "p-2"):
        await agent.call("reply", text="to you", replyToId=named)
    effects = await written(agent)
    assert len({effect.target_id for effect in effects}) == 1
    target = await store.read(messages.get, effects[0].target_id or 0)
    assert target is not None and target.text == "second"


async def test_a_number_of_this_session_wins_over_the_same_platform_id(agent: GateAgent, store: SqliteStore) -> None:
    await agent.receive("named one by the platform", platform_id="1")
    await agent.call("like", targetId="1", reaction="👍")
    (effect,) = await written(agent)
    target = await store.read(messages.get, effect.target_id or 0)
    assert target is not None and target.text == "hello"


async def test_reply_elsewhere_without_a_message_is_a_plain_send(agent: GateAgent, store: SqliteStore) -> None:
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    await agent.call("reply", text="hi", chatJid="ops")
    (effect,) = await written(agent)
    assert (effect.address, effect.target_id) == (OTHER, None)


async def test_a_message_that_is_not_there_or_not_in_this_room_is_named(agent: GateAgent, store: SqliteStore) -> None:
    await store.write(destinations.add_room, "acme/eng", "ops", PLATFORM, OTHER, "", 1)
    missing = await agent.call("reply", text="x", replyToId=99)
    elsewhere = await agent.call("reply", text="x", replyToId=1, chatJid="ops")
    assert missing.failed and "'99'" in missing.text
    assert elsewhere.failed and elsewhere.text.startswith("replyToId: message 1 is not in this room")
    assert await written(agent) == []


async def test_edit_changes_an_own_message(agent: GateAgent) -> None:
    seq = seq_of(await agent.call("send", text="teh"))
    await agent.call("edit", targetId=seq, content="the")
    sent, edited = await written(agent)
    assert (edited.op, edited.target_id, edited.payload) == ("edit", sent.message_id, {"text": "the"})


async def test_edit_of_somebody_elses_message_is_refused(agent: GateAgent, tmp_path: Path, store: SqliteStore) -> None:
    answer = await agent.call("edit", targetId=1, content="x")
    assert answer.failed
    assert "only your own" in answer.text

    other = await GateAgent.create(tmp_path, store, "acme/ops")
    await other.call("send", text="mine")
    (effect,) = await written(other)
    await store.write(messages.set_platform_id, effect.message_id, "p-77")
    answer = await agent.call("edit", targetId="p-77", content="x")
    assert answer.failed
    assert "only your own" in answer.text
    assert await written(agent) == []


async def test_an_edit_longer_than_one_message_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, max_text=10)
    seq = seq_of(await agent.call("send", text="short"))
    answer = await agent.call("edit", targetId=seq, content="much longer than that")
    assert answer.failed
    assert "one message takes 10 here" in answer.text


async def test_like_reacts_to_a_message(agent: GateAgent) -> None:
    await agent.call("like", targetId=1, reaction="🎉")
    (effect,) = await written(agent)
    assert (effect.op, effect.payload) == ("react", {"reaction": "🎉"})


@pytest.mark.parametrize("reaction", ["", " ", "x" * 65])
async def test_a_reaction_that_is_none_is_invalid(reaction: str, agent: GateAgent) -> None:
    answer = await agent.call("like", targetId=1, reaction=reaction)
    assert answer.failed
    assert answer.text.startswith("reaction: ")


@pytest.mark.parametrize("name", ["edit", "like"])
async def test_nanoclaw_33_and_arizuko_34_a_verb_that_the_channel_lacks_is_two_lines_and_writes_nothing(
    name: str, tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store, features=frozenset({Feature.REPLY}))
    answer = await agent.call(name, **GOOD_ARGUMENTS[name])
    first, second = answer.text.split("\n")
    assert answer.failed
    assert first == f"unsupported: {name} on {PLATFORM}"
    assert second.startswith("hint: use reply")
    assert await written(agent) == []


async def test_bad_types_are_named_by_field(agent: GateAgent) -> None:
    for name, arguments, field in (
        ("like", {"targetId": 1.5, "reaction": "x"}, "targetId"),
        ("edit", {"targetId": 1}, "content"),
        ("send_file", {}, "filepath"),
        ("reply", {"text": "x", "replyToId": []}, "replyToId"),
    ):
        answer = await agent.call(name, **arguments)
        assert is_invalid(answer)
        assert field in answer.text


# Files.


def give(agent: GateAgent, name: str, content: str = "content") -> Path:
    path = agent.deps.home.group(agent.caller.folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize("path", ["a/report.md", "/workspace/agent/a/report.md", "./a//report.md"])
async def test_nanoclaw_34_a_file_is_copied_to_the_deliverys_own_folder(path: str, agent: GateAgent) -> None:
    inside = give(agent, "a/report.md")
    await agent.call("send_file", filepath=path, caption="look")
    inside.write_text("changed afterwards")
    (effect,) = await written(agent)
    (file,) = effect.payload["files"]
    assert (file["name"], file["mime"], file["size"]) == ("report.md", "text/markdown", 7)
    assert effect.payload["text"] == "look"
    copied = Path(file["path"])
    assert copied.read_text() == "content"
    assert copied.is_relative_to(agent.deps.home.media / "out")


async def test_a_file_of_the_session_can_be_sent_under_another_name(agent: GateAgent) -> None:
    folder = agent.deps.home.session(agent.session.id)
    (folder / "out").mkdir()
    (folder / "out" / "x.bin").write_text("bytes")
    await agent.call("send_file", filepath="/workspace/out/x.bin", filename="../evil/na\nme.png", replyToId=1)
    (effect,) = await written(agent)
    (file,) = effect.payload["files"]
    assert (file["name"], file["mime"]) == ("name.png", "image/png")
    assert effect.target_id is not None


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "/etc/passwd",
        "/workspace/../etc/passwd",
        "/workspace",
        "/workspace/agent",
        "/workspace/in/inbound.db",
        "/workspaces/x",
        "",
        ".",
        "/",
        "id_rsa",
        ".ssh/known_hosts",
        ".ENV",
        "a/credentials",
        "nul\x00",
        "missing.txt",
        "link",
        "folder",
        "folder-link/inner.txt",
        "fifo",
        "deep/" * 40 + "x",
    ],
)
async def test_nanoclaw_34_and_arizuko_33_a_path_that_leads_out_or_to_no_regular_file_is_refused(
    path: str, agent: GateAgent
) -> None:
    home = agent.deps.home
    outside = home.groups / "secret.txt"
    outside.write_text("not yours")
    (home.session(agent.session.id) / "in").mkdir()
    (home.session(agent.session.id) / "in" / "inbound.db").write_text("x")
    group = home.group(agent.caller.folder)
    for name in ("id_rsa", ".ssh/known_hosts", ".ENV", "a/credentials"):
        give(agent, name)
    (group / "link").symlink_to(outside)
    (group / "folder").mkdir()
    (group / "real").mkdir()
    (group / "real" / "inner.txt").write_text("x")
    (group / "folder-link").symlink_to(group / "real")
    os.mkfifo(group / "fifo")

    answer = await agent.call("send_file", filepath=path)

    assert answer.failed
    assert await written(agent) == []
    assert list((home.media / "out").glob("*")) == [] if (home.media / "out").exists() else True


async def test_a_file_whose_message_cannot_be_sent_leaves_no_copy(agent: GateAgent) -> None:
    give(agent, "report.md")
    answer = await agent.call("send_file", filepath="report.md", replyToId=99)
    assert answer.failed
    assert list((agent.deps.home.media / "out").iterdir()) == []


@pytest.mark.parametrize("turn", [True, False], ids=["in a turn", "between turns"])
async def test_what_tools_send_is_bounded_like_what_a_turn_says(tmp_path: Path, store: SqliteStore, turn: bool) -> None:
    agent = await GateAgent.create(tmp_path, store, turn=turn)
    agent.deps = replace(agent.deps, config=Config({"sessions.most_results": 3}))
    agent.dispatch = Dispatch(TOOLS, agent.deps)
    for number in range(3):
        seq_of(await agent.call("send", text=f"spam {number}"))
    for refused in (await agent.call("send", text="more"), await agent.call("like", targetId=1, reaction="👍")):
        assert refused.failed and "3 things at most" in refused.text
    assert len(await written(agent)) == 3
    if not turn:
        await agent.receive("and now?")
        seq_of(await agent.call("send", text="this"))


async def test_what_people_write_meanwhile_does_not_count_among_what_tools_send(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await GateAgent.create(tmp_path, store)
    agent.deps = replace(agent.deps, config=Config({"sessions.most_results": 3}))
    agent.dispatch = Dispatch(TOOLS, agent.deps)
    for number in range(5):
        await agent.receive(f"and {number}?")
    for number in range(3):
        seq_of(await agent.call("send", text=f"answer {number}"))
    assert (await agent.call("send", text="more")).failed


async def in_worktree(agent: GateAgent) -> Path:
    """The session works in one."""
    place = agent.deps.home.worktrees / "shop-1" / "fix"
    (place / "src").mkdir(parents=True)
    (place / "src" / "report.md").write_text("content")
    await agent.store.write(
        lambda db: db.run("UPDATE sessions SET cwd = ? WHERE id = ?", (f"{place}/src", agent.session.id))
    )
    return place


@pytest.mark.parametrize("path", ["report.md", "/workspace/project/src/report.md"])
async def test_a_file_of_what_it_works_in_is_named_from_where_it_starts(path: str, agent: GateAgent) -> None:
    await in_worktree(agent)
    await agent.call("send_file", filepath=path)
    (effect,) = await written(agent)
    assert Path(effect.payload["files"][0]["path"]).read_text() == "content"
    give(agent, "own.md", "its group's")
    await agent.call("send_file", filepath="/workspace/agent/own.md")
    assert len(await written(agent)) == 2


@pytest.mark.parametrize("path", ["/workspace/project", "/workspace/project/link", "link", "../report.md", ".env"])
async def test_what_it_works_in_is_no_way_out_either(path: str, agent: GateAgent) -> None:
    place = await in_worktree(agent)
    for folder in (place, place / "src"):
        (folder / "link").symlink_to("/etc/passwd")
        (folder / ".env").write_text("x")
    assert (await agent.call("send_file", filepath=path)).failed
    assert await written(agent) == []
