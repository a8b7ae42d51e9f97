"""The chat page in a real browser."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, expect
from tests.browsers import needs_chromium, take_picture, visit
from tests.serve.web.page_desk import enter, reply, write

from gatepost.messages.outbound import Op
from gatepost.store.messages import inbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.rights import switches
from gatepost_testing.waiting import PATIENCE_S

HOME = "web:home"

# How much a cell's border stands out from what is behind it, by WCAG's measure: painted over it, then compared.
CONTRAST = """(cell) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  const behind = [];
  for (let at = cell; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
  const light = (colors) => {
    for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [ground, border] = [light(behind), light([...behind, getComputedStyle(cell).borderTopColor])];
  return (Math.max(ground, border) + 0.05) / (Math.min(ground, border) + 0.05);
}"""

pytestmark = needs_chromium


@pytest.fixture
async def context(window: BrowserContext) -> AsyncIterator[BrowserContext]:
    """`enter` takes its one tab."""
    async with visit(window) as page:
        yield page.context


async def test_a_message_is_sent_and_its_reply_appears_without_a_reload(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await page.evaluate("window.neverReloaded = true")

    await write(page, "Hello, are you there?")

    await expect(reply(page, "You said: Hello, are you there?")).to_be_visible()
    await expect(page.locator(".message.mine")).to_have_count(1)
    assert await page.evaluate("window.neverReloaded")
    assert page.url == f"{site.base}/"  # the token is gone
    assert not await page.evaluate("window.troubles")
    await take_picture(page, "web-reply")


@pytest.mark.slow
async def test_the_one_time_address_signs_in_once(site: Any, browser: Browser) -> None:
    token = await site.new_token()
    first, second = await browser.new_context(), await browser.new_context()
    page, other = await first.new_page(), await second.new_page()
    await page.goto(f"{site.base}/#token={token}")
    await expect(page.locator("#composer")).to_be_visible()

    await other.goto(f"{site.base}/#token={token}")

    await expect(other.locator("#state.bad")).to_contain_text("used before")
    await expect(other.get_by_text("gatepost login")).to_have_count(2)  # once, and where make puts it
    assert "token" not in other.url
    await take_picture(other, "web-used-address")
    await page.reload()
    await expect(page.locator("#composer")).to_be_visible()
    await first.close()
    await second.close()


@pytest.mark.slow
async def test_nothing_in_a_text_or_a_file_name_runs(site: Any, context: BrowserContext) -> None:
    attack = "<img src=x onerror='window.hurt=1'><script>window.hurt=1</script>[x](javascript:window.hurt=1)"
    site.answerer.answers = lambda text: attack
    page = await enter(context, site)
    await page.set_input_files(
        "#picker", {"name": "<img src=x onerror=window.hurt=1>.txt", "mimeType": "text/plain", "buffer": b"x"}
    )

    await write(page, attack)

    await expect(reply(page, "onerror")).to_be_visible()
    await expect(page.locator(".message.mine .attached .file[href^='/api/files/']")).to_contain_text("<img src=x")
    assert await page.locator("#message-list script, #message-list img").count() == 0
    assert await page.evaluate("window.hurt") is None


@pytest.mark.slow
async def test_a_send_that_fails_keeps_its_text_and_is_retried_once(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await context.route("**/api/messages", lambda route: route.abort())
    await write(page, "important")
    await expect(page.locator(".message.broken")).to_contain_text("Not sent")

    await context.unroute("**/api/messages")
    await page.get_by_role("button", name="Try again").click()

    await expect(reply(page, "You said: important")).to_be_visible()
    await expect(page.locator(".message.mine")).to_have_count(1)
    assert len(site.answerer.accepted) == 1


@pytest.mark.slow
async def test_stranger_e_what_did_not_reach_the_gateway_is_sent_when_it_is_back(
    site: Any, context: BrowserContext
) -> None:
    page = await enter(context, site)
    await context.route("**/api/**", lambda route: route.abort())
    await page.evaluate("window.dispatchEvent(new Event('online'))")  # makes it notice at once
    for text in ("first", "second"):
        await write(page, text)
    await expect(page.locator(".message.broken")).to_have_count(2)

    await context.unroute("**/api/**")
    await page.evaluate("window.dispatchEvent(new Event('online'))")

    await expect(reply(page, "You said: second")).to_be_visible()
    await expect(page.locator(".message.broken")).to_have_count(0)
    assert await page.locator(".message.mine .body").all_inner_texts() == ["first", "second"]
    assert len(site.answerer.accepted) == 2


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_stranger_e_code_is_not_striped_and_tables_have_borders(site: Any, browser: Browser, scheme: str) -> None:
    text = "Look:\n\n```\none = 1\ntwo = 2\n```\n\nand `this`\n\n| a | b |\n|---|--:|\n| 1 | 2 |"
    size: Any = {"width": 900, "height": 760}
    context = await browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB")  # type: ignore[arg-type]
    page = await enter(context, site)
    await write(page, text)
    await expect(page.locator(".message.mine .body pre")).to_be_visible()
    await site.answerer.say(HOME, "", text, key=f"shown-{scheme}")
    await expect(page.locator(".message:not(.mine) table").last).to_be_visible()
    look = "(element) => getComputedStyle(element).backgroundColor"
    assert await page.locator(".mine .body pre code").evaluate(look) == "rgba(0, 0, 0, 0)"
    assert await page.locator(".mine .body p code").evaluate(look) != "rgba(0, 0, 0, 0)"
    for cell in (page.locator(".mine .body td").first, page.locator(".message:not(.mine) td").last):
        assert await cell.evaluate(CONTRAST) > 1.4
    side = "(element) => getComputedStyle(element).textAlign"
    assert await page.locator(".mine .body td").first.evaluate(side) == "left"
    assert await page.locator(".message:not(.mine) td").last.evaluate(side) == "right"
    await take_picture(page, f"web-code-and-tables-{scheme}")
    await context.close()


@pytest.mark.slow
async def test_what_could_not_be_sent_is_seen_whole_also_below_a_banner(site: Any, context: BrowserContext) -> None:
    for number in range(30):
        await site.answerer.say(HOME, "", f"earlier {number}", key=f"k{number}")
    page = await enter(context, site)
    await context.route("**/api/**", lambda route: route.abort())
    await write(page, "line\n" * 8 + "the last line")
    await expect(page.locator(".message.broken")).to_contain_text("Not sent")
    await expect(page.locator("#banner")).to_be_visible()
    assert (await page.locator(".message.broken .body").inner_text()).count("\n") == 8

    await expect(page.get_by_role("button", name="Discard")).to_be_in_viewport(ratio=1)
    bottom = "(element) => element.getBoundingClientRect().bottom"
    under = await page.locator(".message.broken .under").evaluate(bottom)
    top = await page.locator("#composer").evaluate("(element) => element.getBoundingClientRect().top")
    assert under <= top
    await take_picture(page, "web-not-sent")


@pytest.mark.slow
async def test_a_text_that_is_too_long_stays_in_the_box_with_a_hint(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await write(page, "ä" * 40_000)

    await expect(page.locator("#hint")).to_contain_text("Too long by 14 KB")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await expect(page.get_by_label("Message", exact=True)).to_have_value("ä" * 40_000)
    await take_picture(page, "web-too-long")
    await write(page, "short")

    await expect(reply(page, "You said: short")).to_be_visible()
    await expect(page.locator("#hint")).to_be_hidden()
    assert len(site.answerer.accepted) == 1


@pytest.mark.slow
async def test_a_very_long_message_is_folded_until_somebody_wants_all_of_it(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await write(page, "\n".join(f"line {number}" for number in range(100)))
    await expect(reply(page, "line 99")).to_be_visible()
    folded = page.locator(".message.mine .body.folded")
    assert (await folded.bounding_box() or {})["height"] < 320  # type: ignore[index]
    await folded.scroll_into_view_if_needed()
    await take_picture(page, "web-folded")

    await page.get_by_role("button", name="Show all").click()
    await site.answerer.say(HOME, "", "", key="like", op=Op.REACT, target_id=site.answerer.accepted[0], reaction="👍")

    await expect(page.locator(".message.mine .reactions")).to_contain_text("👍")
    await expect(folded).to_have_count(0)


@pytest.mark.slow
async def test_a_file_without_a_text_reads_well(site: Any, context: BrowserContext) -> None:
    site.answerer.answers = lambda text: "I got it."
    page = await enter(context, site)
    await page.get_by_role("button", name="New conversation").first.click()
    await page.set_input_files("#picker", {"name": "plan.pdf", "mimeType": "application/pdf", "buffer": b"x" * 3000})
    await page.get_by_role("button", name="Send").click()

    await expect(reply(page, "I got it.")).to_be_visible()
    await expect(page.locator(".message.mine .attached .file")).to_contain_text("plan.pdf")
    await expect(page.locator(".message.mine .body")).to_have_count(0)
    await expect(page.locator("#rooms [aria-current=true]")).to_have_text("plan.pdf")
    await take_picture(page, "web-file")


@pytest.mark.slow
async def test_an_answer_that_got_lost_leaves_one_message(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)

    async def lose(route: Any) -> None:
        if route.request.method == "POST":
            await route.fetch()  # the gateway has it, the page does not know
            await route.abort()
        else:
            await route.continue_()

    await context.route("**/api/messages", lose)
    await write(page, "once")

    await expect(reply(page, "You said: once")).to_be_visible()
    await expect(page.locator(".message.mine")).to_have_count(1)
    await expect(page.locator(".message.broken")).to_have_count(0)


@pytest.mark.slow
async def test_after_a_lost_connection_nothing_is_missing(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await context.set_offline(True)
    await context.route("**/api/events*", lambda route: route.abort())
    await page.evaluate("window.dispatchEvent(new Event('online'))")  # makes it notice at once
    await expect(page.locator(".live.off")).to_be_attached()
    await site.answerer.say(HOME, "", "said while you were away", key="away")

    await context.unroute("**/api/events*")
    await context.set_offline(False)

    await expect(reply(page, "said while you were away")).to_be_visible()
    await expect(page.locator(".live.on")).to_be_visible()
    await expect(page.locator("#banner")).to_be_hidden()


@pytest.mark.slow
async def test_a_second_tab_takes_over_and_the_first_can_take_it_back(site: Any, context: BrowserContext) -> None:
    first = await enter(context, site)
    second = await enter(context, site)
    await expect(first.locator("#banner")).to_contain_text("another tab")
    await site.answerer.say(HOME, "", "to whoever listens", key="k1")
    await expect(reply(second, "to whoever listens")).to_be_visible()

    await first.get_by_role("button", name="Use it here").click()

    await expect(reply(first, "to whoever listens")).to_be_visible()
    await expect(second.locator("#banner")).to_contain_text("another tab")


@pytest.mark.slow
async def test_a_new_conversation_is_one_of_its_own(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    await write(page, "in the main one")
    await expect(reply(page, "in the main one")).to_be_visible()

    await page.get_by_role("button", name="New conversation").first.click()
    await expect(page.locator("#empty")).to_be_visible()
    await write(page, "a matter of its own")
    await expect(reply(page, "a matter of its own")).to_be_visible()
    await expect(page.locator(".message")).to_have_count(2)

    await page.locator("#rooms").get_by_role("button", name="home").click()
    await expect(reply(page, "in the main one")).to_be_visible()
    await expect(reply(page, "a matter of its own")).to_have_count(0)
    await page.reload()
    await page.locator("#rooms").get_by_role("button", name="a matter of its own").click()
    await expect(reply(page, "a matter of its own")).to_be_visible()


@pytest.mark.slow
async def test_work_states_edits_and_reactions_are_shown(site: Any, context: BrowserContext) -> None:
    site.answerer.by_itself = False
    page = await enter(context, site)
    await write(page, "take your time")
    await expect(page.locator(".message.mine .state")).to_have_text("Received")
    sent = site.answerer.accepted[0]
    turn = await site.answerer.begin(sent)
    await expect(page.locator("#typing")).to_be_visible()

    said = await site.answerer.say(HOME, "", "a first draft", key="k1", turn_id=turn)
    await expect(reply(page, "a first draft")).to_be_visible()
    await site.answerer.say(HOME, "", "the final text", key="k2", op=Op.EDIT, target_id=said)
    await site.answerer.say(HOME, "", "", key="k3", op=Op.REACT, target_id=sent, reaction="👍")
    await expect(reply(page, "the final text")).to_be_visible()
    await expect(page.locator(".message.mine .reactions")).to_contain_text("👍")
    entry = (await site.store.read(inbox.list_for_message, sent))[0]
    await site.store.write(lambda db: inbox.set_state(db, entry.id, InboxState.FAILED, "the provider gave up", None, 1))

    await expect(page.locator(".message.mine .state")).to_have_text("Failed. The provider gave up.")
    await expect(page.locator("#typing")).to_be_hidden()


@pytest.mark.slow
async def test_it_works_on_a_phone(site: Any, browser: Browser) -> None:
    phone = await browser.new_context(
        viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True, color_scheme="dark", locale="en-GB"
    )
    page = await enter(phone, site)
    await page.get_by_label("Message", exact=True).fill("from my phone")
    await page.get_by_role("button", name="Send").click()
    await expect(reply(page, "from my phone")).to_be_visible()
    await expect(page.locator("#sidebar")).to_be_hidden()

    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await take_picture(page, "web-phone")
    await page.get_by_role("button", name="Rooms and conversations").click()
    await expect(page.locator("#sidebar")).to_be_visible()
    await take_picture(page, "web-phone-rooms")
    await phone.close()


@pytest.mark.slow
async def test_a_stop_of_the_gateway_is_not_held_up_by_an_open_page(site: Any, context: BrowserContext) -> None:
    page = await enter(context, site)
    site.stop()
    await asyncio.wait_for(site.running, PATIENCE_S)
    await expect(page.locator("#banner")).to_contain_text("reconnect")


@pytest.mark.slow
async def test_the_head_says_that_everything_is_stopped_for_as_long_as_it_is(
    context: BrowserContext, site: Any
) -> None:
    page = await enter(context, site)
    head = page.locator("#halted")
    await expect(head).to_be_hidden()
    await site.store.write(switches.turn_on, switches.PANIC, "", "test", 1)
    site.answerer.hub.ring(HOME)
    await expect(head).to_be_visible()
    await expect(head).to_contain_text("What you write is kept")
    await expect(head.get_by_role("button", name="Go on")).to_be_visible()
    await site.store.write(switches.turn_off, switches.PANIC)
    site.answerer.hub.ring(HOME)
    await expect(head).to_be_hidden()
    assert await page.evaluate("window.troubles") is None
