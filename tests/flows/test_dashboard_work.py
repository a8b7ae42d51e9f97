"""What the buttons of the pages about work do, in a real browser before a real daemon and its agents: conversations,
managed agents, worktrees, requests and failed messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from tests.browsers import needs_chromium

from gatepost.core.clock import SystemClock
from gatepost.core.home import Home
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.rights import requests
from gatepost.store.rights.requests import NewRequest, RequestKind
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.repositories import repository
from gatepost_testing.waiting import block_until

from .dashboard_desk import DashboardDesk, expect_done

HOUR = 3600 * 1_000_000

TEA = [{"question": "Tea?", "options": [{"label": "Yes"}, {"label": "No"}]}]

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("code") / "shop")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, shop: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(
        tmp_path_factory.mktemp("work") / "home",
        sandbox_kind="process",
        sandbox_mounts_allowed=str(shop.parent),
        sessions_provider="scripted",
    )
    script = ScriptBuilder().turn("long").wait_for("go").say("done").turn("hello").say("hi")
    script = script.turn("announce").call("send", text="Release on Friday").say("asked")
    script = script.turn("which").call("ask_user_question", questions=TEA).say("They said {result}")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        assert running.gatepost("grant", "add", "home", "hold send").returncode == 0
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


def change_store(daemon: DaemonProcess, statement: str, *given: object) -> None:
    """What would take too long to come about."""
    connection = connect(Home(daemon.home).store)
    connection.execute(statement, given)
    connection.close()


def get_session(desk: DashboardDesk) -> dict[str, Any]:
    [found] = [each for each in desk.ask("session.list") if each["address"] == "terminal:main" and not each["thread"]]
    return dict(found)


def list_texts(desk: DashboardDesk) -> list[str]:
    return [each["text"] for each in desk.ask("ledger.list", limit=100) if each["direction"] == "out"]


def say(desk: DashboardDesk, text: str) -> None:
    assert desk.daemon.gatepost("chat", "-m", text).returncode == 0


def start_turn(desk: DashboardDesk) -> None:
    """One that goes on until it is stopped."""
    say(desk, "a long one")
    block_until(lambda: get_session(desk)["state"] == "running", "it is at work")


@pytest.mark.page("sessions", "session.stop_all: Stop all", "session.stop: Stop")
@pytest.mark.page("overview", "*: Stop it")
async def test_what_runs_is_stopped_alone_all_together_and_where_it_runs_too_long(desk: DashboardDesk) -> None:
    start_turn(desk)
    await desk.open("/sessions")
    await desk.press("Stop", "session.stop", desk.row("terminal:main").first, by_key=True)
    block_until(lambda: get_session(desk)["state"] != "running", "it is stopped")
    start_turn(desk)
    await desk.press("Stop all", "session.stop_all")
    block_until(lambda: get_session(desk)["state"] != "running", "all are stopped")
    start_turn(desk)
    change_store(desk.daemon, "UPDATE turns SET started_at = started_at - ? WHERE ended_at IS NULL", HOUR)
    await desk.open("/")
    await desk.press("Stop it", "session.stop", desk.page.locator("#card-home"))
    block_until(lambda: get_session(desk)["state"] != "running", "it is stopped, too")


def ask_person(desk: DashboardDesk, text: str) -> str:
    """Have the agent ask for something; the request."""
    say(desk, text)
    block_until(lambda: len(desk.ask("permit.list")) == 1, "a request")
    return str(desk.ask("permit.list")[0]["request"]["id"])


@pytest.mark.page("requests", "permit.answer: Allow", "permit.answer: Deny")
@pytest.mark.page("overview", "*: Decide")
async def test_a_held_call_is_allowed_or_denied_in_the_list_and_on_the_overview(desk: DashboardDesk) -> None:
    denied = ask_person(desk, "announce it")
    await desk.open("/requests")
    await desk.press("Deny", "permit.answer", desk.row(denied))
    assert desk.ask("permit.show", id=denied)["state"] == "denied"
    assert "Release on Friday" not in list_texts(desk)
    allowed = ask_person(desk, "announce it")
    await desk.press("Allow", "permit.answer", desk.row(allowed), by_key=True)
    block_until(lambda: list_texts(desk).count("Release on Friday") == 1, "the held call has run")
    third = ask_person(desk, "announce it")
    await desk.open("/")
    await desk.press("Decide", "permit.answer", desk.page.locator("#card-home"), allow="on")
    assert desk.ask("permit.show", id=third)["state"] == "allowed"
    block_until(lambda: list_texts(desk).count("Release on Friday") == 2, "it has run again")


@pytest.mark.page("requests", "permit.answer: Answer", "permit.answer: Do not answer")
async def test_a_question_is_answered_in_its_form_or_not_at_all(desk: DashboardDesk) -> None:
    asked = ask_person(desk, "which one")
    await desk.open(f"/requests/{asked}")
    await desk.page.get_by_label("Tea?").fill("No")
    await desk.page.get_by_role("button", name="Answer", exact=True).click()
    await expect_done(desk.page.locator("#toast"), "permit.answer")
    block_until(lambda: any("They said" in text and "No" in text for text in list_texts(desk)), "the agent has it")
    asked = ask_person(desk, "which one")
    await desk.open(f"/requests/{asked}")
    await desk.press("Do not answer", "permit.answer")
    assert desk.ask("permit.show", id=asked)["state"] == "denied"


@pytest.mark.page("requests", "permit.answer: Set the price")
async def test_a_model_without_a_price_gets_one_on_the_page_of_the_request(desk: DashboardDesk) -> None:
    asked = NewRequest(kind=RequestKind.PRICE, name="my-model", folder="", input={"model": "my-model"}, quorum=1)
    connection = connect(Home(desk.daemon.home).store)
    request, _ = requests.add(SqliteDb(connection), asked, SystemClock().now())
    connection.close()
    await desk.open(f"/requests/{request.id}")
    await desk.page.get_by_label("Price").fill("0.5/1.5")
    await desk.page.get_by_role("button", name="Set the price").click()
    await expect_done(desk.page.locator("#toast"), "permit.answer")
    assert desk.ask("permit.show", id=request.id)["state"] == "allowed"
    block_until(lambda: "my-model" in [each["model"] for each in desk.ask("price.list")], "the model has a price")


@pytest.mark.page("ledger", "ledger.retry: Send again")
async def test_what_could_not_be_sent_is_sent_again(desk: DashboardDesk) -> None:
    message = next(each["id"] for each in desk.ask("ledger.list") if each["text"] == "hi")
    change_store(desk.daemon, "UPDATE outbox SET state = 'failed', reason = 'gone' WHERE message_id = ?", message)
    await desk.open("/ledger?state=failed")
    await desk.press("Send again", "ledger.retry", desk.row("hi", "failed"))
    block_until(lambda: desk.ask("ledger.list", state="failed") == [], "it was sent")
    assert list_texts(desk).count("hi") == 1


@pytest.mark.page("overview", "*: Try again", "*: Wake it", "*: Go on")
async def test_a_failed_message_is_tried_again_and_a_resting_agent_woken_on_the_overview(desk: DashboardDesk) -> None:
    say(desk, "hello")
    block_until(lambda: get_session(desk)["state"] == "idle", "it has answered")
    hello = max(each["id"] for each in desk.ask("ledger.list") if each["text"] == "hello")
    failed = "UPDATE inbox SET state = 'failed', updated_at = ? WHERE message_id = ?"
    change_store(desk.daemon, failed, SystemClock().now(), hello)
    change_store(desk.daemon, "UPDATE sessions SET state = 'idle', closed_at = NULL")
    await desk.open("/")
    card = desk.page.locator("#card-home")
    await expect(card.get_by_role("link", name="Look at the message")).to_be_visible()
    await desk.press("Try again", "ledger.retry", card)
    block_until(lambda: desk.ask("overview.show", folder="home")["counts"]["failing"] == 0, "it is answered")
    assert desk.daemon.gatepost("group", "rest", "home").returncode == 0
    await expect(card.locator(".badge")).to_contain_text("At rest")
    await desk.press("Wake it", "group.wake", card)
    await expect(card.locator(".badge")).not_to_contain_text("At rest")
    assert desk.daemon.gatepost("panic").returncode == 0
    say(desk, "hello")
    await expect(card.locator(".badge")).to_contain_text("Stopped")
    await desk.press("Go on", "panic.off", card)
    await expect(card.locator(".badge")).not_to_contain_text("Stopped")


@pytest.mark.page("sessions", "session.fork: Fork", "session.replay: Replay", "session.close: Close")
async def test_a_conversation_is_forked_replayed_and_closed(desk: DashboardDesk) -> None:
    session = get_session(desk)["id"]
    await desk.open(f"/sessions/{session}")
    await desk.press("Fork", "session.fork", topic="side")
    [fork] = [each for each in desk.ask("session.list") if each["thread"] == "side"]
    await desk.page.get_by_role("button", name="Replay", exact=True).click()
    await expect(desk.page.locator("#dialog form.operation")).to_be_visible()
    await desk.submit("session.replay", provider="scripted")
    block_until(lambda: any(each["kind"] == "replay" for each in desk.ask("session.show", id=session)["events"]), "it")
    await desk.open(f"/sessions/{fork['id']}")
    await desk.press("Close", "session.close")
    assert desk.ask("session.show", id=fork["id"])["closed_at"]
    await expect(desk.page.get_by_text("This conversation is closed.")).to_be_visible()


@pytest.mark.page(
    "agents",
    "agent.create: New agent",
    "agent.prompt: Say something",
    "agent.stop: Stop",
    "agent.archive: Archive",
)
async def test_a_managed_agent_is_made_prompted_stopped_and_archived(desk: DashboardDesk) -> None:
    await desk.open("/agents")
    await desk.press("New agent", "agent.create", prompt="hello", title="Helper", folder="home")
    [made] = desk.ask("agent.list")

    def get_agent() -> dict[str, Any]:
        return dict(desk.ask("agent.show", id=made["agentId"]))

    block_until(lambda: get_agent()["lastMessage"] == "hi", "its first answer")
    await desk.open(f"/agents/{made['agentId']}")
    await desk.press("Say something", "agent.prompt", text="a long one")
    block_until(lambda: get_agent()["status"] == "running", "it is at work")
    await desk.press("Stop", "agent.stop", by_key=True)
    block_until(lambda: get_agent()["status"] != "running", "it is stopped")
    await desk.press("Archive", "agent.archive")
    assert get_agent()["archivedAt"] and desk.ask("agent.list") == []


@pytest.mark.page("worktrees", "worktree.create: New worktree", "worktree.save: Save", "worktree.archive: Archive")
async def test_a_worktree_is_made_saved_and_archived(desk: DashboardDesk, shop: Path) -> None:
    await desk.open("/worktrees")
    await desk.press("New worktree", "worktree.create", source=str(shop), name="fix")
    [made] = desk.ask("worktree.list")
    place = Path(made["worktreePath"])
    (place / "new.txt").write_text("new")
    await desk.press("Save", "worktree.save", desk.row("fix"))
    await desk.press("Archive", "worktree.archive", desk.row("fix"))
    assert desk.ask("worktree.list") == [] and not place.exists()
    [kept] = desk.ask("worktree.list", archived=True)
    assert kept["branchName"] == "fix"


@pytest.mark.page(
    "memory",
    "memory.add: Add an entry",
    "memory.edit: Edit",
    "memory.forget: Forget",
    "memory.restore: Restore",
    "memory.sync: Write MEMORY.md",
    "memory.sync: Take over",
    "memory.sync: Drop the changes",
    "memory.undo: Take back",
)
async def test_what_an_agent_remembers_is_added_corrected_forgotten_and_taken_back(desk: DashboardDesk) -> None:
    await desk.open("/memory")
    await desk.press("Add an entry", "memory.add", folder="home", text="The bins go on Tuesday.")
    await desk.press("Edit", "memory.edit", desk.row("Tuesday"), text="The bins go on Wednesday.")
    [kept] = desk.ask("memory.list")
    assert (kept["text"], kept["replaces"]) == ("The bins go on Wednesday.", kept["id"] - 1)

    await desk.press("Forget", "memory.forget", desk.row("Wednesday"))
    assert desk.ask("memory.list") == []
    await desk.open(f"/memory/{kept['id']}")
    await desk.press("Restore", "memory.restore")
    assert [each["id"] for each in desk.ask("memory.list")] == [kept["id"]]
    await desk.open("/memory")

    await desk.press("Add an entry", "memory.add", folder="home", text="Mail the bills to eve.")
    await desk.press("Take back", "memory.undo", since="1h")
    assert desk.ask("memory.list") == []
    assert len(desk.ask("memory.list", all=True)) == 3

    file = Home(desk.daemon.home).group("home") / "MEMORY.md"
    await desk.open("/memory?group=home")
    await desk.press("Write MEMORY.md", "memory.sync")
    before = file.read_text()
    for label, kept in (("Drop the changes", []), ("Take over", ["We open at 9."])):
        file.write_text(f"{before}- We open at 9.\n")
        await desk.open("/memory?group=home")
        await desk.press(label, "memory.sync")
        assert [each["text"] for each in desk.ask("memory.list")] == kept


@pytest.mark.page(
    "skills",
    "skill.read: Read skills",
    "skill.agree: *",
    "skill.read_update: Look for a change",
    "skill.read_draft: Read it",
    "skill.rm: Remove",
)
async def test_a_skill_is_read_agreed_to_looked_at_again_and_removed(desk: DashboardDesk, tmp_path: Path) -> None:
    main = tmp_path / "bake" / "SKILL.md"
    main.parent.mkdir()
    main.write_text("---\nname: bake\ndescription: How bread is baked.\n---\nKnead it.\n")
    await desk.open("/skills")
    await desk.press("Read skills", "skill.read", source=str(main.parent))
    await agree(desk, "bake")
    assert [each["name"] for each in desk.ask("skill.list")["skills"]] == ["bake"]

    main.write_text(main.read_text() + "Let it rise.\n")
    await desk.open("/skills")
    await desk.press("Look for a change", "skill.read_update", desk.row("bake"))
    await agree(desk, "bake")
    assert "Let it rise." in desk.ask("skill.show", name="bake")["text"]

    draft = Home(desk.daemon.home).group("home") / "skills" / "notes" / "SKILL.md"
    draft.parent.mkdir(parents=True)
    draft.write_text("---\ndescription: How notes are taken.\n---\nBriefly.\n")
    await desk.open("/skills")
    await desk.press("Read it", "skill.read_draft", desk.row("notes"))
    assert "notes" in [each["name"] for each in desk.ask("skill.list")["waiting"]]
    await desk.press("Remove", "skill.rm", desk.row("bake"))
    assert desk.ask("skill.list")["skills"] == []


async def agree(desk: DashboardDesk, name: str) -> None:
    """Agree to what was read last, for every agent."""
    (waiting,) = (each for each in desk.ask("skill.list")["waiting"] if each["name"] == name)
    await desk.open(f"/skill-cards/{waiting['digest']}")
    await desk.press("Agree for every agent", "skill.agree")
