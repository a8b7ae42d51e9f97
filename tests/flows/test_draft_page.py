"""An answer grows where people look: on the page in a real browser, and in a terminal. Then the gateway is killed."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, expect
from tests.browsers import needs_chromium, visit

from gatepost.core.home import Home
from gatepost_testing.clients.terminal import CTRL_D, PtyTerminal
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until

WRITTEN = "Unfinished **symp"
SAID = "Finished **symphony**, in *four* parts."
# What a person sees in each frame: how many messages of the agent there are, whether the last one still grows, and
# where it stands.
SAMPLE = """() => {
  window.frames_ = [];
  const look = () => {
    const all = [...document.querySelectorAll(".message:not(.mine)")];
    const last = all.at(-1);
    const typing = !document.getElementById("typing").hidden;
    if (last) window.frames_.push([all.length, last.classList.contains("draft"), last.offsetTop, typing]);
    requestAnimationFrame(look);
  };
  look();
}"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("drafts") / "home"
    script = ScriptBuilder()
    for word in ("page", "late", "terminal", "kill"):
        script.turn(f"play {word}").draft("Un").wait(0.05).draft(WRITTEN + word).wait_for(f"go-{word}").say(SAID)
    script.write(Home(home).group("home")).chmod(0o644)
    quick = {"sandbox_kind": "process", "sandbox_least_free_mb": "0", "sessions_retry_s": "0.05"}
    with DaemonProcess(home, sessions_provider="scripted", **quick) as running:
        yield running


@pytest.fixture
async def page(daemon: DaemonProcess, window: BrowserContext) -> AsyncIterator[Page]:
    async with visit(window) as page:
        await page.goto(daemon.address)
        await expect(page.locator(".live.on")).to_be_visible()
        yield page


def let_go(daemon: DaemonProcess, word: str) -> None:
    (Home(daemon.home).group("home") / f"go-{word}").touch()


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


@pytest.mark.slow
@needs_chromium
async def test_the_answer_grows_in_place_of_the_typing_sign_and_stays_where_it_grew(
    daemon: DaemonProcess, page: Page
) -> None:
    await page.evaluate(SAMPLE)
    await write(page, "play page")
    draft = page.locator(".message.draft")
    await expect(draft).to_contain_text(WRITTEN)
    await expect(page.locator("#typing")).to_be_hidden()
    assert await draft.get_attribute("aria-live") == "off"  # read aloud when it is whole
    await expect(draft.get_by_role("button", name="Reply")).to_have_count(0)
    grown_at = await draft.evaluate("each => each.offsetTop")
    let_go(daemon, "page")
    await expect(page.locator(".message:not(.mine) strong")).to_have_text("symphony")
    await expect(draft).to_have_count(0)

    frames: list[tuple[int, bool, int, bool]] = await page.evaluate("window.frames_")
    assert {count for count, *_ in frames} == {1}  # never none in between, never both
    assert {top for _, _, top, _ in frames} == {grown_at}
    assert not any(grows and typing for _, grows, _, typing in frames)


@pytest.mark.slow
@needs_chromium
async def test_who_loads_the_page_in_the_middle_sees_it_and_a_stop_takes_it_away(
    daemon: DaemonProcess, page: Page
) -> None:
    await write(page, "play late")
    await expect(page.locator(".message.draft")).to_contain_text(f"{WRITTEN}late")
    await page.reload()
    await expect(page.locator(".message.draft")).to_contain_text(f"{WRITTEN}late")
    await write(page, "/stop")
    await expect(page.locator(".message.draft")).to_have_count(0)


class TerminalEmulator:
    """What stands on the screen in the end: only what our commands and line editing draw with."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0

    def feed(self, raw: str) -> "TerminalEmulator":
        for found in re.finditer(r"\x1b\[([0-9;?]*)([A-Za-z])|(.|\n|\r)", raw):
            if found[3] is not None:
                self._put(found[3])
            elif found[2] == "A":
                self.row -= int(found[1] or 1)
                assert self.row >= 0
            elif found[2] in "JK":
                self.lines[self.row] = self.lines[self.row][: self.column]
                del self.lines[self.row + 1 if found[2] == "J" else len(self.lines) :]
        return self

    def _put(self, sign: str) -> None:
        if sign == "\r":
            self.column = 0
        elif sign == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif sign.isprintable():
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + sign + line[self.column + 1 :]
            self.column += 1


def test_in_a_terminal_the_answer_grows_above_the_line_that_is_typed(daemon: DaemonProcess) -> None:
    with PtyTerminal(daemon.env, "chat") as terminal:
        terminal.expect("ends the conversation")
        terminal.expect("> ")
        terminal.type("play terminal")
        terminal.expect(f"{WRITTEN}terminal")
        terminal.press("and")  # somebody types on meanwhile
        terminal.expect("and")
        during = TerminalEmulator().feed(terminal.raw).lines
        let_go(daemon, "terminal")
        terminal.expect(SAID)
        terminal.expect("> and")
        after = TerminalEmulator().feed(terminal.raw).lines
        for _ in range(3):
            terminal.press("\x7f")
        terminal.insist(CTRL_D)

    assert during[-3:] == ["> play terminal", f"{WRITTEN}terminal", "> and"]
    assert after[-3:] == ["> play terminal", SAID, "> and"]


def find_in_files(home: Path, text: str) -> list[str]:
    files = [path for path in home.rglob("*") if path.is_file() and path.name != "script.json"]
    return [str(path.relative_to(home)) for path in files if text.encode() in path.read_bytes()]


@pytest.mark.slow
@needs_chromium
async def test_a_gateway_that_is_killed_leaves_no_trace_of_a_draft_and_one_answer(
    daemon: DaemonProcess, page: Page
) -> None:
    await write(page, "play kill")
    await expect(page.locator(".message.draft")).to_contain_text(f"{WRITTEN}kill")
    daemon.kill()
    await expect(page.locator(".message.draft")).to_have_count(0)
    daemon.start()
    let_go(daemon, "kill")

    def read_outcome() -> list[Any]:
        return [row for row in daemon.json("ledger", "list", "--limit", "50") if row["text"] == "play kill"]

    block_until(lambda: daemon.json("ledger", "check")["in_flight"] == 0, "the end of what is in flight")
    (asked,) = read_outcome()
    said = [row for row in daemon.json("ledger", "list", "--limit", "50") if row["id"] > asked["id"]]
    assert [row["text"] for row in said if row["direction"] == "out"].count(SAID) == 1
    assert daemon.json("ledger", "check")["unaccounted"] == 0
    assert find_in_files(daemon.home, f"{WRITTEN}kill") == []
