"""replay_session and compare_replay: what they answer, and whom they refuse. Whole replays are in tests/flows."""

import json
from pathlib import Path
from typing import Any

from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.gate.dispatch import REPLAY
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.sessions import groups, sessions, skills, turns
from gatepost.tools.contract import TOOLS
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    assert answer.structured is not None
    found: dict[str, Any] = json.loads(answer.structured)
    return found


def _finish(db: Db, session_id: str, now: int) -> None:
    turn = turns.find_open(db, session_id)
    assert turn is not None
    rows = tuple(entry.id for entry, _ in inbox.list_for_turn(db, turn.id))
    turns.begin(db, turn.id, turn.epoch, rows, now)
    assert turns.finish(db, turn.id, turn.epoch, "{}", now)


async def a_world(path: Path, store: SqliteStore) -> GateAgent:
    """With one answered message, and another one in hand."""
    agent = await GateAgent.create(path, store, "acme")
    await agent.call("reply", text="hello yourself")
    await store.write(_finish, agent.session.id, agent.deps.clock.now())
    await agent.receive("replay it")
    await agent.begin()
    return agent


async def test_a_replay_begins_with_copies_that_belong_to_whoever_asked_for_it(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await a_world(tmp_path, store)
    (agent.deps.home.group("acme") / "AGENTS.md").write_text("as it was")
    given = {"agentsMd": "Be stern.", "skill": "pr-review", "skillContent": "# Look twice"}
    made = told(await agent.call("replay_session", sessionId=agent.session.id, model="m-2", **given))

    session = await store.read(sessions.get, made["session_id"])
    assert session is not None and (session.folder, session.model, session.instance) == ("acme", "m-2", "replay")
    ((entry, message),) = await store.read(inbox.list_open, session.id)
    assert (message.text, message.sender_name, message.sender) == ("hello", "Ada", "agent:acme")
    chain = await store.read(origins.get_for_row, entry.id)
    assert (chain.origins[0].person, chain.depth) == ("fake:user/1", 1)
    copy = agent.deps.home.session(session.id) / "replay"
    assert (copy / "AGENTS.md").read_text() == "Be stern."
    assert not (copy / "skills" / "pr-review").exists(), "it is mounted like what people agreed to"
    (skill,) = await store.read(skills.list_effective, "acme", session.id)
    assert skill.name == "pr-review" and await store.read(skills.list_effective, "acme") == []
    assert (agent.deps.home.group("acme") / "AGENTS.md").read_text() == "as it was"

    seen = told(await agent.call("compare_replay", replayId=session.id))
    assert (seen["finished"], seen["session_id"]) == (False, agent.session.id)
    assert seen["changes"] == {"model": "m-2", "AGENTS.md": "changed", "skills/pr-review": "changed"}
    (turn,) = seen["turns"]
    assert (turn["input"], turn["original"]["answer"], turn["replayed"]) == ("hello", "hello yourself", None)
    assert ("replay_session", "allowed") in await agent.audited()


async def test_a_conversation_or_replay_elsewhere_does_not_exist(tmp_path: Path, store: SqliteStore) -> None:
    agent = await a_world(tmp_path, store)
    made = told(await agent.call("replay_session", sessionId=agent.session.id))
    other = await GateAgent.create(tmp_path / "o", store, "beta")
    assert "no session named" in (await other.call("replay_session", sessionId=agent.session.id)).text
    assert "no replay named" in (await other.call("compare_replay", replayId=made["session_id"])).text
    assert "no replay named" in (await agent.call("compare_replay", replayId=agent.session.id)).text


async def test_what_cannot_be_replayed_is_refused_and_leaves_no_folder(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    before = sorted(path.name for path in agent.deps.home.sessions.iterdir())
    assert "nothing yet" in (await agent.call("replay_session", sessionId=agent.session.id)).text
    answer = await agent.call("replay_session", sessionId=agent.session.id, skill="pr-review")
    assert "skillContent" in answer.text
    answer = await agent.call("replay_session", sessionId=agent.session.id, skill="../x", skillContent="y")
    assert answer.failed
    assert sorted(path.name for path in agent.deps.home.sessions.iterdir()) == before


async def test_in_a_replay_every_tool_with_an_effect_is_refused(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    await store.write(groups.add, "acme/eng", "eng", "scripted", 1)
    agent.caller = replace(agent.caller, replays=True)
    required = {"send": {"text": "x"}, "reply": {"text": "x"}, "set_work": {"content": "x"}}
    for name, given in required.items():
        answer = await agent.call(name, **given)
        assert answer.failed and REPLAY in answer.text
    assert not (await agent.call("list_sessions")).failed
    effects = {tool.name for tool in await agent.dispatch.visible_to(agent.caller) if not tool.read_only}
    assert {"send", "post", "schedule_task", "delegate_group", "inject_message", "write_skill"} <= effects
    assert "network_allow" in {name for name, tool in TOOLS.items() if not tool.read_only}
    await agent.dispatch.audit.flush()
    assert [each for each in await agent.audited() if each[1] == "refused"] == [(name, "refused") for name in required]
