"""What people come to the page for, by the page alone, with every click and every typed character counted.

Each task begins on the overview. Connecting an agent has a test of its own (test_dashboard_first_run), and so has a
decision by phone (test_card_page). An update cannot be made by the page.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from tests.browsers import needs_chromium

from gatepost_testing.daemon import DaemonProcess

from .dashboard_desk import DashboardDesk, refuse_host

MOST_CLICKS = 5
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}

pytestmark = [pytest.mark.slow, needs_chromium]


class Hand:
    """Somebody's hand: it clicks what they see by its name, and types."""

    def __init__(self, desk: DashboardDesk, *, phone: bool) -> None:
        self.desk, self.page, self.phone = desk, desk.page, phone
        self.clicks = self.typed = 0

    async def click(self, place: Locator) -> None:
        self.clicks += 1
        await place.first.click()

    async def go(self, *entries: str) -> None:
        """By the menu, which a phone has behind a button, and then by tabs and links of the page."""
        first, *others = entries
        await self.open_menu()
        await self.click(self.page.locator("#pages").get_by_role("link", name=first))
        for each in others:
            await self.click(self.page.locator("#main").get_by_role("link", name=each, exact=True))

    async def open_menu(self) -> None:
        if self.phone:
            await self.click(self.page.get_by_role("button", name="Pages", exact=True))

    async def press(self, name: str, within: Locator | None = None) -> None:
        await self.click((within or self.page.locator("#main")).get_by_role("button", name=name, exact=True))

    async def type(self, label: str, words: str, within: Locator | None = None) -> None:
        """Into an input, which a click or the tabulator has reached."""
        self.typed += len(words)
        named = re.compile(rf"^{label}(\s*\(needed\))?$")
        await (within or self.page.locator("#main")).get_by_label(named).first.fill(words)

    @property
    def dialog(self) -> Locator:
        return self.page.locator("#dialog")

    async def send(self) -> None:
        self.clicks += 1
        await self.dialog.locator("button[type=submit]").click()
        await expect(self.page.locator("#dialog [data-done], #toast [data-done]")).to_be_visible()


async def set_another_model(hand: Hand) -> None:
    await hand.go("Agents", "Home")
    await hand.press("Change")
    await hand.type("Model", "small", hand.dialog)
    await hand.send()
    assert hand.desk.ask("group.show", folder="home")["model"] == "small"


async def write_instructions(hand: Hand) -> None:
    await hand.go("Agents", "Home")
    await hand.type("Text", "# Home\n\nBe brief.\n")
    await hand.press("Save")
    await expect(hand.page.locator("#toast [data-done]")).to_be_visible()
    assert (hand.desk.daemon.home / "groups" / "home" / "AGENTS.md").read_text() == "# Home\n\nBe brief.\n"


async def put_earlier_instructions_back(hand: Hand) -> None:
    for text in ("Be kind.\n", "Be brief.\n"):
        read = hand.desk.ask("group.read_file", folder="home", path="AGENTS.md")
        hand.desk.ask("group.write_file", folder="home", path="AGENTS.md", content=text, version=read["version"])
    await hand.go("Agents", "Home")
    await hand.click(hand.page.locator("#main summary", has_text="Earlier versions"))
    await hand.click(hand.page.locator("#main").get_by_role("link", name="See what is different"))
    await hand.press("Put this back")
    await expect(hand.page.get_by_text("The agent goes by this version now.")).to_be_visible()
    assert "Be brief." not in (hand.desk.daemon.home / "groups" / "home" / "AGENTS.md").read_text()


async def give_a_file(hand: Hand) -> None:
    await hand.go("Agents", "Home", "Knows")
    await hand.press("Give it a file")
    given = hand.desk.daemon.home.parent / ("phone.txt" if hand.phone else "plan.txt")
    given.write_text("the plan")
    await hand.dialog.locator("input[type=file]").set_input_files(given)
    await hand.send()
    assert given.name in str(hand.desk.ask("group.files", folder="home"))


async def have_it_remember(hand: Hand) -> None:
    await hand.go("Agents", "Home", "Knows")
    await hand.press("Remember something")
    await hand.type("Text", "Ann is vegetarian", hand.dialog)
    await hand.send()
    assert "vegetarian" in str(hand.desk.ask("memory.list"))


async def correct_what_it_remembers(hand: Hand) -> None:
    words = "The bins go on Tuesday" if hand.phone else "The shop closes at six"
    hand.desk.ask("memory.add", folder="home", text=words)
    await hand.go("Agents", "Home", "Knows")
    await hand.press("Edit", hand.page.locator("#main tr", has_text=words))
    await hand.type("Text", f"{words}, as always", hand.dialog)
    await hand.send()
    assert f"{words}, as always" in str(hand.desk.ask("memory.list", folder="home"))


async def have_it_ask_before_it_sends_files(hand: Hand) -> None:
    await hand.go("Agents", "Home", "May")
    row = hand.page.locator(".choice-list li", has_text="Publishes" if hand.phone else "Sends files out")
    await hand.press("Ask me", row)
    await expect(row.get_by_role("button", name="Ask me")).to_have_attribute("aria-pressed", "true")


async def allow_a_host(hand: Hand) -> None:
    host = "phone.example.com" if hand.phone else "example.com"
    await hand.go("Agents", "Home", "May")
    await hand.type("Another host", host)
    await hand.press("Let it reach this")
    await expect(hand.page.locator("#toast [data-done]")).to_be_visible()
    assert host in [each["host"] for each in hand.desk.ask("egress.list", folder="home")]


async def allow_a_host_that_it_was_refused(hand: Hand) -> None:
    host = "files.example.org" if hand.phone else "files.example.net"
    refuse_host(hand.desk.daemon, f"{host}:443")
    await hand.go("Agents", "Home", "May")
    await hand.press("Let it reach this", hand.page.locator("#main tr", has_text=host))
    await expect(hand.page.locator("#toast [data-done]")).to_be_visible()
    assert host in [each["host"] for each in hand.desk.ask("egress.list", folder="home")]


async def invite_somebody(hand: Hand) -> None:
    await hand.go("People", "Invite")
    await hand.type("For whom", "Ann")
    await hand.press("Make the link")
    await expect(hand.page.locator("#toast .shown-once pre")).to_be_visible()


async def be_reminded_daily(hand: Hand) -> None:
    await hand.go("Agents", "Home", "When")
    await hand.press("New task")
    await hand.type("What it should say", "Drink water!", hand.dialog)
    await hand.type("When", "every day at 8", hand.dialog)
    await hand.send()
    [task] = [each for each in hand.desk.ask("task.list") if each["text"] == "Drink water!"][:1]
    assert (task["schedule"], task["address"]) == ("0 8 * * *", "web:home")


async def limit_what_is_spent(hand: Hand) -> None:
    await hand.go("Agents", "Home", "Costs")
    await hand.press("Set a limit")
    await hand.type("For a day", "5", hand.dialog)
    await hand.send()
    assert hand.desk.ask("budget.show")[0]["daily"]["limit_usd"] == 5.0


async def see_what_a_week_cost(hand: Hand) -> None:
    await hand.go("Costs")
    await expect(hand.page.get_by_text("By day")).to_be_visible()


async def put_it_to_rest_and_wake_it(hand: Hand) -> None:
    await hand.go("Agents", "Home")
    await hand.press("Put to rest")
    await hand.click(hand.dialog.locator("button[type=submit]"))
    await hand.page.keyboard.press("Escape")
    await hand.press("Wake it")


async def stop_everything_and_go_on(hand: Hand) -> None:
    await hand.open_menu()
    await hand.press("Stop everything", hand.page.locator("body"))
    await hand.send()
    await hand.page.keyboard.press("Escape")
    await hand.press("Go on", hand.page.locator("body"))
    await expect(hand.page.get_by_role("button", name="Stop everything")).to_be_attached()


async def find_what_is_not_well(hand: Hand) -> None:
    await hand.go("System")
    await expect(hand.page.get_by_text("things are well").first).to_be_visible()


async def back_up(hand: Hand) -> None:
    await hand.go("System", "Backups")
    await hand.press("Back up now")
    await expect(hand.page.locator("#main tbody tr")).to_have_count(1)


TASKS: tuple[Callable[[Hand], Awaitable[None]], ...] = (
    set_another_model,
    write_instructions,
    put_earlier_instructions_back,
    give_a_file,
    have_it_remember,
    correct_what_it_remembers,
    have_it_ask_before_it_sends_files,
    allow_a_host,
    allow_a_host_that_it_was_refused,
    invite_somebody,
    be_reminded_daily,
    limit_what_is_spent,
    see_what_a_week_cost,
    put_it_to_rest_and_wake_it,
    stop_everything_and_go_on,
    find_what_is_not_well,
    back_up,
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    home: Path = tmp_path_factory.mktemp("twenty") / "home"
    with DaemonProcess(home, sandbox_kind="process", sessions_provider="scripted") as running:
        assert running.gatepost("chat", "-m", "hello", "--wait").returncode == 0
        yield running


@pytest.fixture(params=["desktop", "phone"])
async def hand(daemon: DaemonProcess, browser: Browser, request: pytest.FixtureRequest) -> AsyncIterator[Hand]:
    phone = request.param == "phone"
    window = await browser.new_context(viewport=PHONE if phone else DESKTOP)  # type: ignore[arg-type]
    window.set_default_timeout(15_000)
    page: Page = await window.new_page()
    await page.goto(daemon.address)
    await page.wait_for_selector("#text")
    desk = DashboardDesk(daemon, page)
    await desk.open("/")
    yield Hand(desk, phone=phone)
    await window.close()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
async def test_a_task_takes_few_clicks(hand: Hand, task: Callable[[Hand], Awaitable[None]]) -> None:
    await task(hand)
    print(f"{task.__name__}: {hand.clicks} clicks, {hand.typed} characters")  # noqa: T201  for the table in the docs
    assert hand.clicks <= MOST_CLICKS + hand.phone
