"""Conversations, requests, groups, routes and the ledger on the dashboard of a real daemon, in a real browser."""

import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until

PICTURES = os.environ.get("GATEPOST_TEST_PICTURES", "")  # a folder: each page is kept there as it looks
HOSTILE = "<img src=x onerror=alert(1)>"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("life") / "home"
    running = DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("long").wait_for("go").say("done").turn("hello").say(f"hi {HOSTILE}")
    script = script.turn("announce").call("send", text="Release on Friday").say("asked")
    script = script.turn("which").call(
        "ask_user_question", questions=[{"question": "Tea?", "options": [{"label": "Yes"}, {"label": "No"}]}]
    )
    script = script.say("They said {result}").turn("break").error("it is broken")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        assert running.gatepost("grant", "add", "home", "hold send").returncode == 0
        assert "hi" in chat(running, "hello")
        yield running


def chat(daemon: DaemonProcess, text: str) -> str:
    done = daemon.gatepost("chat", "-m", text, "--wait")
    assert done.returncode == 0, done.stderr
    return done.stdout


def get_session(daemon: DaemonProcess) -> str:
    [session] = [each for each in daemon.json("session", "list") if each["address"].startswith("terminal:")]
    return str(session["id"])


def get_base(daemon: DaemonProcess) -> str:
    return daemon.address.partition("/#")[0]


def get_texts(daemon: DaemonProcess, direction: str) -> list[str]:
    return [each["text"] for each in daemon.json("ledger", "list") if each["direction"] == direction]


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window, height=800) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        yield page


async def keep(page: Page, name: str) -> None:
    if not PICTURES:
        return
    for scheme, width in (("light", 1180), ("dark", 1180), ("light", 390)):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        await page.set_viewport_size({"width": width, "height": 844})
        await page.screenshot(path=Path(PICTURES) / f"{name}-{scheme}-{width}.png")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 1180, "height": 800})


@pytest.mark.slow
@pytest.mark.page("sessions", "session.send: Send", "session.stop: Stop", "session.reset: Reset")
async def test_an_old_link_leads_to_the_conversation_which_is_live_takes_words_and_is_stopped(
    daemon: DaemonProcess, page: Page
) -> None:
    session = get_session(daemon)
    await page.goto(f"{get_base(daemon)}/session#id={session}")
    await page.wait_for_url(f"**/dashboard/sessions/{session}")
    await expect(page.get_by_text(f"hi {HOSTILE}", exact=True)).to_be_visible()

    await page.get_by_label("Message").fill("a long one")
    await page.keyboard.press("Enter")
    line = page.locator(".timeline-list")
    await expect(line.get_by_text("a long one", exact=True)).to_be_visible()
    await expect(page.get_by_label("Message")).to_have_value("")
    await page.get_by_label("Message").fill("half a thought")
    await expect(line.get_by_text(re.compile("begun"))).to_be_visible()
    await keep(page, "session")
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(line.get_by_text(re.compile("stopped by web:user/owner")).first).to_be_visible()
    await expect(page.get_by_label("Message")).to_have_value("half a thought")  # what is typed outlives a change
    await expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    await page.get_by_role("button", name="Reset").click()
    await expect(page.get_by_role("dialog")).to_contain_text("forget its conversation")
    await page.locator("#dialog button[type=submit]").click()
    await expect(page.locator("[data-done='session.reset']")).to_be_visible()
    daemon.read_audit("session.reset")


async def ask(daemon: DaemonProcess, page: Page, text: str, count: int = 1) -> None:
    """Say something that is answered by a request, and open its page."""
    daemon.gatepost("chat", "-m", text)
    block_until(lambda: len(daemon.json("permit", "ls")) == count, "a request")
    await page.goto(f"{get_base(daemon)}/dashboard/requests")
    await page.get_by_role("row").nth(1).get_by_role("link").first.click()


@pytest.mark.slow
@pytest.mark.page("requests", "permit.answer: Allow once with these arguments")
async def test_an_approval_with_changed_arguments_runs_the_held_call(daemon: DaemonProcess, page: Page) -> None:
    await ask(daemon, page, "announce it")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("wants to send")
    await keep(page, "request")
    await page.get_by_text("Change it, or show the exact call").click()
    arguments = page.get_by_label("Arguments")
    changed = (await arguments.input_value()).replace("Friday", "Saturday")
    await arguments.fill(changed)
    await page.get_by_role("button", name="Allow once with these arguments").click()
    await expect(page.get_by_text(re.compile("Allowed with changes by"))).to_be_visible()
    block_until(lambda: "Release on Saturday" in get_texts(daemon, "out"), "the held call ran as it was changed")
    assert "Release on Friday" not in get_texts(daemon, "out")


@pytest.mark.slow
@pytest.mark.page("requests", "permit.answer: *")
async def test_a_question_is_answered_by_a_button(daemon: DaemonProcess, page: Page) -> None:
    await ask(daemon, page, "which one")
    await page.get_by_role("button", name="Yes", exact=True).click()
    await expect(page.locator("[data-done='permit.answer']")).to_be_visible()
    block_until(lambda: any("Yes" in text for text in get_texts(daemon, "out")), "the agent has the answer")


@pytest.mark.slow
@pytest.mark.page("groups", "group.write_file: Save")
async def test_a_file_is_saved_by_a_key_and_what_the_agent_changed_meanwhile_is_kept(
    daemon: DaemonProcess, page: Page
) -> None:
    file = Home(daemon.home).group("home") / "AGENTS.md"
    await page.goto(f"{get_base(daemon)}/dashboard/groups/home")
    await keep(page, "group")
    await page.get_by_role("link", name="Knows").click()
    await page.get_by_role("link", name="AGENTS.md").click()
    text = page.get_by_label("Text")
    for number in (1, 2):  # the second save is of the version that the first has made
        await text.fill(f"# Version {number}")
        await page.keyboard.press("Control+s")
        await expect(page.locator("[data-done='group.write_file']")).to_be_visible()
        block_until(lambda number=number: file.read_text() == f"# Version {number}", "it is saved")  # type: ignore[misc]
        await page.evaluate("document.querySelector('#toast').replaceChildren()")
    file.write_text("the agent's own words")
    await text.fill("# Version 3")
    await page.keyboard.press("Control+s")
    await expect(page.get_by_role("alert")).to_contain_text("was changed meanwhile")
    await expect(text).to_have_value("# Version 3")
    assert file.read_text() == "the agent's own words"
    await keep(page, "editor")


def list_order(daemon: DaemonProcess) -> list[str]:
    return [each["match"] for each in daemon.json("route", "list")][:3]


@pytest.mark.slow
@pytest.mark.page("routes", "route.move: Up", "route.move: drag")
async def test_routes_are_moved_by_keyboard_and_by_dragging_and_a_message_is_tested(
    daemon: DaemonProcess, page: Page
) -> None:
    for number in (1, 2, 3):
        assert daemon.gatepost("route", "add", "--match", f"text=x{number}", "--target", "drop").returncode == 0
    await page.goto(f"{get_base(daemon)}/dashboard/routes")
    await page.get_by_role("row", name=re.compile("text=x3")).get_by_role("button", name="Up").press("Enter")
    block_until(lambda: list_order(daemon) == ["text=x1", "text=x3", "text=x2"], "it is moved up")
    row = page.get_by_role("row", name=re.compile("text=x2"))
    await expect(page.get_by_role("row").nth(3)).to_contain_text("text=x2")
    await row.drag_to(page.get_by_role("row", name=re.compile("text=x1")), target_position={"x": 60, "y": 10})
    block_until(lambda: list_order(daemon) == ["text=x2", "text=x1", "text=x3"], "it is dragged to the top")
    await page.get_by_label("Room").fill("telegram:group/1")
    await page.get_by_label("What they say").fill("x1")
    await page.get_by_role("button", name="Test").click()
    await expect(page.get_by_text(re.compile("It goes to nobody"))).to_be_visible()
    await expect(page.get_by_label("What they say")).to_have_value("x1")
    await keep(page, "routes")


@pytest.mark.slow
@pytest.mark.page("ledger", "ledger.retry: Give again")
async def test_what_failed_is_given_again_after_a_question_and_its_time_is_drawn(
    daemon: DaemonProcess, page: Page
) -> None:
    daemon.gatepost("chat", "-m", "break it")

    def list_failed() -> list[Any]:
        return list(daemon.json("ledger", "list", "--state", "failed"))

    block_until(lambda: len(list_failed()) == 1, "it failed")
    number = list_failed()[0]["id"]
    await page.goto(f"{get_base(daemon)}/dashboard/ledger?state=failed")
    await keep(page, "ledger")
    await page.get_by_role("button", name="Give again").click()
    await expect(page.get_by_role("dialog")).to_contain_text("may repeat its actions")
    await page.locator("#dialog button[type=submit]").dblclick()
    await expect(page.locator("#toast").get_by_text("The message is tried again.")).to_be_visible()
    daemon.read_audit("ledger.retry")
    await page.goto(f"{get_base(daemon)}/dashboard/ledger/{number}")
    await expect(page.locator(".span-list").get_by_text("Waits for its agent").first).to_be_visible()
    await keep(page, "message")
    block_until(lambda: len(list_failed()) == 1, "it failed again")
    steps = [each["detail"] for each in daemon.json("trace", str(number))["moments"]]
    assert steps.count("given again") == 1
