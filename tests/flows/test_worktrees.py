"""Managed worktrees behind walls: an agent works in one and sees no other, git and the setup run in the sandbox, and
whatever they do there has an end."""

import json
from pathlib import Path

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import Invalid
from gatepost.core.settings import Config
from gatepost.sandboxes.contract import trouble_of
from gatepost.sandboxes.podman import Podman
from gatepost.serve.control.arguments.agents import AgentSpec as NewAgent
from gatepost.store.money import ledger
from gatepost.store.rights import audit, egress, waiting_requests
from gatepost.store.sessions.worktrees import Worktree
from gatepost_testing.agent_profiles import AGENTS, PATIENCE
from gatepost_testing.agent_profiles import run_agent_gateway as agents_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint
from gatepost_testing.repositories import bare, commit, git
from gatepost_testing.servers.file_server import HOST, serve_files

from .worktree_desk import BY, a_gateway, left_behind, make, needs_bwrap, run, shell, shop

__all__ = ["shop"]  # a fixture


LOOK = """import json, errno
def attempt(place):
    try:
        open(os.path.join(place, "mine"), "w").close()
        return True
    except OSError:
        return False
hits = []
for place, folders, names in os.walk("/"):
    if place == "/":
        folders[:] = [each for each in folders if each not in ("proc", "usr", "dev", "sys", "opt")]
    for name in names:
        path = os.path.join(place, name)
        if os.path.isfile(path) and "hidden-from-" + "others" in open(path, errors="replace").read():
            hits.append(path)
writable = [each for each in PLACES if attempt(each)]
answer = json.dumps({"cwd": os.getcwd(), "files": sorted(os.listdir(".")), "hits": hits, "writable": writable,
                     "seen": [each for each in PATHS if os.path.lexists(each)]})
"""
PLACES = [
    *("/", "/workspace", "/workspace/in", "/workspace/extra", "/usr", "/etc", "/opt/gatepost", "/run/gatepost"),
    *("/workspace/project", "/workspace/agent", "/workspace/state"),
]


@pytest.mark.slow
@needs_bwrap
async def test_an_agent_works_in_its_worktree_and_sees_no_other_nor_the_repository(shop: Path) -> None:
    async with a_gateway(shop) as desk:
        mine = await desk("create_agent", cwd=str(shop), worktreeName="mine", baseBranch="main", title="A")
        other = await desk("create_worktree", cwd=str(shop), name="other")
        (Path(other["worktreePath"]) / "theirs").write_text("hidden-from-others")
        commit(shop, "later", "hidden-from-others")
        paths = [str(shop), str(desk.gateway.home.path), mine["cwd"], other["worktreePath"]]
        looked = LOOK.replace("PLACES", repr(PLACES)).replace("PATHS", repr(paths))
        found = json.loads(await run(desk, mine["agentId"], looked))
        assert found["cwd"] == "/workspace/project"
        assert found["files"] == [".git", "README", "mine"]
        assert found["hits"] == found["seen"] == []
        assert found["writable"] == ["/workspace/project", "/workspace/agent", "/workspace/state"]

        assert await shell(desk, mine["agentId"], "git add -A; git commit -qm done; git log --format=%s,%an") == (
            "done,agents\nREADME: the first words,Ann"
        )
        done = await desk("archive_worktree", worktree="mine")
        git(shop, "fetch", "-q", "--no-tags", done["saved"], "+refs/*:refs/agents/*")
        assert git(shop, "log", "-1", "--format=%s", "refs/agents/heads/mine") == "done"
        assert not Path(mine["cwd"]).exists()
        assert left_behind(desk.gateway) == []


@pytest.mark.slow
async def test_a_worktree_in_a_container_is_made_worked_in_named_and_put_away(shop: Path) -> None:
    if (trouble := trouble_of(Podman(Config()))) is not None:
        pytest.skip(f"podman: {trouble}")
    async with a_gateway(shop, "podman") as desk:
        mine = await desk("create_agent", cwd=str(shop), worktreeName="mine", baseBranch="main", title="A")
        done = "echo 42 > answer; git add -A; git commit -qm done; pwd; git branch --show-current"
        assert await shell(desk, mine["agentId"], done) == "/workspace/project\nmine"
        assert await desk.gateway.worktrees.rename(mine["agentId"], "mend-login") == "mend-login"
        put_away = await desk("archive_worktree", worktree="mine")
        git(shop, "fetch", "-q", "--no-tags", put_away["saved"], "+refs/*:refs/agents/*")
        assert git(shop, "show", "refs/agents/heads/mend-login:answer") == "42"
        assert not Path(mine["cwd"]).exists()
        assert left_behind(desk.gateway) == []


# What only the origin has.


@pytest.fixture
def origin(shop: Path, tmp_path: Path) -> str:
    """A pull request that the operator's repository does not know; its commit."""
    place = bare(shop, tmp_path / "web" / "shop.git")
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(place), str(work))
    head = commit(work, "proposed", "please")
    git(work, "push", "-q", "origin", "HEAD:refs/pull/7/head")
    git(place, "update-server-info")
    return head


async def allow(gateway: Gateway, port: int) -> None:
    put = lambda db: egress.put(db, "agents", HOST, port, allow=True, local=True, by=BY, now=1)  # noqa: E731
    await gateway.store.write(put)


async def denied(gateway: Gateway) -> list[tuple[str, str]]:
    """(group, target) of what was refused a way out, as far as it is on record twice."""
    tried = [
        (each.folder, each.target)
        for each in await gateway.store.read(egress.list_attempts, 50)
        if each.verdict == "denied"
    ]
    rows = [row for row in await gateway.store.read(audit.list_latest, 50) if row[3:5] == ("egress", "refused")]
    assert len(rows) == len(tried)
    return tried


@needs_bwrap
@pytest.mark.slow
async def test_a_pull_request_that_only_the_origin_has_comes_through_the_groups_way_out(
    shop: Path, origin: str, tmp_path: Path
) -> None:
    async with serve_files(tmp_path / "web") as web, a_gateway(shop) as desk:
        gateway = desk.gateway
        git(shop, "remote", "add", "origin", f"http://ann:hun@ter2@{HOST}:{web.port}/shop.git?token=hunter3")
        with pytest.raises(Invalid, match=f"(?s){HOST}:{web.port} is not allowed for agents.*`gatepost egress log`"):
            await make(gateway, shop, "", pr=7)
        assert web.asked == []
        assert await denied(gateway) == [("agents", f"{HOST}:{web.port}")]
        assert await gateway.worktrees.every(archived=True) == []

        await allow(gateway, web.port)
        made = await make(gateway, shop, "", pr=7)
        place = gateway.worktrees.path(made)
        assert (made.branch, made.base_commit, web.asked != []) == ("pr-7", origin, True)
        for path in (path for path in place.rglob("*") if path.is_file()):
            assert b"ter2" not in path.read_bytes() and b"hunter3" not in path.read_bytes(), path
        assert git(place, "config", "remote.origin.url") == f"{web.url}/shop.git"
        with pytest.raises(Invalid, match="pull request 8"):
            await make(gateway, shop, "", pr=8)

        assert (await gateway.worktrees.save("pr-7", BY))[1].bundle is None
        agent = (await desk("create_agent", cwd=str(place), title="A"))["agentId"]
        done = await shell(desk, agent, "echo > mended; git add -A; git commit -qm mended; git rev-parse HEAD")
        bundle = (await gateway.worktrees.save("pr-7", BY))[1].bundle
        git(shop, "fetch", "-q", "--no-tags", str(bundle), "+refs/*:refs/agents/*")
        assert git(shop, "rev-parse", "refs/agents/heads/pr-7") == done, "though it does not have what this builds on"


# Setups.


async def set_up(gateway: Gateway, shop: Path, *commands: str) -> Worktree:
    commit(shop, ".gatepost.toml", f"[worktree]\nsetup = {json.dumps(commands)}\n")
    return await gateway.worktrees.trust((await make(gateway, shop)).name, BY)


@needs_bwrap
async def test_a_setup_reaches_what_a_rule_allows_and_nothing_else(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "package").write_text("of many")
    async with serve_files(tmp_path / "web") as web, a_gateway(shop) as desk:
        ask = f"""python3 -c "import urllib.request as u; print(u.urlopen('{web.url}/package').read().decode())\""""
        refused = await set_up(desk.gateway, shop, ask)
        assert refused.setup_state == "failed" and "403" in refused.setup_output
        assert web.asked == []
        assert await denied(desk.gateway) == [("agents", f"{HOST}:{web.port}")]
        await allow(desk.gateway, web.port)
        done = await desk.gateway.worktrees.set_up(refused, BY)
        assert (done.setup_state, done.setup_output.splitlines()[-1]) == ("done", "of many")
        assert left_behind(desk.gateway) == []


@needs_bwrap
@pytest.mark.slow
async def test_what_a_setup_leaves_running_is_neither_waited_for_nor_left(shop: Path) -> None:
    async with a_gateway(shop) as desk:
        stays = "sh -c 'while :; do date > alive; sleep 0.05; done' & echo $! started"
        done = await set_up(
            desk.gateway, shop, stays, "setsid sleep 1000 >/dev/null 2>&1 &", "sleep 0.1; rm -f alive; echo last"
        )
        assert done.setup_state == "done" and done.setup_output.endswith("last")
        place = desk.gateway.worktrees.path(done)
        (place / "alive").unlink(missing_ok=True)
        await make(desk.gateway, shop, "another")  # time enough for whoever still lives
        assert not (place / "alive").exists()
        assert left_behind(desk.gateway) == []


@needs_bwrap
@pytest.mark.slow
async def test_a_setup_that_says_too_much_is_heard_to_its_end(shop: Path) -> None:
    async with a_gateway(shop, sandbox__memory_mb=128) as desk:
        done = await set_up(desk.gateway, shop, "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo the end")
        assert done.setup_state == "done" and done.setup_output.endswith("the end")
        assert len(done.setup_output) <= 20_000


@pytest.mark.slow
@needs_bwrap
async def test_a_setup_that_hangs_is_ended(shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'echo x > begun; exec sleep 1000'\n")
    async with a_gateway(shop) as desk:
        place = desk.gateway.worktrees.path(await make(desk.gateway, shop))
    async with a_gateway(shop, worktrees__limit_s=2.0) as desk:
        ended = await desk.gateway.worktrees.trust("fix", BY)
        assert ended.setup_state == "failed" and "longer than 2 s (worktrees.limit_s)" in ended.setup_output
        assert (place / "begun").exists()
        assert left_behind(desk.gateway) == []


@needs_bwrap
@pytest.mark.slow
async def test_a_setup_that_fills_the_disk_is_ended(shop: Path) -> None:
    async with a_gateway(shop, sandbox__disk_mb=16) as desk:
        ended = await set_up(desk.gateway, shop, "head -c 40000000 /dev/zero > big; exec sleep 1000")
        assert ended.setup_state == "failed" and "more than 16 MB of the disk (sandbox.disk_mb)" in ended.setup_output
        assert left_behind(desk.gateway) == []


@needs_bwrap
@pytest.mark.slow
async def test_a_worktree_counts_to_what_its_agent_may_take_of_the_disk(shop: Path) -> None:
    async with a_gateway(shop, sandbox__disk_mb=16, sessions__tries=1) as desk:
        mine = await desk("create_agent", cwd=str(shop), worktreeName="mine", baseBranch="main", title="A")
        fill = "head -c 40000000 /dev/zero > big; exec sleep 1000"
        await desk("send_agent_prompt", agentId=mine["agentId"], prompt=f"run answer = os.system({fill!r})")
        account = await wait_until_settled(desk.gateway, 40)
        life = await desk.gateway.store.read(ledger.trace_message, 1)
        assert "take more than 16 MB of the disk" in str(life)
        assert account.unaccounted == 0


# Agents that name their work themselves.

OWN = AGENTS["claude"].tool


@pytest.mark.slow
@pytest.mark.skipif(bool(AGENTS["claude"].missing), reason=AGENTS["claude"].missing or "it is there")
async def test_claude_names_itself_and_its_branch_and_nobody_is_asked(shop: Path) -> None:
    names = [
        {"call": OWN.format("set_title"), "with": {"title": "Mend"}},
        {"call": OWN.format("set_branch"), "with": {"name": "mend-login"}},
    ]
    script = {"tools": True, "turns": [{"when": "zanzibar", "do": [*names, {"say": "named"}]}]}
    settings = {"sandbox__mounts_allowed": (str(shop.parent),)}
    home = shop.parents[1] / "h"
    async with (
        ModelEndpoint(script) as endpoint,
        agents_gateway(AGENTS["claude"], home, FakeChannel(), endpoint, settings=settings) as gateway,
    ):
        wanted = NewAgent(
            prompt="zanzibar",
            folder="home",
            provider="claude",
            mode="default",
            cwd=str(shop),
            worktree="task",
            base="main",
        )
        made = await gateway.agents.create(wanted, BY)
        ended = await gateway.agents.wait(made.agent_id, PATIENCE)
        assert (ended.status, ended.permission, ended.last_message) == ("idle", None, "named")
        assert (await gateway.agents.status(made.agent_id)).title == "Mend"
        (worktree,) = await gateway.worktrees.every()
        assert worktree.branch == "mend-login"
        assert git(gateway.worktrees.path(worktree), "branch", "--show-current") == "mend-login"
        assert b"/workspace/project" in endpoint.calls[-1].raw, "where it works"
        assert await gateway.store.read(waiting_requests.list_pending) == []
