"""What an agent runs on if nobody says it, what it is refused for, and what its maker is told."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.keyring import Keyring
from gatepost.flow.sessions.sandbox.effective_group import load_effective_group
from gatepost.store.rights import secrets
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.sessions import groups
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.repositories import commit, repository

SCRIPT = {"turns": [{"when": "(.*)", "do": [{"say": "done: {1}"}]}]}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[ManagementClient]:
    async with open_management_gateway(
        tmp_path / "h", script=SCRIPT, sessions__provider="demo", sandbox__kind="process"
    ) as made:
        yield made


async def change(desk: ManagementClient, folder: str, provider: str, model: str = "", **options: Any) -> None:
    values = {"provider": provider, "model": model, "options": options}
    await desk.gateway.store.write(groups.update, folder, values)


@pytest.mark.slow
async def test_an_agent_runs_on_what_home_was_connected_to(desk: ManagementClient) -> None:
    before = await desk("create_agent", initialPrompt="hello")
    assert before["type"] == "demo"
    await change(desk, "home", provider="patient", model="m-1", command="x")
    made = await desk("create_agent", initialPrompt="sweep")
    assert (made["folder"], made["type"], made["lastMessage"]) == ("agents", "patient", "done: sweep")


@pytest.mark.slow
async def test_the_agents_group_goes_by_home_until_it_names_a_provider_itself(desk: ManagementClient) -> None:
    async def as_run(folder: str, provider: str = "") -> tuple[str, str, dict[str, Any]]:
        found = await desk.gateway.store.read(load_effective_group, desk.gateway.config, folder, provider)
        assert found is not None
        return found.provider, found.model, found.options

    await desk("create_agent")
    await change(desk, "home", provider="scripted", model="m-1", script="x")
    assert await as_run("agents") == ("scripted", "m-1", {"script": "x"})
    assert await as_run("agents", "scripted") == ("scripted", "m-1", {"script": "x"})
    assert await as_run("agents", "patient") == ("patient", "", {})  # a model is its provider's
    assert await as_run("root") == ("demo", "", {})
    await change(desk, "agents", provider="patient", model="m-2")
    assert await as_run("agents") == ("patient", "m-2", {})


async def test_an_agent_that_could_not_do_anything_is_refused_with_the_reason_and_not_made(
    desk: ManagementClient,
) -> None:
    async def refused(**given: Any) -> str:
        answer = await desk.ask("create_agent", initialPrompt="hi", **given)
        assert answer.failed and (await desk("list_agents"))["agents"] == []
        return answer.text

    text = await refused(agentType="anthropic")
    assert "no agent of anthropic can run: there is no key for it; `gatepost connect anthropic` takes one" in text
    assert "no command is named for it" in await refused(agentType="acp")
    keyring, now = Keyring(desk.gateway.home), desk.gateway.clock.now()
    await desk.gateway.store.write(groups.add, "acme", "acme", "anthropic", now)
    await refused(folder="acme")
    place = SecretOwner("acme")
    await desk.gateway.store.write(secrets.put, keyring, place, secrets.ANTHROPIC_API_KEY, "sk-x", now)
    assert (await desk("create_agent", folder="acme"))["type"] == "anthropic"  # the group has one of its own


async def test_a_provider_that_is_any_program_is_ready_once_a_command_is_named(desk: ManagementClient) -> None:
    async def acp() -> dict[str, Any]:
        return next(each for each in (await desk("list_providers"))["providers"] if each["id"] == "acp")

    assert "no command is named for it" in (await acp())["reason"]
    await change(desk, "home", provider="acp", command="my-agent acp")
    assert "no command" not in ((await acp())["reason"] or "")


@pytest.mark.on_disk
@pytest.mark.skipif(os.geteuid() != 0, reason="only a gateway of root's runs its sandboxes as somebody else")
async def test_whoever_starts_an_agent_where_it_cannot_write_is_told(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir(mode=0o755)
    given: dict[str, Any] = {"sandbox__mounts_allowed": [f"{project}:rw"], "sandbox__kind": "process"}
    async with open_management_gateway(tmp_path / "h", script=SCRIPT, **given) as desk:
        (note,) = (await desk("create_agent", cwd=str(project)))["notes"]
        assert note.startswith(f"it cannot write in {project}: the user that sandboxes run as (uid ")
        project.chmod(0o777)
        assert (await desk("create_agent", cwd=str(project)))["notes"] == []


@pytest.mark.slow
async def test_whoever_makes_a_worktree_with_an_agent_is_told_that_its_setup_was_not_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o711)
    shop = repository(tmp_path / "code" / "shop")
    commit(shop, ".gatepost.toml", '[worktree]\nsetup = "make"\n')
    given: dict[str, Any] = {"sandbox__mounts_allowed": (str(shop.parent),), "sandbox__kind": "process"}
    async with open_management_gateway(tmp_path / "h", script=SCRIPT, **given) as desk:
        made = await desk("create_agent", cwd=str(shop), worktreeName="fix", baseBranch="main")
        (note,) = made["notes"]
        assert made["setupState"] == "untrusted" and made["worktree"].endswith("/fix")
        assert f"`gatepost worktree trust {made['worktree']}`" in note
        shown = (await desk("get_agent_status", agentId=made["agentId"]))["snapshot"]
        assert (shown["worktree"], shown["setupState"], shown["notes"]) == (made["worktree"], "untrusted", [])
        plain = (await desk("get_agent_status", agentId=(await desk("create_agent"))["agentId"]))["snapshot"]
        assert (plain["worktree"], plain["setupState"]) == (None, None)
