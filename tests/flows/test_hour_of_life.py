"""An hour of four people with one agent: Ann on Telegram and by mail, Bob on Slack, Carla, the owner, on the page, and
Dave, who has no rights. Each surface is written down as its people see it, and read for what they would find odd."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from playwright.async_api import Locator, Page, expect
from tests.browsers import PICTURES, add_context, needs_chromium, start_browser

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, ShownMessage
from gatepost_testing.platforms.slack import SlackPlatform
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.servers.mail_server import MailServer
from gatepost_testing.waiting import block_until

from .channel_desk import SETTINGS, find_port

NUMBERS = GivenFile("sales.csv", b"month,sold\njan,3\nfeb,5\n", "text/csv")
OLD_NUMBERS = GivenFile("last-year.csv", b"month,sold\njan,1\n", "text/csv")
NOTE = GivenFile("voice.ogg", b"OggS please water the plants", "audio/ogg")
BILL = GivenFile("bill.pdf", b"%PDF-1.4 the bill", "application/pdf")
PLAN = GivenFile("plan.txt", b"the plan of the day", "text/plain")

# Moves the daemon's clock on, by so many seconds as stand in a file.
CLOCK = """
from pathlib import Path
from gatepost.core.clock import SystemClock

_now, _monotonic, _ahead = SystemClock.now, SystemClock.monotonic, Path({ahead!r})


def ahead():
    return int(float(_ahead.read_text() or 0) * 1_000_000)


SystemClock.now = lambda self: _now(self) + ahead()
SystemClock.monotonic = lambda self: _monotonic(self) + ahead()
"""


def make_script() -> ScriptBuilder:
    made = ScriptBuilder()
    made.turn("good morning").say("Good morning, {sender}.")
    made.turn("here are the numbers").say("Thank you, I have sales.csv.")
    made.turn("now plot it").status("drawing the plot").wait(0.2).write_file("plot.svg", "<svg/>").call(
        "send_file", filepath="plot.svg", caption="Sales by month"
    ).say("February sold best.")
    made.turn("compare with this").say("Last year January sold one, this year three.")
    made.turn("what do you make of it").say("Erik seems to be in a hurry.")
    made.turn("listen to this").say("I will, as you say: {heard}.")
    made.turn("^$")
    made.turn("write the long report").draft("The report begins").wait_for("never").say("never said")
    made.turn("count slowly").say("One.").wait_for("go on").say("Two.").say("Three.")
    made.turn("Budget for March").say("March has 500 left, {sender}.")
    made.turn("here is the bill").write_file("paid.txt", "paid").call(
        "send_file", filepath="paid.txt", caption="The receipt"
    ).say("Booked.")
    made.turn("who is on call").say("You are on call, {sender}.")
    made.turn("and tomorrow").say("Tomorrow it is Ann.")
    made.turn("like this").call("like", targetId="{seq}", reaction="👍").say("Noted.")
    made.turn("tell everybody").call("send", text="The office closes at five.").say("I have asked for leave to say so.")
    made.turn("tell a secret").call("send", text="The safe is open.").say("I have asked for leave to say so.")
    made.turn("remind us").call("schedule_task", text="Stand-up in five minutes.", cron="in 20 minutes").say(
        "I will remind you."
    )
    made.turn("brief us").call("schedule_task", prompt="the morning brief", cron="in 25 minutes").say(
        "The brief comes later."
    )
    made.turn("the morning brief").say("The brief: nothing is on fire.")
    made.turn("which drink").call(
        "ask_user_question",
        questions=[{"question": "Which drink?", "header": "Drink", "options": [{"label": "Tea"}, {"label": "Coffee"}]}],
    ).say("So be it.")
    made.turn("tell me a story").draft("Once").wait(0.4).draft("Once upon a time").wait_for("told").say(
        "Once upon a time there was a gate."
    )
    made.turn("sing the song").draft("The song begins").wait_for("go on").say("The song begins and ends.")
    made.turn("keep this").say("I keep plan.txt.")
    made.turn("spend").call("log_external_cost", provider="openai", model="gpt-5", cost_usd=0.85).say("Spent.")
    made.turn(kind="system").say("")
    return made.otherwise().say("You said: {text}")


class Change(Struct, frozen=True):
    """Something that people saw happen on a surface."""

    at: float
    room: str
    what: str


class Surface(threading.Thread):
    """Writes down what happens on a platform, as it happens."""

    def __init__(self, platform: EmulatedPlatform, get_now: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self.platform, self.changes, self._get_now = platform, list[Change](), get_now
        self._seen: dict[str, dict[str, Any]] = {}
        self._ended = False

    def run(self) -> None:
        with self.platform.changed:
            while not self._ended:
                self._look()
                self.platform.changed.wait(0.2)
            self._look()

    def end(self) -> None:
        self._ended = True
        self.platform.notify()
        self.join()

    def _look(self) -> None:
        for each in self.platform.record:
            now = {"text": each.text, "buttons": list(each.buttons), "reactions": list(each.reactions)}
            now |= {"deleted": each.deleted, "pinned": each.pinned}
            before = self._seen.get(each.id)
            if now != before:
                self._seen[each.id] = now
                self.changes.append(Change(self._get_now(), each.room, render(each, before, now)))


def render(each: ShownMessage, before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    who = {"bot": "BOT"}.get(each.sender, each.sender)
    if before is None:
        place = f" [thread {each.thread}]" if each.thread else ""
        place += f" [reply to {each.reply_to}]" if each.reply_to else ""
        subject = f" [subject {each.raw['Subject']}]" if hasattr(each.raw, "get_content_type") else ""
        files = "".join(f" [file {file.name}, {len(file.data)} bytes]" for file in each.files)
        return f"{who} #{each.id}{place}{subject}{files}: {each.text}{render_buttons(each.buttons)}"
    if now["deleted"]:
        return f"{who} #{each.id} DELETED"
    told = []
    if now["text"] != before["text"] or now["buttons"] != before["buttons"]:
        told.append(f"EDITED to: {each.text}{render_buttons(each.buttons)}")
    if now["reactions"] != before["reactions"]:
        told.append(f"REACTIONS {now['reactions']}")
    if now["pinned"] != before["pinned"]:
        told.append("PINNED" if now["pinned"] else "UNPINNED")
    return f"{who} #{each.id} {' '.join(told)}"


def render_buttons(buttons: list[str]) -> str:
    return "".join(f" ({label})" for label in buttons)


class Life:
    """The gateway, its surfaces, and the clock that they share."""

    def __init__(self, folder: Path, page: Page) -> None:
        self.folder, self.page = folder, page
        self._ahead = folder / "ahead"
        self._ahead.write_text("0")
        self.telegram, self.slack, self.mail = TelegramPlatform(), SlackPlatform(), MailServer()
        self.telegram.get_time = lambda: int(self.get_now())  # type: ignore[method-assign]
        self.platforms: list[EmulatedPlatform] = [self.telegram, self.slack, self.mail]
        self.surfaces = {each.kind: Surface(each, self.get_now) for each in self.platforms}
        settings = {
            **SETTINGS,
            "sandbox_kind": "process",
            "listen": f"127.0.0.1:{find_port()}",
            "media_transcribe_command": "tail -c +6 {file}",
        }
        self.daemon = DaemonProcess(folder / "home", **settings)
        self.page_lines: list[str] = []

    def get_now(self) -> float:
        return time.time() + float(self._ahead.read_text() or 0)

    def pass_minutes(self, minutes: float) -> None:
        """Time passes for the gateway and for the platforms."""
        ahead = float(self._ahead.read_text()) + minutes * 60
        new = self._ahead.with_suffix(".new")
        new.write_text(str(ahead))
        new.rename(self._ahead)
        self.slack._last_ts = int(self.get_now() * 1_000_000)

    async def run(self, *args: str) -> str:
        done = await asyncio.to_thread(self.daemon.gatepost, *args)
        assert done.returncode == 0, f"gatepost {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    async def see(self, platform: EmulatedPlatform, text: str, room: str, *, times: int = 1) -> ShownMessage:
        found: list[ShownMessage] = []

        def holds() -> bool:
            found[:] = [each for each in platform.list_shown(room) if text in each.text]
            return len(found) >= times

        if not await asyncio.to_thread(platform.wait_for, holds, 15):
            raise AssertionError(f"{text!r} is not in {platform.texts(room)}; {self.daemon.stderr()[-1500:]}")
        return found[-1]

    async def see_card(self, platform: EmulatedPlatform, text: str) -> ShownMessage:
        found: list[ShownMessage] = []

        def holds() -> bool:
            found[:] = [each for each in platform.list_shown() if text in each.text and each.buttons]
            return bool(found)

        if not await asyncio.to_thread(platform.wait_for, holds, 15):
            raise AssertionError(f"no card {text!r} in {platform.texts()}; {self.daemon.stderr()[-1500:]}")
        return found[-1]

    async def settle(self) -> None:
        await self._wait(lambda: not self.daemon.json("ledger", "check")["in_flight"])

    async def wait_for_row(self, text: str, state: str = "") -> None:
        """Wait until the ledger has what somebody wrote, of which nobody on the platform sees anything."""
        await self._wait(
            lambda: any(
                text in each["text"] and state in ("", each["state"]) for each in self.daemon.json("ledger", "list")
            )
        )

    async def _wait(self, holds: Callable[[], bool]) -> None:
        await asyncio.to_thread(block_until, holds, "the gateway to have come so far")

    def touch(self, name: str) -> None:
        (self.daemon.home / "groups" / "home" / name).touch()

    def write_settings(self) -> None:
        home = self.daemon.home
        (home / "plugins" / "tools").mkdir(parents=True)
        (home / "plugins" / "tools" / "moved_clock.py").write_text(CLOCK.format(ahead=str(self._ahead)))
        lines = []
        for each in self.platforms:
            values = {"kind": each.kind, **each.get_settings()}
            if each.kind == "slack":
                values["drafts"] = True
            lines += [f"[channels.{each.kind}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
        (home / "gatepost.toml").write_text("\n".join(lines) + "\n")

    async def start(self) -> None:
        await asyncio.to_thread(self.daemon.start)
        make_script().write(self.daemon.home / "groups" / "home").chmod(0o644)
        await self._wait(lambda: {each["state"] for each in self.daemon.json("channel", "list")} <= {"up", "off"})


@asynccontextmanager
async def living(folder: Path) -> AsyncIterator[Life]:
    async with start_browser() as browser:
        page = await (await add_context(browser)).new_page()
        life = Life(folder, page)
        with ExitStack() as stack:
            for each in life.platforms:
                stack.enter_context(each)
                life.surfaces[each.kind].start()
                stack.callback(life.surfaces[each.kind].end)
            life.write_settings()
            for each in life.platforms:
                for name, value in each.get_secrets().items():
                    await life.run("secret", "set", f"CHANNEL_{each.kind}_{name}".upper(), value)
            await life.start()
            try:
                yield life
            finally:
                await asyncio.to_thread(life.daemon.stop)


@pytest.mark.slow
@needs_chromium
async def test_an_hour_of_life_reads_well_on_every_surface(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        try:
            await live_on_telegram(life)
            await live_by_mail(life)
            await live_on_slack(life)
            await live_on_the_page(life)
            await live_through_a_restart(life)
        finally:
            await write_transcripts(life)
        check = json.loads(await life.run("ledger", "check", "--json"))
        assert (check["unaccounted"], check["in_flight"]) == (0, 0)
        assert life.telegram.texts("direct:ann") == ANN_READ
        assert list_mails(life.mail) == ANN_GOT
        assert [MOMENT.sub("…", each) for each in list_words(life.slack, "team")] == TEAM_READ
        assert [line.splitlines()[-1] for line in life.slack.texts("direct:bob")] == BOB_DECIDED
        for silent in ((life.telegram, "direct:dave"), (life.mail, "direct:bob")):
            assert silent[0].texts(silent[1]) == []
        shown = await life.page.locator("#message-list").inner_text()
        assert list_order(shown, PAGE_READ) == PAGE_READ
        assert re.findall("(?i).*stop.*", shown) == ["Stopped."]
        await expect(said(life.page, "The office closes at five.")).to_have_count(1)
        assert find_internals(life, shown) == []


async def live_on_telegram(life: Life) -> None:
    """Ann comes as a stranger, is invited, and does what people do with messages and files."""
    telegram, room = life.telegram, "direct:ann"
    telegram.send("/start", room=room)
    telegram.send("hello, anybody there?", room=room)
    await life.wait_for_row("hello, anybody there?")
    invited = json.loads(await life.run("invite", "add", "home", "--json"))
    life.pass_minutes(2)
    telegram.send(f"/start {invited['secret']}", room=room)
    await life.see(telegram, "Welcome", room)
    first = telegram.send("good morning", room=room)
    await life.see(telegram, "Good morning,", room)
    life.pass_minutes(1)
    telegram.send("here are the numbers", room=room, files=[NUMBERS])
    await life.see(telegram, "I have sales.csv", room)
    telegram.send("now plot it", room=room)
    plot = await life.see(telegram, "February", room)
    life.pass_minutes(1)
    telegram.edit(room, first, "good morning, dear agent", sender="ann")
    await life.see(telegram, "Good morning,", room, times=2)
    telegram.send("compare with this", room=room, files=[OLD_NUMBERS], reply_to=plot.id)
    await life.see(telegram, "Last year", room)
    forward(telegram, "Ship it today!", "Erik Maier")
    await life.see(telegram, "You said: Ship it today!", room)
    telegram.send("what do you make of it?", room=room)
    await life.see(telegram, "in a hurry", room)
    telegram.send("listen to this", room=room, files=[NOTE])
    await life.see(telegram, "please water the plants", room)
    life.pass_minutes(2)
    telegram.send("which drink shall I order?", room=room)
    asked = await life.see(telegram, "Which drink?", room)
    telegram.click(room, asked.id, "Coffee")
    await life.see(telegram, "So be it", room)
    telegram.send("write the long report", room=room)
    await life.wait_for_row("write the long report", "working")
    telegram.send("/stop", room=room)
    await life.see(telegram, "Stopped", room)
    telegram.send("/usage", room=room)
    await life.see(telegram, "There is no budget", room)
    for text in ("let me in", "/stop"):
        telegram.send(text, room="direct:dave", sender="dave")
    await life.wait_for_row("let me in")
    await life.settle()


def forward(telegram: TelegramPlatform, text: str, author: str) -> None:
    """Ann forwards somebody's words."""
    origin = {"type": "hidden_user", "sender_user_name": author, "date": telegram.get_time()}
    with telegram.changed:
        content = {"text": text, "forward_origin": origin}
        made = telegram.add_message(telegram.find_chat("direct:ann"), telegram.find_person("ann"), content)
        telegram.deliver("message", made)


async def live_by_mail(life: Life) -> None:
    """Ann goes on by mail, as the same person."""
    mail, room = life.mail, "direct:ann"
    life.pass_minutes(5)
    mail.send("Hello, it is me, Ann.", subject="Hello")
    code = json.loads(await life.run("pair", life.telegram.get_sender("ann"), "--json"))["code"]
    mail.send(code, subject="My code")
    await life.see(mail, "Paired", room)
    mail.send("How much is left?", subject="Budget for March")
    answer = await life.see(mail, "March has 500", room)
    life.pass_minutes(2)
    words = "here is the bill\n\n> March has 500 left"
    mail.send(words, reply_to=answer.id, subject="Re: Budget for March", files=[BILL])
    await life.see(mail, "Booked", room)
    mail.send("which drink then?", subject="Drinks")
    asked = await life.see(mail, "Which drink?", room)
    mail.send("1", reply_to=asked.id, subject="Re: Drinks")
    await life.see(mail, "So be it", room)
    mail.send("let me in, too", sender="bob", room="direct:bob", subject="Hello from Bob")
    await life.wait_for_row("let me in, too")
    await life.settle()


async def live_on_slack(life: Life) -> None:
    """Bob, an admin of the agent, works with it in a channel; Dave tries to."""
    slack, room = life.slack, "team"
    life.pass_minutes(5)
    await life.run("user", "add", slack.get_sender("bob"), "--name", "Bob")
    await life.run("user", "role", slack.get_sender("bob"), "admin", "--folder", "home")
    await life.run("grant", "add", "home", "hold send")
    asked = slack.send("who is on call?", room=room, sender="bob", mention=True)
    await life.see(slack, "You are on call", room)
    slack.send("and tomorrow?", room=room, sender="bob", thread=asked)
    await life.see(slack, "Tomorrow it is Ann", room)
    slack.edit(room, asked, "who is on call today?", sender="bob")
    await life.see(slack, "You are on call", room, times=2)
    liked = slack.send("like this", room=room, sender="bob")
    await life.see(slack, "Noted", room)
    slack.react(room, liked, "🎉", sender="bob")
    life.pass_minutes(3)
    for ask, held, choice in (
        ("tell everybody about the office", "The office closes", "Allow once"),
        ("tell a secret", "The safe is open", "Deny"),
        ("remind us of the stand-up", "Stand-up in five", "Allow once"),
    ):
        slack.send(ask, room=room, sender="bob")
        card = await life.see_card(slack, held)
        slack.click(card.room, card.id, choice, sender="bob")
        await life.settle()
    slack.send("brief us later", room=room, sender="bob")
    await life.see(slack, "The brief comes later", room)
    slack.send("which drink for the team?", room=room, sender="bob")
    card = await life.see_card(slack, "Which drink?")
    slack.click(card.room, card.id, "Tea", sender="dave")
    await life.see(slack, "Only people who may", room)
    slack.click(card.room, card.id, "Coffee", sender="bob")
    await life.see(slack, "So be it", room)
    slack.send("write the long report", room=room, sender="bob")
    await life.see(slack, "The report begins", room)
    slack.send("/stop", room=room, sender="dave", mention=True)
    slack.send("let me in there", room=room, sender="dave", mention=True)
    await life.wait_for_row("let me in there")
    slack.send("/stop", room=room, sender="bob", mention=True)
    await life.see(slack, "Stopped.", room)
    await life.settle()


async def write(page: Page, text: str) -> None:
    await page.get_by_label("Message", exact=True).fill(text)
    await page.keyboard.press("Enter")


def said(page: Page, text: str) -> Locator:
    return page.locator(".message:not(.mine) > .body", has_text=text)


async def live_on_the_page(life: Life) -> None:
    """Carla owns the gateway, and has the agent do the same."""
    page = life.page
    life.pass_minutes(5)
    await life.run("user", "rename", "terminal:owner", "Carla")
    await page.goto(await life.run("login"))
    await expect(page.locator(".live.on")).to_be_visible()
    await write(page, "good morning")
    await expect(said(page, "Good morning,")).to_be_visible()
    await write(page, "tell me a story")
    await expect(page.get_by_text("Once upon a time")).to_be_visible()
    life.touch("told")
    await expect(said(page, "there was a gate")).to_be_visible()
    await page.locator("#picker").set_input_files({"name": PLAN.name, "mimeType": PLAN.mime, "buffer": PLAN.data})
    await write(page, "keep this")
    await expect(said(page, "I keep plan.txt")).to_be_visible()
    await page.locator("#picker").set_input_files({"name": NOTE.name, "mimeType": NOTE.mime, "buffer": NOTE.data})
    await write(page, "listen to this")
    await expect(said(page, "as you say: please water the plants.")).to_be_visible()
    await expect(page.locator(".message.mine audio")).to_have_attribute("aria-label", NOTE.name)
    await write(page, "tell everybody about the office")
    card = page.get_by_role("region", name=re.compile("wants to"))
    await card.get_by_role("button", name="Allow once").click()
    await expect(said(page, "The office closes")).to_be_visible()
    await write(page, "which drink for me?")
    await page.get_by_role("button", name="Tea").click()
    await expect(said(page, "So be it")).to_be_visible()
    await write(page, "write the long report")
    await expect(page.get_by_text("The report begins")).to_be_visible()
    await page.get_by_role("button", name="Stop the agent").click()
    await expect(page.locator(".message.notice .body", has_text="Stopped")).to_be_visible()
    await life.settle()


async def live_through_a_restart(life: Life) -> None:
    """The gateway is stopped in the middle of two answers, and is away while two tasks are due."""
    life.pass_minutes(5)
    await life.run("budget", "set", "home", "--daily", "0.85")
    life.telegram.send("count slowly", room="direct:ann")
    await life.see(life.telegram, "One.", "direct:ann")
    life.slack.send("sing the song", room="team", sender="bob")
    await life.see(life.slack, "The song begins", "team")
    await asyncio.to_thread(life.daemon.stop)
    life.pass_minutes(20)
    life.touch("go on")
    await life.start()
    await life.see(life.telegram, "Three.", "direct:ann")
    await life.see(life.slack, "and ends", "team")
    await life.see(life.slack, "Stand-up", "team")
    await life.see(life.slack, "nothing is on fire", "team")
    await expect(life.page.locator(".live.on")).to_be_visible()
    await write(life.page, "spend")
    await expect(said(life.page, "Spent.")).to_be_visible()
    await write(life.page, "once more")
    await expect(life.page.get_by_text("is spent:")).to_be_visible()
    await life.settle()


async def write_transcripts(life: Life) -> None:
    """For people, who find odd what no assertion does."""
    folder = Path(PICTURES) if PICTURES else life.folder
    for kind, surface in life.surfaces.items():
        lines = []
        for room in dict.fromkeys(each.room for each in surface.changes):
            lines += [f"== {kind} {room}", ""]
            for each in surface.changes:
                if each.room == room:
                    moment = time.strftime("%H:%M:%S", time.gmtime(each.at))
                    lines.append(f"{moment} {each.what}".replace("\n", "\n         | "))
            lines.append("")
        (folder / f"hour-{kind}.txt").write_text("\n".join(lines), encoding="utf-8")
    if await life.page.locator("#message-list").count():
        shown = await life.page.locator("#message-list").inner_text()
        (folder / "hour-page.txt").write_text(shown, encoding="utf-8")
        await life.page.screenshot(path=folder / "hour-page.png")


# What people read.


def list_words(platform: EmulatedPlatform, room: str) -> list[str]:
    """Return what the bot says there, in one line each."""
    return [" | ".join(filter(None, each.splitlines())) for each in platform.texts(room)]


def list_mails(mail: MailServer) -> list[tuple[str, str, list[str]]]:
    """Return Ann's mails of the bot: the subject, the first line, and the files."""
    shown = mail.list_shown("direct:ann")
    return [(str(each.raw["Subject"]), each.text.splitlines()[0], [file.name for file in each.files]) for each in shown]


def list_order(shown: str, wanted: list[str]) -> list[str]:
    """Return those that stand in a text once, in their order there."""
    return sorted((each for each in wanted if shown.count(each) == 1), key=shown.index)


MOMENT = re.compile(r"\d\d:\d\d(?= UTC)")
INTERNALS = re.compile(
    r"\b[a-z]{1,3}-[0-9a-z]{16,}|Traceback|\bNone\b|[{\[]\"|\w+_\w+\(|\b(?:slack:T|telegram:|email:|web:)\S|@mail\.test"
)
DEEPER = re.compile(
    r"(?m)^Details.*(?:\n.*)?$|/answer p-\w+"
)  # a line of its own, and the way out where nothing can be pressed


def find_internals(life: Life, page: str) -> list[str]:
    """Return what nobody should read: ids, addresses, names of code."""
    texts = [each.text for platform in life.platforms for each in platform.list_shown()]
    return [found for text in [*texts, page] for found in INTERNALS.findall(DEEPER.sub("", text))]


ANN_READ = [
    "Welcome! You may write to Home from now on.",
    "Good morning, ann.",
    "Thank you, I have sales.csv.",
    "Sales by month",
    "February sold best.",
    "Good morning, ann.",
    "Last year January sold one, this year three.",
    "You said: Ship it today!",
    "Erik seems to be in a hurry.",
    "I will, as you say: please water the plants.",
    "Home asks\n\nWhich drink?\n\nAnswered by ann: Coffee.",
    "So be it.",
    "Stopped.",
    "This conversation: $0.00 today, $0.00 this month\nThere is no budget: nothing limits what it spends.",
    "One.",
    "I was interrupted, and go on with your message.",
    "Two.",
    "Three.",
]
ANN_GOT = [
    ("Re: My code", "Paired: you are ann here from now on. Whoever runs this gateway can take it back.", []),
    ("Re: Budget for March", "March has 500 left, ann.", []),
    ("Re: Budget for March", "The receipt", ["paid.txt"]),
    ("Re: Budget for March", "Booked.", []),
    ("Re: Drinks", "Home asks", []),
    ("Re: Drinks", "Which drink?", []),
    ("Re: Drinks", "So be it.", []),
]
TEAM_READ = [
    "You are on call, bob.",
    "Tomorrow it is Ann.",
    "You are on call, bob.",
    "Noted.",
    "I have asked for leave to say so.",
    "The office closes at five.",
    "I have asked for leave to say so.",
    "I will remind you.",
    "The brief comes later.",
    "Home asks | Which drink? | Answered by Bob: Coffee.",
    "dave: Only people who may speak to this agent here may answer this.",
    "So be it.",
    "The report begins | (stopped)",
    "Stopped.",
    "The song begins and ends.",
    "I was interrupted, and go on with your message.",
    "Stand-up in five minutes. | (late: it was due at … UTC)",
    "The brief: nothing is on fire.",
]
BOB_DECIDED = ["Allowed by Bob.", "Denied by Bob.", "Allowed by Bob."]
PAGE_READ = [
    "Good morning, Carla.",
    "Once upon a time there was a gate.",
    "I keep plan.txt.",
    "I will, as you say: please water the plants.",  # the transcript is the agent's; people see the recording
    "Home wants to send a message",
    "Allowed by Carla.",
    "I have asked for leave to say so.",
    "Answered by Carla: Tea.",
    "So be it.",
    "The report begins",
    "Stopped.",
    "Spent.",
    "is spent: $0.85 of $0.85.",
]
