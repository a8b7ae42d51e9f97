"""What permission costs: decisions alone, the list of tools, and a call with and without the gate around it."""

import asyncio
import json
import statistics
import time
from pathlib import Path

import msgspec

from gatepost.access.grants import parse
from gatepost.access.policy import AccessRequest, AccessRules, GroupPolicy
from gatepost.access.tiers import Tier
from gatepost.core.registry import Registry, load_package
from gatepost.gate.dispatch import Dispatch
from gatepost.store.rights.acl import AclEffect, AclRow
from gatepost.tools.call import Caller, ToolCall
from gatepost.tools.contract import TOOLS, Tool, tool
from gatepost_testing.gate_agent import GateAgent

load_package("gatepost.tools")
SIXTY = 60


def authorize_per_s(count: int = 200_000) -> float:
    """Warm decisions of a group that rules and rows speak about, over a mix of tools and rooms."""
    rules = {"acme": (parse("!send(jid=discord:*)"),), "acme/eng": (parse("schedule_task(jid=web:*)"),)}
    rows = (
        AclRow(id=1, principal="folder:acme/**", action="mcp:reset_session", scope="acme/**"),
        AclRow(id=2, principal="role:ops", action="admin"),
        AclRow(id=3, principal="folder:acme/eng", action="mcp:delete", effect=AclEffect.DENY, params="jid=slack:*"),
    )
    policy = GroupPolicy("acme/eng", AccessRules(rules=rules, rows=rows))
    asks = [
        AccessRequest(name, tier, "acme/eng", {"jid": room, "chatJid": room})
        for name, tier in (
            ("reply", Tier.WORKER),
            ("get_work", Tier.WORKER),
            ("send", Tier.AGENT),
            ("delete", Tier.AGENT),
            ("set_work", Tier.AGENT),
            ("inspect_messages", Tier.WORKER),
            ("list_routes", Tier.WORLD),
            ("schedule_task", Tier.WORLD),
        )
        for room in ("telegram:group/1", "discord:2")
    ]
    decide = policy.decide
    for ask in asks:
        decide(ask)
    start = time.perf_counter()
    for _ in range(count // len(asks)):
        for ask in asks:
            decide(ask)
    return count / (time.perf_counter() - start)


def _sixty() -> Registry[Tool]:
    """Sixty tools: ours, and as many more of the same kind as it takes."""
    made: Registry[Tool] = Registry("tool")
    for name, each in TOOLS.items():
        made.add(name, each, "bench")
    for number in range(len(made), SIXTY):

        async def more(call: ToolCall, chatJid: str | None = None, text: str = "", limit: int = 10) -> str:
            """One more tool, about as long as the others, so that the list is as long as a real one would be.

            For what the others do not do. To do something else, use another one.
            """
            return text

        more.__name__ = f"more_{number}"
        tool(tier=Tier.WORKER, group="bench", effects=(), registry=made)(more)
    return made


async def tools_list_ms(agent: GateAgent) -> float:
    """Made anew, as after every change of a grant; warm it is a look into a table."""
    dispatch = Dispatch(_sixty(), agent.deps)
    root = Caller("root", agent.caller.session_id, "scripted")
    taken = []
    for _ in range(20):
        agent.deps.events.tools(None)
        start = time.perf_counter()
        listed = await dispatch.listed_for(root)
        taken.append((time.perf_counter() - start) * 1000)
    assert len(json.loads(listed)) >= SIXTY - 2
    return statistics.median(taken)


async def call_us(agent: GateAgent, count: int = 4000) -> tuple[float, float]:
    """(through the gate, without it): a read-only call, arguments and answer as JSON both times."""
    read, turn = TOOLS["inspect_session"], agent.caller.running
    raw = b'{"limit": null}'
    gated, bare = [], []
    for number in range(count):
        start = time.perf_counter()
        await agent.dispatch.call(agent.caller, "inspect_session", raw, f"c{number}")
        gated.append(time.perf_counter() - start)
        call = ToolCall(
            deps=agent.deps,
            tool="inspect_session",
            caller=agent.caller,
            turn=turn() if turn else None,
            key="bench",
            now=agent.deps.clock.now(),
            record=lambda: None,  # type: ignore[arg-type,return-value]
            progress=lambda done, total, text: None,
        )
        start = time.perf_counter()
        answer = await read.run(call, **read.read(raw))
        msgspec.json.encode(answer).decode()
        bare.append(time.perf_counter() - start)
        if number % 500 == 0:
            await agent.dispatch.audit.flush()
            await asyncio.sleep(0)
    return statistics.median(gated) * 1e6, statistics.median(bare) * 1e6


async def settled(folder: Path) -> GateAgent:
    """An agent of a world, in the middle of a turn."""
    from gatepost.core.clock import SystemClock
    from gatepost.store.engine.migrate import migrate
    from gatepost.store.engine.sqlite_store import SqliteStore

    migrate(folder / "gatepost.db", SystemClock())
    agent = await GateAgent.create(folder, SqliteStore(folder / "gatepost.db"), "acme")
    turn = await agent.dispatch._turn_of(agent.caller)
    agent.caller = Caller("acme", agent.session.id, "scripted", lambda: turn)
    return agent
