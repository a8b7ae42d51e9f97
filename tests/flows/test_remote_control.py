"""Commands typed in the terminal of a real daemon, and the conversation's page that /remote-control leads to, in a real
browser."""

import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from gatepost.core.home import Home
from gatepost.flow.intake.commands.conversation import BEGUN
from gatepost.testing.daemon import DaemonProcess
from gatepost.testing.provider import ScriptBuilder
from gatepost.testing.waiting import PATIENCE_S

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    running = DaemonProcess(tmp_path / "home", sandbox_kind="process", sessions_provider="scripted")
    script = ScriptBuilder().turn("long").wait_for("go").say("done").turn("hello").say("hi <b>there</b>")
    with running:
        script.write(Home(running.home).group("home")).chmod(0o644)
        yield running


def chat(daemon: DaemonProcess, text: str) -> str:
    done = daemon.gatepost("chat", "-m", text, "--wait")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_commands_are_answered_in_the_terminal(daemon: DaemonProcess) -> None:
    assert chat(daemon, "hello") == "hi <b>there</b>\n"
    assert "Provider: scripted\nModel: the agent's own choice\nNow: nothing\n" in chat(daemon, "/status")
    assert chat(daemon, "/pin Speak French").startswith("Pinned.")
    assert "Speak French" in chat(daemon, "/pin")
    assert chat(daemon, "\\ping") == "pong: this chat goes to Home\n"
    assert "There is no budget" in chat(daemon, "/usage")
    assert set(chat(daemon, "/new hello").splitlines()) == {"hi <b>there</b>", BEGUN}
    assert daemon.json("ledger", "check")["unaccounted"] == 0


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = await browser.new_context(viewport={"width": 1180, "height": 760}, locale="en-GB")
        context.set_default_timeout(PATIENCE_S * 1000)
        yield await context.new_page()
        await browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the page is not looked at")
async def test_the_page_shows_the_conversation_takes_words_and_stops_it(daemon: DaemonProcess, page: Page) -> None:
    chat(daemon, "hello")
    found = re.search(r"(http://\S+/session)#(id=s-\w+)", chat(daemon, "/remote-control"))
    assert found is not None
    token = daemon.gatepost("login").stdout.partition("#token=")[2].split()[0]

    await page.goto(f"{found[1]}#token={token}&{found[2]}")  # as the link in a chat has it
    await expect(page.get_by_text("hi <b>there</b>", exact=True)).to_be_visible()
    assert "token" not in page.url and page.url.endswith(found[2])

    await page.get_by_label("Message", exact=True).fill("a long one")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("a long one", exact=True)).to_be_visible()
    await expect(page.get_by_text("turn: begun", exact=True)).to_be_visible()
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_text(re.compile("turn: failed: stopped by web:user/owner"))).to_be_visible()
    assert "Now: nothing" in chat(daemon, "/status")
