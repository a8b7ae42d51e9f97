"""What the buttons of the pages do, in a real browser before a real daemon: tasks, access, secrets and hosts.

The quick part of it; `test_dashboard_operations.py` and `test_dashboard_work.py` press the others.
"""

import asyncio
from collections.abc import Iterator

import pytest
from playwright.async_api import Route, expect
from tests.browsers import needs_chromium

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import block_until

from .dashboard_desk import DashboardDesk, refuse_host

SECRET = "tok-very-secret-000"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("actions") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


@pytest.mark.slow
@pytest.mark.page(
    "tasks",
    "task.add: New task",
    "task.run: Run now",
    "task.pause: Pause",
    "task.resume: Resume",
    "task.cancel: Cancel",
)
async def test_a_task_is_made_run_paused_resumed_and_cancelled(desk: DashboardDesk) -> None:
    await desk.open("/tasks")
    await desk.press("New task", "task.add", folder="home", text="Stand-up!", every="1h")
    [task] = desk.ask("task.list")
    assert (task["text"], task["schedule"], task["state"]) == ("Stand-up!", "1h", "active")
    row = desk.row("Stand-up!", "active").first

    await desk.press("Run now", "task.run", row)
    block_until(lambda: [each["state"] for each in desk.ask("task.show", id=task["id"])["log"]] == ["sent"], "its run")
    await desk.press("Pause", "task.pause", row, by_key=True)
    assert desk.ask("task.show", id=task["id"])["state"] == "paused"
    await desk.press("Resume", "task.resume", desk.row("Stand-up!", "paused").first, by_key=True)
    assert desk.ask("task.show", id=task["id"])["state"] == "active"

    await desk.open(f"/tasks/{task['id']}")
    await desk.press("Cancel", "task.cancel")
    assert desk.ask("task.show", id=task["id"])["state"] == "cancelled"
    await expect(desk.page.get_by_role("button", name="Run now")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.page("access", "grant.add: New rule", "grant.rm: Remove", "policy.explain: Explain a call")
async def test_a_rule_is_added_decides_and_is_removed(desk: DashboardDesk) -> None:
    await desk.open("/access")
    await desk.press("New rule", "grant.add", folder="home", rule="!send")
    assert not desk.ask("policy.explain", folder="home", tool="send")["allowed"]
    await desk.page.get_by_role("button", name="Explain a call").click()
    await desk.submit("policy.explain", folder="home", tool="send")
    await desk.press("Remove", "grant.rm", desk.row("home", "!send"), by_key=True)
    assert desk.ask("policy.explain", folder="home", tool="send")["allowed"]


@pytest.mark.slow
@pytest.mark.page("access", "acl.add: New row", "acl.rm: Remove")
async def test_a_row_of_the_access_list_is_added_and_removed(desk: DashboardDesk) -> None:
    await desk.open("/access")
    await desk.press("New row", "acl.add", principal="telegram:user/9", action="mcp:send", deny="on")
    [row] = desk.ask("grant.list")["rows"]
    assert (row["principal"], row["action"], row["effect"]) == ("telegram:user/9", "mcp:send", "deny")
    await desk.press("Remove", "acl.rm", desk.row("telegram:user/9"))
    assert desk.ask("grant.list")["rows"] == []


@pytest.mark.slow
@pytest.mark.page("secrets", "secret.set: Set a secret", "secret.bind: Bind to a host", "secret.rm: Remove")
async def test_a_secret_is_set_bound_and_removed_and_never_shown(desk: DashboardDesk) -> None:
    await desk.open("/secrets")
    await desk.press("Set a secret", "secret.set", name="HUB", value=SECRET, folder="home")
    assert SECRET not in await desk.page.content()
    await desk.press("Bind to a host", "secret.bind", name="HUB", host="api.example.com", folder="home")
    [kept] = desk.ask("secret.list")
    assert (kept["name"], kept["folder"]) == ("HUB", "home")
    assert [each.partition(" ")[0] for each in kept["bound_to"]] == ["https://api.example.com:443"]
    await desk.press("Remove", "secret.rm", desk.row("HUB", "api.example.com"))
    assert desk.ask("secret.list") == []


@pytest.mark.slow
@pytest.mark.page("secrets", "egress.allow: Allow a host", "egress.deny: Deny a host", "egress.rm: Remove")
async def test_a_host_is_allowed_denied_and_neither(desk: DashboardDesk) -> None:
    await desk.open("/egress")
    await desk.press("Allow a host", "egress.allow", by_key=True, host="good.example.com", folder="home")
    await desk.press("Deny a host", "egress.deny", host="bad.example.com")
    rules = {each["host"]: (each["folder"], each["allow"]) for each in desk.ask("egress.list")}
    assert rules == {"good.example.com": ("home", True), "bad.example.com": (None, False)}
    await desk.press("Remove", "egress.rm", desk.row("bad.example.com"))
    assert [each["host"] for each in desk.ask("egress.list")] == ["good.example.com"]


@pytest.mark.slow
@pytest.mark.page("hosts", "egress.allow: Let it reach this", "egress.rm: Remove")
async def test_an_agent_is_let_reach_a_host_on_its_own_page(desk: DashboardDesk) -> None:
    refuse_host(desk.daemon, "files.example.com:443")
    await desk.open("/groups/home?view=may")
    refused = desk.page.locator(".block", has=desk.page.get_by_role("heading", name="Hosts it was refused lately"))
    await desk.press("Let it reach this", "egress.allow", refused.locator("tr", has_text="files.example.com"))
    await expect(desk.page.locator("#toast")).to_contain_text("files.example.com may be reached.")
    await expect(refused).to_have_count(0)

    form = desk.page.locator("form.page-form", has=desk.page.get_by_label("Another host"))
    await form.get_by_label("Another host").fill("https://docs.example.com/start")
    await form.get_by_role("button", name="Let it reach this").click()
    await expect(desk.row("docs.example.com")).to_contain_text("this agent")
    rules = {(each["host"], each["folder"]) for each in desk.ask("egress.list", folder="home")}
    assert {("files.example.com", "home"), ("docs.example.com", "home")} <= rules
    await desk.press("Remove", "egress.rm", desk.row("docs.example.com"))
    await expect(desk.row("docs.example.com")).to_have_count(0)
    await expect(desk.page.get_by_text("without walls it can reach every host")).to_be_visible()


@pytest.mark.slow
async def test_a_button_is_not_at_work_before_what_it_sends_is_accepted(desk: DashboardDesk) -> None:
    """On a slow line our own module comes last, and only it knows what shows that a request is ours."""
    desk.ask("group.add", folder="early")
    arrived = asyncio.Event()

    async def hold(route: Route) -> None:
        await arrived.wait()
        await route.continue_()

    await desk.page.route("**/static/csrf.js", hold)
    await desk.page.goto(f"{desk.base}/dashboard/groups/early", wait_until="commit")
    button = desk.page.locator("main").get_by_role("button", name="Remove", exact=True)
    await button.click()
    assert await button.get_attribute("data-htmx-powered") is None
    arrived.set()
    await desk.page.wait_for_load_state("load")
    await desk.press("Remove", "group.rm")
    assert "early" not in [each["folder"] for each in desk.ask("group.list")]
