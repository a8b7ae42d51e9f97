"""What is declared above a tool's function is all there is: schema, arguments, scope, result."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from gatepost.access.subjects import Subject
from gatepost.access.tiers import Tier
from gatepost.core.errors import SetupError
from gatepost.core.registry import Registry
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.port import Db
from gatepost.store.rights import audit
from gatepost.store.sessions import sessions
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import Body, Tool, ToolScope, tool
from gatepost_testing.gate_agent import GateAgent


@dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str = ""


def registry() -> Registry[Tool]:
    return Registry("tool")


def test_the_schema_comes_from_the_signature() -> None:
    known = registry()

    @tool(tier=Tier.WORLD, group="x", scoped_by="chatJid", read_only=True, registry=known)
    async def look(
        call: ToolCall,
        chatJid: str,
        limit: Annotated[int, msgspec.Meta(description="How many.")] = 10,
        text: Annotated[Body | None, msgspec.Meta(description="What.")] = None,
    ) -> Pair:
        """Look at something."""
        return Pair(limit)

    made = known["look"]
    assert made.listed == {
        "name": "look",
        "description": "Look at something.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "chatJid": {"type": "string"},
                "limit": {"type": "integer", "description": "How many.", "default": 10},
                "text": {"type": "string", "description": "What."},
            },
            "required": ["chatJid"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": False},
        "outputSchema": {
            "type": "object",
            "properties": {"left": {"type": "integer"}, "right": {"type": "string", "default": ""}},
            "required": ["left"],
        },
    }
    assert (made.tier, made.scope, made.bodies) == (Tier.WORLD, ToolScope.ROOM, frozenset({"text"}))


def test_a_scope_that_is_no_parameter_stops_the_start() -> None:
    async def bad(call: ToolCall, room: str) -> str:
        """Bad."""
        return room

    with pytest.raises(SetupError, match="scoped by 'chatJid'"):
        tool(tier=Tier.WORKER, group="x", effects=(), scoped_by="chatJid", registry=registry())(bad)


@pytest.mark.parametrize("also", ["elsewhereJid", "folder"])
def test_a_second_scope_must_be_a_room_that_is_among_the_parameters(also: str) -> None:
    async def pass_on(call: ToolCall, chatJid: str, folder: str) -> str:
        """Pass on."""
        return ""

    declare = tool(
        tier=Tier.WORKER, group="x", effects=(), scoped_by="chatJid", also_scoped_by=(also,), registry=registry()
    )
    with pytest.raises(SetupError, match=f"also scoped by '{also}'"):
        declare(pass_on)


def test_a_tool_without_a_docstring_stops_the_start() -> None:
    async def mute(call: ToolCall) -> str:
        return ""

    with pytest.raises(SetupError, match="no docstring"):
        tool(tier=Tier.WORKER, group="x", effects=(), registry=registry())(mute)


def test_a_result_that_is_neither_structure_nor_text_stops_the_start() -> None:
    async def loose(call: ToolCall) -> dict[str, int]:
        """Loose."""
        return {}

    with pytest.raises(SetupError, match="dataclass"):
        tool(tier=Tier.WORKER, group="x", effects=(), registry=registry())(loose)


def test_two_tools_of_one_name_stop_the_start() -> None:
    known = registry()

    async def twin(call: ToolCall) -> str:
        """One."""
        return ""

    tool(tier=Tier.WORKER, group="x", effects=(), registry=known)(twin)
    with pytest.raises(SetupError, match="two tools are named 'twin'"):
        tool(tier=Tier.WORKER, group="x", effects=(), registry=known)(twin)


async def test_a_write_and_its_audit_row_are_one_transaction(tmp_path: Path, store: SqliteStore) -> None:
    known = registry()

    def rename(db: Db, session_id: str, title: str) -> None:
        sessions.set_title(db, session_id, title)
        if title == "bad":
            raise ValueError("no such title")

    @tool(tier=Tier.WORKER, group="x", effects=(), registry=known)
    async def entitle(call: ToolCall, title: str) -> str:
        """Name it."""
        assert call.caller.session_id is not None
        await call.write(rename, call.caller.session_id, title)
        return "ok"

    agent = await GateAgent.create(tmp_path, store, tools=known)
    assert (await agent.call("entitle", title="good")).text == "ok"
    assert await agent.audited() == [("entitle", "allowed")]

    broken = await agent.call("entitle", title="bad")
    assert broken.failed and "internal error" in broken.text and "no such title" not in broken.text
    session = await store.read(sessions.get, agent.session.id)
    assert session is not None and session.title == "good"
    assert await agent.audited() == [("entitle", "allowed")]  # the failure is written behind
    assert (await store.read(audit.verify))[1] is None


def test_a_tool_that_does_not_say_what_it_does_outside_stops_the_start() -> None:
    async def act(call: ToolCall) -> str:
        """Act."""
        return ""

    with pytest.raises(SetupError, match="what it does outside its session"):
        tool(tier=Tier.WORKER, group="x", registry=registry())(act)
    with pytest.raises(SetupError, match="leave one of them out"):
        tool(tier=Tier.WORKER, group="x", effects=(Subject.SPEAK,), read_only=True, registry=registry())(act)


def test_a_tool_that_is_named_like_a_subject_stops_the_start() -> None:
    async def speak(call: ToolCall) -> str:
        """Speak."""
        return ""

    with pytest.raises(SetupError, match="is a subject that rules speak of"):
        tool(tier=Tier.WORKER, group="x", effects=(Subject.SPEAK,), registry=registry())(speak)
