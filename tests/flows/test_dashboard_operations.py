"""What the buttons of the operator's pages do, in a real browser before a real daemon: groups, routes, people, links,
sites, channels, connectors, costs, tokens, and what is looked at again."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import expect
from tests.browsers import needs_chromium

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.money import costs
from gatepost.store.money.costs import NewCost
from gatepost.store.people import newcomers
from gatepost.store.people.newcomers import NewcomerState, NewNewcomer
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.waiting import PATIENCE_S, block_until

from .dashboard_desk import DashboardDesk

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": [{"name": "open-issue", "inputSchema": {"type": "object"}}]}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
DAY = 24 * 3600 * 1_000_000
EVE, ADA = "telegram:user/9", "telegram:user/10"

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("operations") / "home"
    home.mkdir()
    server = home.parent / "server.py"
    server.write_text(SERVER)
    command = json.dumps([sys.executable, str(server)])
    (home / "gatepost.toml").write_text(f'[connectors.hub]\ncommand = {command}\ntier = "world"\n')
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


@pytest.mark.page("groups", "group.rest: Put to rest", "group.wake: Wake it")
async def test_an_agent_is_put_to_rest_and_woken_on_its_page(desk: DashboardDesk) -> None:
    assert desk.daemon.gatepost("group", "add", "owls").returncode == 0
    await desk.open("/groups/owls")
    await desk.press("Put to rest", "group.rest", reason="It is winter.")
    banner = desk.page.locator(".findings")
    await expect(banner).to_contain_text("what is written to it waits. It is winter.")
    assert desk.daemon.json("group", "show", "owls")["rest"]["by"] == "web:user/owner"
    await desk.press("Wake it", "group.wake")
    await expect(banner).to_have_count(0)
    assert desk.daemon.json("group", "show", "owls")["rest"] is None


@pytest.mark.page("groups", "instructions.put_back: Put this back", "instructions.put_back: Undo")
async def test_an_earlier_version_of_the_instructions_is_looked_at_put_back_and_that_undone(
    desk: DashboardDesk,
) -> None:
    desk.ask("group.add", folder="moths")
    for text in ("Be brief.\n", "Be brief.\nNever say no.\n"):
        read = desk.ask("group.read_file", folder="moths", path="AGENTS.md")
        desk.ask("group.write_file", folder="moths", path="AGENTS.md", content=text, version=read["version"])
    await desk.open("/groups/moths")
    earlier = desk.page.locator("details", has_text="Earlier versions")
    await earlier.locator("summary").click()
    await earlier.get_by_role("link", name="See what is different").first.click()
    await expect(desk.page.locator("pre.diff .removed")).to_have_text("- Never say no.")
    await desk.press("Put this back", "instructions.put_back", by_key=True)
    assert desk.ask("group.read_file", folder="moths", path="AGENTS.md")["text"] == "Be brief.\n"
    await expect(desk.page.locator("main")).to_contain_text("The agent goes by this version now.")
    await desk.press("Undo", "instructions.put_back")
    assert desk.ask("group.read_file", folder="moths", path="AGENTS.md")["text"].endswith("Never say no.\n")


@pytest.mark.page("groups", "group.add: New agent", "group.set: Change", "group.rm: Remove")
async def test_a_group_is_made_changed_and_removed(desk: DashboardDesk) -> None:
    await desk.open("/groups")
    await desk.press("New agent", "group.add", by_key=True, folder="acme", name="Acme")
    await desk.open("/groups/acme")
    await desk.press("Change", "group.set", **{"values.name": "Acme & Co", "values.limits": "turn_s=60"})
    group = desk.ask("group.show", folder="acme")
    assert (group["name"], group["limits"]) == ("Acme & Co", {"turn_s": 60})
    await desk.press("Remove", "group.rm", desk.page.locator(".page-actions"))
    assert "acme" not in [each["folder"] for each in desk.ask("group.list")]


@pytest.mark.page(
    "groups",
    "group.write_file: New skill",
    "group.give_file: Give it a file",
    "rule.add: Pin a rule",
    "rule.rm: Remove",
    "grant.add: Add a rule",
    "policy.explain: Explain a call",
    "route.add: New route",
    "task.add: New task",
    "memory.add: Remember something",
    "budget.set: Set a limit",
)
@pytest.mark.page("permissions", "grant.add: Add a rule", "grant.rm: Remove")
async def test_what_a_group_has_is_added_and_removed_on_its_page(desk: DashboardDesk, tmp_path: Path) -> None:
    desk.ask("group.add", folder="ops")
    await desk.open("/groups/ops?view=knows")
    await desk.press("Remember something", "memory.add", text="The bins go out on Tuesdays.")
    assert [each["text"] for each in desk.ask("memory.list", folder="ops")] == ["The bins go out on Tuesdays."]
    skill = "---\nname: triage\ndescription: Sort what comes in.\n---\nSort it."
    await desk.press("New skill", "group.write_file", path="skills/triage/SKILL.md", content=skill)
    assert desk.ask("group.read_file", folder="ops", path="skills/triage/SKILL.md")["text"] == skill
    given = tmp_path / "plan 2026.pdf"
    given.write_bytes(b"%PDF\xff")
    await desk.press("Give it a file", "group.give_file", data=str(given))
    assert desk.ask("group.find_file", folder="ops", path="plan 2026.pdf")["size"] == 5
    await desk.page.get_by_role("link", name="plan 2026.pdf").click()
    async with desk.page.expect_download() as download:
        await desk.page.get_by_role("link", name="Download").click()
    assert Path(await (await download.value).path()).read_bytes() == b"%PDF\xff"
    await desk.open("/groups/ops?view=where")
    await desk.press("New route", "route.add", match="text=ops-only")
    assert [each["match"] for each in desk.ask("group.show", folder="ops")["routes"]] == ["text=ops-only"]

    await desk.open("/groups/ops")
    await desk.press("Pin a rule", "rule.add", text="Speak plainly.")
    assert [each["text"] for each in desk.ask("rule.list", folder="ops")] == ["Speak plainly."]
    await desk.press("Remove", "rule.rm", desk.row("Speak plainly."))
    assert desk.ask("rule.list", folder="ops") == []

    await desk.open("/groups/ops?view=may")
    await desk.press("Add a rule", "grant.add", rule="!send_file")
    await desk.press("Explain a call", "policy.explain", tool="send_file")
    assert not desk.ask("policy.explain", folder="ops", tool="send_file")["allowed"]
    await desk.page.get_by_text("Show the exact rules").click()
    await desk.press("Remove", "grant.rm", desk.row("!send_file"))
    assert desk.ask("grant.list", folder="ops")["rules"] == []

    await desk.press("Add a rule", "grant.add", desk.page.locator(".disclosure"), rule="!like")
    assert [each["text"] for each in desk.ask("grant.list", folder="ops")["rules"]] == ["!like"]

    await desk.open("/groups/ops?view=costs")
    await desk.press("Set a limit", "budget.set", daily="2")
    await expect(desk.page.get_by_text("$0.00 spent of $2.00")).to_be_visible()

    await desk.open("/groups/home?view=when")
    await desk.press("New task", "task.add", text="Look around.", every="1d")
    assert [each["text"] for each in desk.ask("task.list", folder="home")] == ["Look around."]


@pytest.mark.page("permissions", "grant.choose: *")
async def test_what_an_agent_may_do_is_chosen_by_one_click(desk: DashboardDesk) -> None:
    desk.ask("group.add", folder="kiosk")
    await desk.open("/groups/kiosk?view=may")
    files = desk.page.get_by_role("group", name="Sends files out")
    await expect(files.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    await desk.press("Ask me", "grant.choose", files)
    await expect(files.get_by_role("button", name="Ask me")).to_have_attribute("aria-pressed", "true")
    assert [each["text"] for each in desk.ask("grant.list", folder="kiosk")["rules"]] == ["hold hand_out"]
    await desk.press("No", "grant.choose", files, by_key=True)
    await expect(files.get_by_role("button", name="No", exact=True)).to_have_attribute("aria-pressed", "true")
    assert [each["text"] for each in desk.ask("grant.list", folder="kiosk")["rules"]] == ["!hand_out"]
    await desk.press("Yes", "grant.choose", files)
    await expect(files.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    assert desk.ask("grant.list", folder="kiosk")["rules"] == []


@pytest.mark.page("routes", "route.add: New route", "route.move: Down", "route.rm: Remove")
async def test_a_route_is_added_moved_down_and_removed(desk: DashboardDesk) -> None:
    await desk.open("/routes")
    await desk.press("New route", "route.add", match="text=one", target="drop", seq="1")
    await desk.press("New route", "route.add", match="text=two", target="drop", seq="2")
    await expect(desk.row("text=two")).to_be_visible()
    await desk.press("Down", "route.move", desk.row("text=one"), by_key=True)
    assert [each["match"] for each in desk.ask("route.list")][:2] == ["text=two", "text=one"]
    await expect(desk.page.locator("main tbody tr").first).to_contain_text("text=two")  # rows have changed places
    await desk.press("Remove", "route.rm", desk.row("text=two"))
    assert "text=two" not in [each["match"] for each in desk.ask("route.list")]


@pytest.mark.page(
    "users",
    "user.add: Add a person",
    "user.role: Give a role",
    "user.member: Make a member",
    "user.pair: Pair",
    "user.block: Block",
    "user.forget: Forget",
)
async def test_a_person_is_added_gets_rights_is_blocked_and_forgotten(desk: DashboardDesk) -> None:
    await desk.open("/people")
    await desk.press("Add a person", "user.add", id=EVE, name="Eve")
    await desk.page.get_by_role("link", name=EVE).click()
    await desk.press("Give a role", "user.role", role="admin", folder="home")
    await desk.press("Make a member", "user.member", folder="home")
    person = desk.ask("user.show", id=EVE)
    assert (person["name"], person["roles"], person["member_of"]) == ("Eve", [["admin", "home"]], ["home"])
    await desk.page.get_by_role("button", name="Pair").click()
    assert "The code. It is shown only this once" in await desk.submit("user.pair")
    await desk.press("Block", "user.block")
    assert (EVE, "deny") in [(each["principal"], each["effect"]) for each in desk.ask("grant.list")["rows"]]
    await desk.page.get_by_role("link", name="What is known").click()
    await expect(desk.row("Access rows", "1")).to_be_visible()
    await desk.page.get_by_text("What stays, and why").click()
    await expect(desk.page.get_by_text("What others wrote stays")).to_be_visible()
    await desk.page.get_by_role("button", name="Forget").click()
    said = await desk.submit("user.forget")
    assert re.search(r"Access rows\s+1", said), said
    assert EVE not in [each["id"] for each in desk.ask("user.list")]


def add_newcomer(daemon: DaemonProcess, sender: str) -> str:
    """As one who wrote to an entrance."""
    now, connection = SystemClock().now(), connect(Home(daemon.home).store)
    new = NewNewcomer(
        sender=sender,
        name="New",
        instance="telegram",
        address="telegram:dm/1",
        parent="home",
        state=NewcomerState.QUEUED,
    )
    made = newcomers.add(SqliteDb(connection), new, now)
    connection.close()
    assert made is not None
    return made.id


@pytest.mark.page("users", "onboarding.allow: Let in", "onboarding.deny: Deny", "invite.create: Invite by a code")
async def test_a_newcomer_is_let_in_and_another_one_denied(daemon: DaemonProcess, desk: DashboardDesk) -> None:
    let_in, denied = add_newcomer(daemon, EVE), add_newcomer(daemon, ADA)
    await desk.open("/people")
    await desk.press("Let in", "onboarding.allow", desk.row(EVE))
    await desk.press("Deny", "onboarding.deny", desk.row(ADA), reason="We do not know you.")

    def list_states() -> dict[str, tuple[str, str]]:
        return {each["id"]: (each["state"], each["reason"]) for each in desk.ask("onboarding.list")["newcomers"]}

    assert list_states()[denied] == ("denied", "We do not know you.")
    assert list_states()[let_in][0] in ("admitted", "settled")
    await desk.press("Invite by a code", "invite.create", folder="home", label="colleagues")
    assert [each["label"] for each in desk.ask("invite.list")] == ["colleagues"]


@pytest.mark.page("users", "onboarding.open: Open an entrance", "onboarding.close: Close")
async def test_an_entrance_is_opened_and_closed(desk: DashboardDesk) -> None:
    await desk.open("/people")
    await desk.press("Open an entrance", "onboarding.open", instance="telegram", folder="home", senders=EVE)
    [entrance] = desk.ask("onboarding.list")["entrances"]
    assert (entrance["senders"], entrance["folder"]) == (EVE, "home")
    await desk.press("Close", "onboarding.close", desk.row("10 a day"))
    assert desk.ask("onboarding.list")["entrances"] == []


@pytest.mark.page("routes", "room.policy: Who may write")
async def test_a_room_is_opened_to_everybody(desk: DashboardDesk) -> None:
    await desk.open("/rooms")
    await desk.press("Who may write", "room.policy", desk.row("terminal:"), policy="public")
    [room] = [each for each in desk.ask("room.list") if each["address"].startswith("terminal:")]
    assert room["policy"] == "public"


@pytest.mark.page(
    "credentials",
    "token.add: New webhook",
    "token.add: New chat link",
    "token.sign: Sign",
    "token.rm: Revoke",
    "invite.create: Invite by a code",
)
async def test_links_are_made_signed_and_revoked(desk: DashboardDesk) -> None:
    await desk.open("/links")
    await desk.press("New webhook", "token.add", folder="home", label="ci")
    await desk.press("New chat link", "token.add", folder="home", label="site")
    await desk.press("Invite by a code", "invite.create", folder="home", label="guests")
    await desk.press(
        "Sign", "token.sign", desk.row("ci", "webhook"), signature="github", signing_secret="0123456789abcdef0123"
    )
    await desk.press("Revoke", "token.rm", desk.row("site"))
    links = {each["label"]: (each["kind"], each["signature"], each["state"]) for each in desk.ask("token.list")}
    assert links["ci"] == ("webhook", "github", "valid")
    assert links["site"] == ("chat_link", "none", "revoked")
    assert "guests" in links or "guests" in [each["label"] for each in desk.ask("invite.list")]


@pytest.mark.page(
    "sites",
    "site.set: Say who sees a page",
    "site.set: Change",
    "site.rm: Remove",
    "site.bind: Add a host name",
    "site.unbind: Remove",
)
async def test_a_path_and_a_host_name_get_rules_and_lose_them(desk: DashboardDesk) -> None:
    await desk.open("/sites")
    await desk.press("Say who sees a page", "site.set", folder="home", path="/pub/home/docs", access="public")
    await desk.press("Change", "site.set", desk.row("/pub/home/docs"), access="deny")
    assert [(each["path"], each["access"]) for each in desk.ask("site.routes")] == [("/pub/home/docs", "deny")]
    await desk.press("Add a host name", "site.bind", hostname="docs.example.net", folder="home")
    assert [each["hostname"] for each in desk.ask("site.hosts")] == ["docs.example.net"]
    await desk.press("Remove", "site.rm", desk.row("/pub/home/docs"), by_key=True)
    await desk.press("Remove", "site.unbind", desk.row("docs.example.net"), by_key=True)
    assert (desk.ask("site.routes"), desk.ask("site.hosts")) == ([], [])


@pytest.mark.page(
    "channels", "channel.test: Test", "channel.restart: Restart", "channel.set: Change", "channel.remove: Remove"
)
async def test_a_channel_is_tested_changed_restarted_and_removed(desk: DashboardDesk, tmp_path: Path) -> None:
    desk.ask("channel.add", kind="webhook", secrets={"secret": "0123456789abcdef0123456789abcdef"})

    def get_channel() -> dict[str, object]:
        return next((each for each in desk.ask("channel.list") if each["instance"] == "webhook"), {})

    await desk.open("/channels")
    await desk.press("Test", "channel.test", desk.row("Webhook").first)
    since = get_channel()["since_at"]
    await desk.press("Restart", "channel.restart", desk.row("Webhook").first, by_key=True)
    block_until(lambda: get_channel()["since_at"] != since, "it has begun anew")
    await desk.press("Change", "channel.set", desk.row("Webhook").first, off="on")
    block_until(lambda: get_channel()["state"] == "off", "it is off")
    await desk.press("Remove", "channel.remove", desk.row("Webhook").first)
    assert get_channel() == {}


@pytest.mark.page("agents", "connector.check: Check")
async def test_a_connector_is_asked_for_its_tools(desk: DashboardDesk) -> None:
    await desk.open("/connectors")
    await desk.page.get_by_role("button", name="Check", exact=True).click()
    assert "open-issue" in await desk.submit("connector.check")


@pytest.mark.page("spending", "budget.set: Set a limit")
async def test_a_budget_is_set(desk: DashboardDesk) -> None:
    await desk.open("/costs")
    await desk.press("Set a limit", "budget.set", folder="home", daily="2.50")
    budgets = {each["name"]: each["daily"]["limit_usd"] for each in desk.ask("budget.show") if each["daily"]}
    assert budgets["home"] == 2.5


@pytest.mark.page("credentials", "api_token.add: New token", "api_token.rm: Revoke", "*: Run it")
async def test_a_token_of_a_program_is_made_and_revoked_and_an_operation_is_run(desk: DashboardDesk) -> None:
    await desk.open("/api")
    await desk.press("New token", "api_token.add", scopes="tasks.read", label="watcher")
    await desk.press("Revoke", "api_token.rm", desk.row("watcher"))
    [token] = desk.ask("api_token.list")
    assert (token["label"], token["scopes"], token["state"]) == ("watcher", ["tasks.read"], "revoked")
    await desk.open("/api/group.add")
    await desk.press("Run it", "group.add", folder="by-its-page")
    assert "by-its-page" in [each["folder"] for each in desk.ask("group.list")]


@pytest.mark.page("logs", "audit.verify: Verify the chain")
@pytest.mark.page("ledger", "ledger.check: Check everything")
async def test_what_only_looks_says_what_it_found(desk: DashboardDesk) -> None:
    for path, label, operation, found in (
        ("/audit", "Verify the chain", "audit.verify", "Rows"),
        ("/ledger", "Check everything", "ledger.check", "Unaccounted\n0"),
    ):
        await desk.open(path)
        await desk.page.get_by_role("button", name=label).click()
        assert found in await desk.submit(operation)


@pytest.mark.page("gateways", "doctor.run: Look again")
async def test_the_doctor_looks_again(desk: DashboardDesk) -> None:
    await desk.open("/doctor")
    looked_at = desk.page.locator("main dl time").first
    before = await looked_at.get_attribute("datetime")
    async with asyncio.timeout(PATIENCE_S):
        while await looked_at.get_attribute("datetime") == before:  # what is new is not looked for
            await desk.press("Look again", "doctor.run", by_key=True)


@pytest.mark.page("ledger", "keep.run: Remove what is over age")
async def test_what_is_over_age_is_removed(daemon: DaemonProcess, desk: DashboardDesk) -> None:
    connection = connect(Home(daemon.home).store)
    connection.execute("UPDATE steps SET at = at - ?", (40 * DAY,))
    connection.close()

    def count_old() -> int:
        return sum(each["over_age"] for each in desk.ask("keep.show")["rows"])

    before = count_old()
    await desk.open("/keep")
    await desk.press("Remove what is over age", "keep.run")
    assert count_old() < before


def spend(daemon: DaemonProcess, folder: str, micro: int) -> None:
    now, connection = SystemClock().now(), connect(Home(daemon.home).store)
    costs.add_external(SqliteDb(connection), NewCost(key="1", at=now, folder=folder, model="m", micro=micro), now)
    connection.close()


@pytest.mark.page("overview", "*: Connect an agent", "*: Raise the budget", "panic.off: Go on")
@pytest.mark.page("sidebar", "panic.on: Stop everything", "panic.off: Go on")
async def test_the_overview_offers_the_next_step(daemon: DaemonProcess, desk: DashboardDesk) -> None:
    desk.ask("group.add", folder="shop", provider="demo")
    await desk.open("/")
    card = desk.page.locator("#card-shop")
    await card.get_by_role("button", name="Connect an agent").click()
    await desk.submit("connect.keep", provider="anthropic", key="sk-test-0123456789")
    assert desk.ask("group.show", folder="shop")["provider"] == "anthropic"

    desk.ask("budget.set", folder="shop", daily="1")
    spend(daemon, "shop", 1_000_000)
    await desk.press("Raise the budget", "budget.set", card, daily="3")
    assert [each["daily"]["limit_usd"] for each in desk.ask("budget.show") if each["name"] == "shop"] == [3.0]

    aside = desk.page.locator("#panic")
    for switch in (desk.page.locator(".findings"), aside):
        await desk.press("Stop everything", "panic.on", aside, reason="smoke")
        assert desk.ask("overview.show")["panic"]["reason"] == "smoke"
        await desk.press("Go on", "panic.off", switch)
        assert desk.ask("overview.show")["panic"] is None
