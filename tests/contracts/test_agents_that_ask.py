"""What agents ask before they act, on a whole gateway against the scripted model: for the gateway's own tools nobody is
asked, for everybody else's somebody is; and a plan that was approved is carried out."""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.flow.sessions.session_ending import Ending
from gatepost.serve.control.arguments.agents import AgentSpec, PendingRequest, WaitOutcome
from gatepost_testing.agent_profiles import AGENTS, OPENCODE, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

# Somebody else's server, with one tool.
OTHER = r"""
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {}
    if asked["method"] == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        answer["serverInfo"] = {"name": "gatepost", "version": "1"}
    elif asked["method"] == "tools/list":
        answer = {"tools": [{"name": "prod", "description": "Prods.", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        answer = {"content": [{"type": "text", "text": "prodded"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
PYTHON = f"/opt/gatepost/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
SERVER = {"command": PYTHON, "args": ["-I", "-S", "/workspace/agent/other.py"]}
ASKING = {**OPENCODE, "permission": {"*": "ask"}}
MORE: dict[str, dict[str, Any]] = {"acp": {"env": {"OPENCODE_CONFIG_CONTENT": json.dumps(ASKING)}}}


def each(*modes: str) -> list[Any]:
    """`provider/mode` as parameters of a test, with the reason if it cannot run."""
    found = []
    for name, _, mode in (each.partition("/") for each in modes):
        missing = AGENTS[name].missing
        marks = [pytest.mark.slow, pytest.mark.skipif(bool(missing), reason=missing or "it is there")]
        found.append(pytest.param(name, mode, id=f"{name}-{mode}", marks=marks))
    return found


@dataclass
class Manager:
    """Somebody who makes an agent and answers what it asks."""

    gateway: Gateway
    allow: frozenset[str] = frozenset()  # kinds of requests
    asked: list[PendingRequest] = field(default_factory=list)
    agent: str = ""

    async def run(self, prompt: str, provider: str, mode: str) -> WaitOutcome:
        made = await self.gateway.agents.create(
            AgentSpec(prompt=prompt, folder="home", provider=provider, mode=mode), "test"
        )
        self.agent = made.agent_id
        while True:
            outcome = await self.gateway.agents.wait(self.agent, PATIENCE)
            assert not outcome.waited_out, outcome.last_message
            if outcome.permission is None:
                return outcome
            self.asked.append(outcome.permission)
            allow = outcome.permission.kind in self.allow
            await self.gateway.agents.respond(outcome.permission.id, "test", allow=allow)

    async def mode(self) -> str:
        return (await self.gateway.agents.status(self.agent)).current_mode_id


@pytest.mark.parametrize(
    ("name", "mode"),
    each(
        *("claude/default", "claude/acceptEdits", "claude/plan"),
        *("codex/on-request", "codex/untrusted", "codex/plan"),
        *("opencode/ask", "opencode/plan", "acp/ask"),
    ),
)
async def test_for_its_own_tools_nobody_is_asked_and_for_anybody_elses_somebody_is(
    name: str, mode: str, tmp_path: Path
) -> None:
    agent, channel = AGENTS[name], FakeChannel()
    allowed = name == "acp"  # a no ends its turn: the protocol has no word for the reason
    own, other = {"call": "set_work", "with": {"content": "swept"}}, {"call": "prod"}
    script = {"tools": True, "turns": [{"when": "zanzibar", "do": [own, other, {"say": "so it is"}]}]}
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, own_mcp=True, **MORE.get(name, {})) as gateway,
    ):
        folder = gateway.home.group("home")
        (folder / "other.py").write_text(OTHER)
        servers = {"my_gatepost": SERVER, "gatepost": {"command": "/bin/false"}, "gatepost_evil": SERVER}
        (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        manager = Manager(gateway, frozenset({"tool"} if allowed else ()))
        ended = await manager.run("zanzibar", name, mode)

        assert ended.status == "idle" and ended.last_message == "so it is"
        assert (folder / "work.md").read_text() == "swept"
        (asked,) = [each for each in manager.asked if each.kind == "tool"]
        assert "my_gatepost" in asked.name and "prod" in asked.name
        assert await manager.mode() == mode
        assert (await wait_until_settled(gateway)).unaccounted == 0
    offered = {tool for call in endpoint.calls for tool in call.tools}
    assert [tool for tool in offered if "prod" in tool] and not [tool for tool in offered if "evil" in tool]
    assert bool(endpoint.calls[-1].count_text("prodded", "tool")) == allowed


PLAN = "<proposed_plan>\n1. sweep the hall\n</proposed_plan>"


@pytest.mark.parametrize(("name", "after"), each("codex/on-request", "opencode/allow"))
async def test_paseo_26_an_approved_plan_is_carried_out_in_a_turn_of_its_own(
    name: str, after: str, tmp_path: Path
) -> None:
    agent, channel = AGENTS[name], FakeChannel()
    make = agent.run("touch /workspace/agent/made")
    script = {
        "tools": True,
        "turns": [
            {"when": "is approved", "recall": "(zanzibar)", "do": [make, {"say": "swept"}]},
            {"when": "zanzibar", "do": [{"say": PLAN if name == "codex" else "1. sweep the hall"}]},
        ],
    }
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        manager = Manager(gateway, frozenset({"plan"}))
        ended = await manager.run("zanzibar", name, "plan")
        (asked,) = manager.asked
        _, _, told = await gateway.agents.activity(manager.agent)

        assert (asked.kind, asked.input, asked.next_mode_id) == ("plan", {"plan": "1. sweep the hall"}, after)
        assert (ended.status, ended.last_message) == ("idle", "swept")
        assert (gateway.home.group("home") / "made").exists()
        assert told.count("[User]") == 2 and told.count("swept") == 1
        assert await manager.mode() == after
        assert (await wait_until_settled(gateway)).unaccounted == 0
    assert endpoint.calls[-1].count_text("is approved") == 1
    if name == "codex":  # and it knows that it plans no longer
        assert b"Collaboration Mode: Default" in endpoint.calls[-1].raw


@pytest.mark.parametrize(("name", "mode"), each("codex/plan", "opencode/plan"))
async def test_a_plan_whose_sandbox_is_gone_is_not_made_again_and_is_carried_out_once(
    name: str, mode: str, tmp_path: Path
) -> None:
    script = {
        "tools": True,
        "turns": [
            {"when": "is approved", "do": [{"say": "swept"}]},
            {"when": "zanzibar", "do": [{"say": PLAN}]},
        ],
    }
    agent = AGENTS[name]
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", FakeChannel(), endpoint) as gateway,
    ):
        service = gateway.agents
        made = await service.create(AgentSpec(prompt="zanzibar", folder="home", provider=name, mode=mode), "test")
        asked = (await service.wait(made.agent_id, PATIENCE)).permission
        assert asked is not None and asked.kind == "plan"
        (live,) = gateway.sessions.awake
        live.kill(Ending("the test pulls the plug"))
        await live.gone.wait()
        await service.respond(asked.id, "test", allow=True)
        ended = await service.wait(made.agent_id, PATIENCE)
        await wait_until_settled(gateway)
        _, _, told = await service.activity(made.agent_id)

        assert (ended.permission, ended.status, ended.last_message) == (None, "idle", "swept")
        assert told.count("[User]") == 2 and told.count("swept") == 1
    assert (
        sum(
            call.count_text("zanzibar") == 1 and not call.count_text("is approved")
            for call in endpoint.calls
            if call.tools
        )
        == 1
    )


@pytest.mark.parametrize(("name", "mode"), each("codex/plan", "opencode/plan"))
async def test_a_plan_that_was_denied_is_not_carried_out(name: str, mode: str, tmp_path: Path) -> None:
    agent, channel = AGENTS[name], FakeChannel()
    script = {"tools": True, "turns": [{"when": "zanzibar", "do": [{"say": PLAN}]}]}
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        manager = Manager(gateway)
        ended = await manager.run("zanzibar", name, mode)
        await wait_until_settled(gateway)
        _, _, told = await gateway.agents.activity(manager.agent)

        assert [each.kind for each in manager.asked] == ["plan"] and ended.status == "idle"
        assert told.count("[User]") == 1 and await manager.mode() == "plan"


@pytest.mark.parametrize(("name", "after"), each("claude/acceptEdits"))
async def test_an_approved_plan_of_claudes_goes_on_in_its_turn_and_in_its_mode_after_a_restart(
    name: str, after: str, tmp_path: Path
) -> None:
    agent, channel = AGENTS[name], FakeChannel()
    note = {"call": "Write", "with": {"file_path": "{1}", "content": "1. sweep the hall"}}
    make = {"call": "Write", "with": {"file_path": "/workspace/agent/{}", "content": "x"}}
    first, second = (
        {**make, "with": {**make["with"], "file_path": f"/workspace/agent/{name}"}} for name in ("made", "again")
    )
    script = {
        "tools": True,
        "turns": [
            {"when": "quokka", "do": [second, {"say": "swept again"}]},
            {"when": r"plan at (\S+\.md).*zanzibar", "do": [note, {"call": "ExitPlanMode"}, first, {"say": "swept"}]},
        ],
    }
    async with ModelEndpoint(script) as endpoint:
        async with run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway:
            manager = Manager(gateway, frozenset({"plan"}))
            ended = await manager.run("zanzibar", name, "plan")
            await wait_until_settled(gateway)
            (asked,) = manager.asked

            assert (asked.name, asked.kind, asked.next_mode_id) == ("ExitPlanMode", "plan", after)
            assert asked.input["plan"] == "1. sweep the hall" and asked.follow_up is None
            assert ended.last_message == "swept" and (gateway.home.group("home") / "made").exists()
            assert await manager.mode() == after
        async with run_agent_gateway(agent, tmp_path / "h", FakeChannel(), endpoint) as gateway:
            assert (await gateway.agents.status(manager.agent)).current_mode_id == after
            await gateway.agents.prompt(manager.agent, "quokka", "test")
            outcome = await gateway.agents.wait(manager.agent, PATIENCE)

            assert outcome.permission is None and outcome.last_message == "swept again"
            assert (gateway.home.group("home") / "again").exists()


@pytest.mark.parametrize(("name", "mode"), each("codex/untrusted"))
async def test_a_yes_to_one_command_runs_no_other_when_codex_is_started_anew(
    name: str, mode: str, tmp_path: Path
) -> None:
    first, second, third = ({"call": "exec_command", "with": {"cmd": f"touch {each}"}} for each in ("a1", "b2", "c3"))
    script = {
        "tools": True,
        "turns": [{"when": "zanzibar", "do": [first, second, {"say": "well"}]}],
        "default": [third, {"say": "went on"}],
    }
    channel = FakeChannel()
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(AGENTS[name], tmp_path / "h", channel, endpoint) as gateway,
    ):
        made = await gateway.agents.create(
            AgentSpec(prompt="zanzibar", folder="home", provider=name, mode=mode), "test"
        )
        asked: list[str] = []
        for wanted in ("a1", "b2", "c3"):
            async with asyncio.timeout(PATIENCE):
                while True:
                    request = (await gateway.agents.wait(made.agent_id, PATIENCE)).permission
                    assert request is not None, f"nobody was asked about `touch {wanted}`"
                    if request.id not in asked and wanted in str(request.input):
                        break
                    await asyncio.sleep(0.05)
            asked.append(request.id)
            if wanted == "a1":
                await gateway.agents.respond(request.id, "test", allow=True)
            elif wanted == "b2":
                for live in gateway.sessions.awake:
                    assert live.sandbox is not None
                    live.sandbox.kill()
        there = {each.name for each in gateway.home.group("home").iterdir()}
        assert "a1" in there and not {"b2", "c3"} & there
