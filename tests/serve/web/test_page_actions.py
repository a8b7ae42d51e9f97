"""What somebody can do with messages on the chat page, in a real browser: copy, change, send again, find, keep."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Route, expect
from tests.browsers import needs_chromium, start_browser, take_pictures, visit
from tests.serve.web.page_desk import enter, reply, write

from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.outbox import EffectOrigin, NewEffect
from gatepost.store.port import Db
from gatepost.store.sessions import turns
from gatepost_testing.waiting import PATIENCE_S

HOME = "web:home"
STOPPED_BY = "stopped by web:user/owner"
SOUND = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
CODE = "Try this:\n\n```python\ndef add(a, b):\n    return a + b\n```\n\n- [x] written\n- [ ] tested\n"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with start_browser(*SOUND) as started:
        yield started


@pytest.fixture
async def context(window: BrowserContext) -> AsyncIterator[BrowserContext]:
    """`enter` takes its one tab."""
    async with visit(window) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write", "microphone", "notifications"])
        yield page.context


async def read_clipboard(page: Page) -> str:
    return str(await page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.slow
async def test_a_message_and_a_block_of_code_are_copied_as_they_were_written(
    site: Any, context: BrowserContext
) -> None:
    site.answerer.answers = lambda text: CODE
    page = await enter(context, site)
    await write(page, "how?")
    answer = page.locator(".message:not(.mine)")
    await answer.hover()
    await take_pictures(page, "chat-code")

    await answer.hover()
    await answer.get_by_role("button", name="Copy message").click()
    await expect(answer.get_by_role("status")).to_have_text("Copied")
    assert await read_clipboard(page) == CODE

    await answer.get_by_role("button", name="Copy code").focus()  # seen by who comes to it by keys
    await page.keyboard.press("Enter")
    await expect(answer.get_by_role("status").last).to_have_text("Copied")
    assert await read_clipboard(page) == "def add(a, b):\n    return a + b\n"
    assert not await page.evaluate("window.troubles")


@pytest.mark.slow
async def test_the_last_message_is_called_back_by_a_key_changed_and_sent_as_a_new_one(
    site: Any, context: BrowserContext
) -> None:
    page = await enter(context, site)
    await write(page, "helo")
    await expect(reply(page, "You said: helo")).to_be_visible()
    box = page.get_by_label("Message", exact=True)

    await box.press("ArrowUp")
    await expect(box).to_have_value("helo")
    await expect(page.locator("#answering")).to_contain_text("Editing your last message")
    await box.press("Escape")  # not now
    await expect(box).to_have_value("")
    await page.locator(".message.mine").hover()
    await page.get_by_role("button", name="Edit and send again").click()
    await box.fill("hello")
    await box.press("Enter")

    await expect(reply(page, "You said: hello")).to_be_visible()
    await expect(page.locator("#answering")).to_be_hidden()
    assert [each.text for each in site.answerer.received] == ["helo", "hello"]


@pytest.mark.slow
async def test_only_the_last_message_is_sent_again_and_takes_its_files_along(
    site: Any, context: BrowserContext
) -> None:
    page = await enter(context, site)
    await write(page, "first")
    await expect(reply(page, "You said: first")).to_be_visible()
    file = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}
    await page.set_input_files("#picker", file)
    await write(page, "second")
    await expect(reply(page, "You said: second")).to_be_visible()
    assert await page.get_by_role("button", name="Send again", exact=True).count() == 1

    await page.locator(".message.mine").last.hover()
    await page.get_by_role("button", name="Send again", exact=True).click()

    await expect(reply(page, "You said: second")).to_have_count(2)
    sent = site.answerer.received
    assert [each.text for each in sent] == ["first", "second", "second"]
    assert [each.attachments[0].data for each in sent[1:]] == [b"remember the milk"] * 2
    assert len({each.platform_id for each in sent}) == 3


async def test_a_stop_is_one_line_and_an_order_that_stopped_nothing_stays(site: Any, context: BrowserContext) -> None:
    site.answerer.by_itself = False
    page = await enter(context, site)
    await write(page, "/stop")
    await expect(page.locator(".message.mine:not(.waiting)")).to_have_count(1)
    await end(site, 0, InboxState.ANSWERED)
    await notify(site, "Nothing is running here.")
    await write(page, "work")
    await expect(page.locator(".message.mine:not(.waiting)")).to_have_count(2)
    turn = await site.answerer.begin(site.answerer.accepted[1])
    await write(page, "and this")
    await expect(page.locator(".message.mine:not(.waiting)")).to_have_count(3)
    await write(page, "/stop")
    await expect(page.locator(".message.mine:not(.waiting)")).to_have_count(4)
    await site.store.write(turns.cancel, turn, STOPPED_BY, site.answerer.clock.now())
    await end(site, 2, InboxState.CANCELLED, STOPPED_BY)
    await end(site, 3, InboxState.ANSWERED)
    await expect(page.get_by_text("It was stopped.")).to_have_count(2)  # as long as nothing else says so
    await notify(site, "Stopped.")

    await expect(page.locator(".message.notice .body", has_text="Stopped.")).to_be_visible()
    await expect(page.locator(".message .body")).to_have_text(
        ["/stop", "Nothing is running here.", "work", "and this", "Stopped."]
    )
    await expect(page.locator(".message .state")).to_have_count(0)
    await write(page, "go on")
    await expect(page.locator(".message.mine:not(.waiting) .body")).to_have_text(["/stop", "work", "and this", "go on"])


async def end(site: Any, number: int, state: InboxState, reason: str = "") -> None:
    """What becomes of a message that was accepted."""

    def settle(db: Db) -> None:
        (entry,) = inbox.list_for_message(db, site.answerer.accepted[number])
        inbox.set_state(db, entry.id, state, reason, None, site.answerer.clock.now())

    await site.store.write(settle)
    site.answerer.hub.ring(HOME)


async def notify(site: Any, text: str) -> None:
    """The gateway says something by itself."""
    new = NewEffect(
        key=f"notice/{text}",
        op=Op.SEND,
        origin=EffectOrigin.NOTICE,
        instance=site.answerer.hub.instance,
        address=HOME,
        text=text,
        payload={"text": text},
    )
    await site.store.write(outbox.add, new, site.answerer.clock.now())
    await site.answerer.deliver(HOME, new.key)


@pytest.mark.slow
async def test_a_busy_agent_is_told_to_stop_by_a_key_or_before_a_changed_message(
    site: Any, context: BrowserContext
) -> None:
    site.answerer.by_itself = False
    page = await enter(context, site)
    await expect(page.get_by_role("button", name="Stop the agent")).to_be_hidden()
    await write(page, "work")
    await expect(page.get_by_role("button", name="Stop the agent")).to_be_visible()
    await take_pictures(page, "chat-working")

    await page.keyboard.press("Control+.")
    await expect(page.locator(".message.mine .body", has_text="/stop")).to_be_visible()
    await page.locator(".message.mine").first.hover()
    await page.get_by_role("button", name="Edit and send again").click()
    await page.get_by_label("Message", exact=True).fill("work harder")
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.mine .body", has_text="work harder")).to_be_visible()

    await expect(page.locator(".message.mine:not(.waiting)")).to_have_count(4)
    assert [each.text for each in site.answerer.received] == ["work", "/stop", "/stop", "work harder"]


@pytest.mark.slow
async def test_a_search_leads_to_a_message_that_is_not_loaded_and_back(site: Any, context: BrowserContext) -> None:
    await site.answerer.say(HOME, "", "The needle lies <b>here</b>.", key="needle")
    for number in range(90):
        await site.answerer.say(HOME, "", f"hay {number}", key=f"hay{number}")
    page = await enter(context, site)
    await expect(reply(page, "hay 89")).to_be_visible()
    await expect(reply(page, "needle")).to_have_count(0)

    await page.keyboard.press("Control+k")
    await page.keyboard.type("need")
    found = page.get_by_role("dialog").get_by_role("button")
    await expect(found).to_have_count(1)
    await expect(found.locator(".snippet")).to_contain_text("<b>here</b>")
    await expect(found.locator("mark")).to_have_text("needle")
    await take_pictures(page, "chat-search")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(reply(page, "needle")).to_be_in_viewport()
    await expect(reply(page, "hay 89")).to_have_count(0)
    await site.answerer.say(HOME, "", "said meanwhile", key="meanwhile")
    await page.get_by_role("button", name="Back to the newest").click()
    await expect(reply(page, "said meanwhile")).to_be_in_viewport()
    await expect(reply(page, "needle")).to_have_count(0)
    assert not await page.evaluate("window.troubles")


@pytest.mark.slow
async def test_what_is_not_sent_yet_and_how_far_was_read_outlive_the_page(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await write(page, "hello")
    await expect(reply(page, "You said: hello")).to_be_visible()
    await page.get_by_label("Message", exact=True).fill("half a thought")
    await page.get_by_role("button", name="New conversation").click()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    await page.close()
    await site.answerer.say(HOME, "", "said while you were away", key="away")

    again = await context.new_page()
    await again.goto(f"{site.base}/")
    await expect(again.get_by_label("Message", exact=True)).to_have_value("half a thought")
    marker = again.locator(".day.new")
    await expect(marker).to_be_visible()
    assert await marker.evaluate("(item) => item.nextElementSibling.textContent.includes('while you were away')")
    await again.reload()
    await expect(reply(again, "said while you were away")).to_be_visible()
    await expect(marker).to_have_count(0)

    await again.get_by_role("button", name="Sign out").click()
    await expect(again.locator("#composer")).to_have_count(0)
    assert await again.evaluate("localStorage.length") == 0  # nothing for who comes next


@pytest.mark.slow
async def test_a_picture_is_pasted_and_dropped_and_a_pdf_is_opened_and_not_saved(
    site: Any, context: BrowserContext
) -> None:
    page = await enter(context, site)
    await page.evaluate(
        """() => {
          const give = (kind, name, type) => {
            const data = new DataTransfer();
            data.items.add(new File(["%PDF-1.4"], name, { type }));
            const target = document.getElementById("text");
            const Kind = kind === "paste" ? ClipboardEvent : DragEvent;
            const how = kind === "paste" ? { clipboardData: data } : { dataTransfer: data };
            target.dispatchEvent(new Kind(kind, { ...how, bubbles: true, cancelable: true }));
          };
          give("paste", "seen.png", "image/png");
          give("drop", "paper.pdf", "application/pdf");
        }"""
    )
    await expect(page.locator("#files li")).to_have_count(2)
    await expect(page.locator("#files img")).to_have_count(1)
    await page.get_by_label("Message", exact=True).press("Enter")

    paper = page.locator(".message.mine a", has_text="paper.pdf")
    await expect(paper).to_have_attribute("target", "_blank")
    await expect(paper).not_to_have_attribute("download", "paper.pdf")
    answer = await context.request.get(f"{site.base}{await paper.get_attribute('href')}")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"].startswith("inline")
    await expect(page.locator("#files li")).to_have_count(0)


@pytest.mark.slow
async def test_a_voice_note_is_recorded_sent_and_can_be_played(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    record = page.locator("#record")
    await record.click()
    await expect(record).to_have_attribute("aria-label", "Stop recording")
    await record.click()
    await expect(page.locator("#files li")).to_contain_text("voice-note.webm")
    await page.get_by_label("Message", exact=True).press("Enter")

    player = page.locator(".message.mine audio")
    await expect(player).to_be_visible()
    note = site.answerer.received[0].attachments[0]
    assert (note.kind, note.mime) == ("audio", "audio/webm")
    assert len(note.data) > 0
    await player.evaluate("(sound) => sound.play()")
    assert not await page.evaluate("window.troubles")


@pytest.mark.slow
async def test_who_asked_for_it_is_notified_while_the_page_is_out_of_sight(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await page.evaluate(
        """() => {
          window.told = [];
          window.Notification = class extends EventTarget {
            static permission = "granted";
            static requestPermission = async () => "granted";
            constructor(title, { body }) { super(); window.told.push([title, body]); }
          };
        }"""
    )
    await site.answerer.say(HOME, "", "before", key="before")
    await expect(reply(page, "before")).to_be_visible()
    await page.get_by_role("button", name="Notify me of answers").click()
    await expect(page.get_by_role("button", name="Notifications are on")).to_have_attribute("aria-pressed", "true")
    await site.answerer.say(HOME, "", "in sight", key="insight")
    await expect(reply(page, "in sight")).to_be_visible()
    await page.evaluate("Object.defineProperty(document, 'visibilityState', { value: 'hidden' })")
    await site.answerer.say(HOME, "", "out of sight", key="outofsight")
    await expect(reply(page, "out of sight")).to_be_visible()
    assert await page.evaluate("window.told") == [["home", "out of sight"]]


@pytest.mark.slow
async def test_the_page_can_be_installed_and_leads_to_the_overview(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await expect(page.get_by_role("link", name="Agents and settings")).to_have_attribute("href", "/dashboard/")
    href = await page.locator("link[rel=manifest]").get_attribute("href")
    manifest = await (await context.request.get(f"{site.base}{href}")).json()
    assert (manifest["start_url"], manifest["display"]) == ("/", "standalone")
    icon = await context.request.get(f"{site.base}{manifest['icons'][0]['src']}")
    assert icon.headers["content-type"].startswith("image/svg+xml")


@pytest.mark.slow
async def test_what_is_sent_before_the_page_knows_its_rooms_is_sent_once_it_does(
    site: Any, context: BrowserContext
) -> None:
    page = await enter(context, site)
    held: list[Route] = []
    asked = asyncio.Event()

    async def hold(route: Route) -> None:
        held.append(route)
        asked.set()

    await page.route("**/api/start", hold)
    await page.reload()
    async with asyncio.timeout(PATIENCE_S):
        await asked.wait()
    await write(page, "early words")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("early words")
    await held[0].continue_()
    await expect(reply(page, "early words")).to_have_count(1)
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
