"""Agents name themselves and their branches: by the socket of their session, and at /mcp/self by its token."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from gatepost.app import Gateway
from gatepost.core.process.listen_address import ListenAddress
from gatepost.serve.agents.mcp_servers import SELF_NAME, SELF_PATH, make_self_app
from gatepost.serve.http import HttpServer, open_listener
from gatepost.store.sessions import due_sessions, turns
from gatepost.store.sessions.turns import TurnState
from gatepost_testing.clients.management_client import ManagementClient, open_management_gateway
from gatepost_testing.clients.mcp_http_client import BOTH, INITIALIZE, make_call_params, make_request, parse_answer
from gatepost_testing.repositories import git, repository
from gatepost_testing.waiting import PATIENCE_S

Opening = Callable[..., AbstractAsyncContextManager[ManagementClient]]
TITLES = {
    "turns": [
        {"when": "^title (.*)", "do": [{"call": "set_title", "with": {"title": "{1}"}}, {"final": "{result}"}]},
        {"when": "^branch (.*)", "do": [{"call": "set_branch", "with": {"name": "{1}"}}, {"final": "{result}"}]},
        {"when": "^write", "do": [{"write_file": {"path": "answer.txt", "text": "done"}}, {"final": "written"}]},
        {"when": "^wait", "do": [{"wait": 600}, {"final": "at last"}]},
    ]
}


async def say(desk: ManagementClient, agent: str, text: str) -> str:
    return str((await desk("send_agent_prompt", agentId=agent, prompt=text))["lastMessage"])


async def make(desk: ManagementClient, **more: Any) -> str:
    return str((await desk("create_agent", **more))["agentId"])


@pytest.mark.slow
async def test_paseo_28_an_agent_names_itself_and_nobody_else(opening: Opening, tmp_path: Path) -> None:
    async with opening(tmp_path / "h", script=TITLES) as desk:
        ann, bob = await make(desk, title="Ann"), await make(desk, title="Bob")
        assert '"Mend the login"' in await say(desk, ann, "title Mend the login")
        titles = {each["agentId"]: each["title"] for each in (await desk("list_agents"))["agents"]}
        assert titles == {ann: "Mend the login", bob: "Bob"}
        assert "1 to 60" in await say(desk, ann, f"title {'x' * 61}")
        assert "NOT_ALLOWED" in await say(desk, ann, "title \u200b ")
        assert (await desk("get_agent_status", agentId=ann))["snapshot"]["title"] == "Mend the login"


class SelfId:
    """A client of /mcp/self."""

    def __init__(self, client: httpx2.AsyncClient, token: str = "", claim: str = "") -> None:
        self._client, self._path = client, SELF_PATH + (f"?callerAgentId={claim}" if claim else "")
        self._headers = {"accept": BOTH, "content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    async def post(self, message: dict[str, Any]) -> httpx2.Response:
        answer = await self._client.post(self._path, json=message, headers=self._headers)
        if (session := answer.headers.get("mcp-session-id")) is not None:
            self._headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        return answer

    async def set_title(self, title: str) -> dict[str, Any]:
        answer = parse_answer(
            await self.post(make_request("tools/call", make_call_params("set_title", None, title=title), 5))
        )
        found: dict[str, Any] = answer["result"]
        return found


@asynccontextmanager
async def self_id(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    endpoint = make_self_app(gateway.self_id, gateway.tool_deps, 4 * 1024 * 1024)
    with open_listener(ListenAddress("unix", path=gateway.home.control)) as sock:
        server = HttpServer(Starlette(routes=[Route(SELF_PATH, endpoint)]), sock)
        running = asyncio.create_task(server.run())
        wire = httpx2.AsyncHTTPTransport(uds=str(gateway.home.control))
        async with httpx2.AsyncClient(transport=wire, base_url="http://localhost", timeout=PATIENCE_S) as client:
            yield client
        await endpoint.close()
        server.stop()
        await running


@pytest.mark.slow
async def test_paseo_28_a_token_speaks_for_its_own_agent_alone(tmp_path: Path) -> None:
    async with open_management_gateway(tmp_path / "h", "memory") as desk, self_id(desk.gateway) as client:
        ann, bob = await make(desk, title="Ann"), await make(desk, title="Bob")
        token = await desk.gateway.agents.token(ann, "operator")
        own = SelfId(client, token)
        hello = parse_answer(await own.post(make_request("initialize", INITIALIZE, 1)))["result"]
        assert hello["serverInfo"]["name"] == SELF_NAME == "gatepost-agent-self-id"
        listed = parse_answer(await own.post(make_request("tools/list", {}, 2)))["result"]["tools"]
        assert sorted(each["name"] for each in listed) == ["set_branch", "set_title"]
        assert (await own.set_title("By its token"))["structuredContent"] == {"success": True, "title": "By its token"}
        titles = {each["agentId"]: each["title"] for each in (await desk("list_agents"))["agents"]}
        assert titles == {ann: "By its token", bob: "Bob"}

        for stranger in (SelfId(client), SelfId(client, "gps-guess"), SelfId(client, token, claim=bob)):
            refused = await stranger.post(make_request("initialize", INITIALIZE, 1))
            assert refused.status_code == 403
            assert "may not speak for" in refused.json()["error"]["message"]
        assert (
            await SelfId(client, token, claim=ann).post(make_request("initialize", INITIALIZE, 1))
        ).status_code == 200


@pytest.mark.slow
async def test_a_new_token_ends_the_one_before_and_so_does_the_agents_end(tmp_path: Path) -> None:
    async with open_management_gateway(tmp_path / "h", "memory") as desk, self_id(desk.gateway) as client:
        ann = await make(desk, title="Ann")
        first = await desk.gateway.agents.token(ann, "operator")
        second = await desk.gateway.agents.token(ann, "operator")

        async def status(token: str) -> int:
            return (await SelfId(client, token).post(make_request("initialize", INITIALIZE, 1))).status_code

        assert (await status(first), await status(second)) == (403, 200)
        await desk("kill_agent", agentId=ann)
        assert await status(second) == 403


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path / "code" / "shop")


@pytest.mark.slow
async def test_paseo_29_an_agent_names_the_branch_of_its_worktree_once(
    opening: Opening, tmp_path: Path, shop: Path
) -> None:
    async with opening(tmp_path / "h", script=TITLES, sandbox__mounts_allowed=(f"{shop.parent}:rw",)) as desk:
        created = await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main", title="A")
        ann, place = created["agentId"], Path(created["cwd"])
        for bad in ("Bad_Name", "a--b", "-a"):
            assert "INVALID_BRANCH" in await say(desk, ann, f"branch {bad}")
        assert '"mend-login"' in await say(desk, ann, "branch mend-login")
        assert git(place, "rev-parse", "--abbrev-ref", "HEAD") == "mend-login"
        assert "NOT_ALLOWED" in await say(desk, ann, "branch other")
        assert git(place, "rev-parse", "--abbrev-ref", "HEAD") == "mend-login"
        (shown,) = (await desk("list_worktrees"))["worktrees"]
        assert (shown["branchName"], shown["worktreePath"]) == ("mend-login", str(place))
        assert git(shop, "branch", "--list") == "* main", "the operator's own repository is not touched"


@pytest.mark.slow
async def test_a_branch_with_a_slash_can_be_named_once_too(tmp_path: Path, shop: Path) -> None:
    async with open_management_gateway(
        tmp_path / "h", "memory", script=TITLES, sandbox__mounts_allowed=(f"{shop.parent}:rw",)
    ) as desk:
        ann = await make(desk, cwd=str(shop), worktreeName="v2/task", baseBranch="main")
        assert '"v2/login"' in await say(desk, ann, "branch v2/login")
        assert "NOT_ALLOWED" in await say(desk, ann, "branch other")


@pytest.mark.slow
async def test_paseo_29_also_from_a_subdirectory_and_nowhere_else(tmp_path: Path, shop: Path) -> None:
    plain = tmp_path / "code" / "plain"
    plain.mkdir()
    allowed = {"sandbox__mounts_allowed": (f"{shop.parent}:rw",)}
    async with open_management_gateway(tmp_path / "h", "memory", script=TITLES, **allowed) as desk:
        made = await desk("create_worktree", cwd=str(shop), name="task", baseBranch="main")
        below = Path(made["worktreePath"]) / "src" / "deep"
        below.mkdir(parents=True)
        inside = await make(desk, cwd=str(below), title="below")
        assert await say(desk, inside, "write") == "written"
        assert (below / "answer.txt").read_text() == "done", "it starts there"
        assert '"from-below"' in await say(desk, inside, "branch from-below")

        clone, nothing, home = await make(desk, cwd=str(shop)), await make(desk, cwd=str(plain)), await make(desk)
        assert "NOT_ALLOWED" in await say(desk, clone, "branch x")
        assert "NOT_GIT_REPO" in await say(desk, nothing, "branch x")
        assert "NOT_GIT_REPO" in await say(desk, home, "branch x")
        assert git(shop, "branch", "--list") == "* main"


@pytest.mark.on_disk
@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"cwd": "relative/path"}, "absolute"),
        ({"cwd": "/etc"}, "not allowed"),
        ({"cwd": "SHOP/missing"}, "missing"),
        ({"cwd": "SHOP/../shop"}, "absolute"),
        ({"cwd": "HOME/groups"}, "not allowed"),
        ({"cwd": "SHOP", "worktreeName": "x"}, "baseBranch"),
        ({"worktreeName": "x", "baseBranch": "main"}, "cwd"),
        ({"cwd": "SHOP", "worktreeName": "X!", "baseBranch": "main"}, "INVALID_BRANCH"),
        ({"cwd": "SHOP", "worktreeName": "x", "baseBranch": "nowhere"}, "nowhere"),
        ({"cwd": "SHOP", "worktreeName": "x", "baseBranch": "main", "agentType": "nobody"}, "nobody"),
    ],
)
async def test_paseo_18_a_start_that_cannot_be_is_told_and_nothing_is_made(
    tmp_path: Path, shop: Path, wish: dict[str, str], said: str
) -> None:
    allowed: dict[str, Any] = {"sandbox__mounts_allowed": (f"{shop.parent}:rw",)}
    async with open_management_gateway(tmp_path / "h", "memory", **allowed) as desk:
        words = {
            key: value.replace("SHOP", str(shop)).replace("HOME", str(desk.gateway.home.path))
            for key, value in wish.items()
        }
        answer = await desk.ask("create_agent", **words)
        assert answer.failed and said in answer.text, answer.text
        assert (await desk("list_agents"))["agents"] == []
        assert (await desk("list_worktrees"))["worktrees"] == []


@pytest.mark.slow
async def test_agents_may_not_start_where_they_may_only_read(tmp_path: Path, shop: Path) -> None:
    async with open_management_gateway(tmp_path / "h", "memory", sandbox__mounts_allowed=(str(shop.parent),)) as desk:
        answer = await desk.ask("create_agent", cwd=str(shop))
        assert answer.failed and ":rw" in answer.text
        made = await desk("create_worktree", cwd=str(shop), name="ok")
        assert (await desk("create_agent", cwd=made["worktreePath"]))["cwd"] == made["worktreePath"]


@pytest.mark.slow
async def test_an_archived_worktree_takes_its_agents_along_and_its_work_is_kept(tmp_path: Path, shop: Path) -> None:
    allowed = {"sandbox__mounts_allowed": (f"{shop.parent}:rw",)}
    async with open_management_gateway(tmp_path / "h", "memory", script=TITLES, **allowed) as desk:
        created = await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main", title="A")
        await say(desk, created["agentId"], "write")
        done = await desk("archive_worktree", worktree="task")
        assert done["saved"] and not Path(created["cwd"]).exists()
        git(shop, "fetch", "-q", done["saved"], "+refs/*:refs/agents/*")
        assert git(shop, "show", "refs/agents/gatepost/uncommitted:answer.txt") == "done"
        assert (await desk("list_agents"))["agents"] == []
        again = await desk.ask("send_agent_prompt", agentId=created["agentId"], prompt="go on")
        assert again.failed and "/task was put away" in again.text


@pytest.mark.slow
async def test_nobody_is_woken_in_a_worktree_that_goes_by_the_end_of_another(tmp_path: Path, shop: Path) -> None:
    allowed = {"sandbox__mounts_allowed": (f"{shop.parent}:rw",)}
    async with open_management_gateway(tmp_path / "h", "memory", script=TITLES, **allowed) as desk:
        lead = await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main", title="Lead")
        child = {"cwd": lead["cwd"], "parentAgentId": lead["agentId"], "notifyOnFinish": True, "background": True}
        made = await desk("create_agent", initialPrompt="wait", title="Child", **child)
        async with asyncio.timeout(PATIENCE_S):
            while await desk.gateway.store.read(turns.find_open, made["agentId"]) is None:  # noqa: ASYNC110  nobody rings
                await asyncio.sleep(0.01)
        await say(desk, lead["agentId"], "write")
        assert (await desk("archive_worktree", worktree="task"))["saved"]
        done = [turn.state for turn in await desk.gateway.store.read(turns.list_for_session, lead["agentId"], 2**62, 9)]
        assert done.count(TurnState.DONE) == 1, "what it has heard of its child, it heard too late"
        assert await desk.gateway.store.read(due_sessions.list_waiting_sessions) == []
        assert {each["archivedAt"] is None for each in (await desk("list_agents", includeArchived=True))["agents"]} == {
            False
        }
