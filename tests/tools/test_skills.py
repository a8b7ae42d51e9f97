"""Skills: a person agrees to each, and sees what it changes."""

from pathlib import Path

import pytest

from gatepost.core.errors import Invalid
from gatepost.core.records import replace
from gatepost.core.registry import load_package
from gatepost.flow.skills.skill_files import SkillFile
from gatepost.gate.dispatch import Dispatch
from gatepost.messages.visible_text import LONGEST_SHOWN, MOST_COMPARED, MOST_SHOWN, render_changes
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.rights import audit
from gatepost.store.sessions import skills
from gatepost.tools.call import HeldCall, ToolCall
from gatepost.tools.contract import TOOLS
from gatepost.tools.skills import write_skill
from gatepost_testing.agreed_skills import agree_to_skill
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")


async def test_a_skill_needs_a_person_who_cannot_be_asked_yet(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    answer = await agent.call("write_skill", name="greet", content="Say hello.")
    assert answer.failed and "it needs a person's approval" in answer.text
    assert await store.read(skills.list_all) == []
    await agent.dispatch.audit.flush()
    assert (await agent.audited())[-1] == ("write_skill", "refused")


async def test_what_a_person_agreed_to_is_written_and_a_bad_name_is_not(tmp_path: Path, store: SqliteStore) -> None:
    agent = await GateAgent.create(tmp_path, store, "acme")
    call = ToolCall(
        deps=agent.deps,
        tool="write_skill",
        caller=agent.caller,
        turn=None,
        key="k",
        now=1,
        record=lambda: audit.AuditRecord(1, "agent:acme", "write_skill", "allowed", {}),
        progress=lambda done, total, text: None,
    )
    assert (await write_skill(call, "greet", "Say hello.")).path == "/workspace/skills/greet/SKILL.md"
    (row,) = await store.read(skills.list_all)
    assert (row.folder, row.name, row.source, row.below) == ("acme", "greet", "agent", False)
    assert not (agent.deps.home.group("acme") / "skills/greet").exists()
    for name in ("../x", "Greet", "", "-x"):
        with pytest.raises(Invalid):
            await write_skill(call, name, "Say hello.")
    assert TOOLS["write_skill"].held


class Asked:
    """Keeps what a person would be shown."""

    def __init__(self) -> None:
        self.held: list[HeldCall] = []

    def find_quorum(self, held: HeldCall) -> int:
        return 1

    async def hold(self, call: ToolCall, held: HeldCall) -> str:
        self.held.append(held)
        return "p-1"


async def test_the_card_shows_what_would_change(tmp_path: Path, store: SqliteStore) -> None:
    agent, asked = await GateAgent.create(tmp_path, store, "acme"), Asked()
    deps = replace(agent.deps, holder=asked)
    agent.dispatch = Dispatch(TOOLS, deps)
    assert "waits for a person" in (await agent.call("write_skill", name="greet", content="Say hello.\n")).text
    script = SkillFile("greet.sh", True, b"#!/bin/sh")
    await agree_to_skill(store, "acme", "greet", "Say hello.\n```\nAlways.\n", script)
    await agent.call("write_skill", name="greet", content="Say goodbye.\n```\nAlways.\n")

    added, changed = [each.preview for each in asked.held]
    assert added == "Adds the skill greet of acme:\n\n```\n+ Say hello.\n```"
    assert changed.splitlines()[3:-1] == ["- Say hello.", "+ Say goodbye.", "· ```", "· Always."]


async def test_a_bad_name_is_refused_before_anybody_is_asked(tmp_path: Path, store: SqliteStore) -> None:
    agent, asked = await GateAgent.create(tmp_path, store, "acme"), Asked()
    agent.dispatch = Dispatch(TOOLS, replace(agent.deps, holder=asked))
    assert (await agent.call("write_skill", name="../x", content="Say hello.")).failed and asked.held == []


def test_no_line_of_a_change_ends_its_block_or_hides() -> None:
    lines = render_changes("", "```\n   ```\nplain\u202eevil\n" + "x" * 500)
    assert all(line[:2] in ("+ ", "- ", "· ") for line in lines)
    assert any("⟨U+202E⟩" in line for line in lines) and max(map(len, lines)) <= LONGEST_SHOWN + 3


def test_a_long_change_says_how_much_is_not_shown() -> None:
    lines = render_changes("", "\n".join(map(str, range(MOST_COMPARED + 5))))
    assert len(lines) == MOST_SHOWN + 2
    assert lines[-2:] == [
        f"· … {MOST_COMPARED - MOST_SHOWN} more lines",
        f"· … only the first {MOST_COMPARED} lines of each are compared",
    ]
