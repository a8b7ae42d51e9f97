"""/fork: who may ask for it, and what for."""

from typing import Any

import pytest

from gatepost.flow.intake.commands.fork import NOTHING, SEVERAL
from gatepost.store.rooms import routes
from gatepost.store.sessions import sessions
from gatepost_testing.clock import NOON

from .conftest import GUEST, CommandDesk

pytestmark = pytest.mark.anyio


async def test_a_fork_needs_a_conversation_and_a_topic(desk: CommandDesk) -> None:
    assert await desk.ask("/fork side") == NOTHING
    assert await desk.store.read(sessions.list_open) == []
    await desk.say("hello")
    for nothing in ("/fork", "/fork #", f"/fork {'x' * 200}"):
        assert "a topic has 1 to 128 printable characters" in await desk.ask(nothing)
    assert await desk.ask("/fork side", GUEST) == "Only a member of this agent may use /fork."


async def test_of_several_agents_none_is_forked(desk: CommandDesk) -> None:
    given: dict[str, Any] = {
        "seq": 5,
        "match": "",
        "target": "home#other",
        "folder": "home",
        "mode": "per-thread",
        "also": True,
    }
    await desk.do(lambda db: routes.add(db, routes.Route(**given, created_by="test", created_at=NOON)))
    await desk.say("hello")

    assert await desk.ask("/fork side") == SEVERAL
